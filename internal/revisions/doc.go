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

// Package revisions decides what a HelmOpRevision stores and which HelmOpRevisions are kept. It is made of pure functions over the types of
// the API.
//
// A revision holds the spec of its HelmOp, of up to 1.5 MiB, and a HelmOp has up to a hundred of them and those that are in use. Most changes are of the chart's
// version, and leave the large fields as they are. So a large field is stored once: a revision whose field is the same as that of an earlier one
// leaves it out and names the earlier one in spec.contentFrom. [Share] does that, and [Complete] puts the fields back.
//
// [Surplus] bounds the number and the bytes of the revisions. It never takes one that is in use, or that holds what another one needs.
package revisions
