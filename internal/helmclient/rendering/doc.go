/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package rendering renders charts. A chart is untrusted code: its templates, its schema and its values may take any amount of memory and
// time. So all of that happens in tasks of a [sandbox.Runner], see [Tasks], and a [Renderer] is how the engine uses them.
//
// # Contract
//
//   - What a chart yields is what Helm would yield: the same files to the byte, the same errors, the same chart in the record. The engine
//     gives Helm a chart of literal templates, see [Rendered], and Helm does the rest.
//   - Dependencies, conditions, aliases and imported values are processed in the task, too: a chart can name one subchart many times.
//   - What a chart looks up in the cluster is asked by the engine, with the identity of the action. The number and the size of lookups are
//     bounded.
//   - A manifest that is small as text and large once its aliases are followed is refused: Helm would parse it in this process.
//   - An error of the kind [ErrLimit] names the limit and the template.
//   - Errors of schemas and patches quote no values. Errors of templates may: the engine hides values.
package rendering
