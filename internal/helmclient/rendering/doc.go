// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

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
