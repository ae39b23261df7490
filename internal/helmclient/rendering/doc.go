// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rendering renders charts. A chart is untrusted code: its templates, schemas and values may need any amount of
// memory and time. So tasks of a [sandbox.Runner] process them, see [Tasks]. The engine runs the tasks by a [Renderer].
//
// # Contract
//
//   - A chart yields the same as with Helm: the same files to the byte, the same errors, the same chart in the record.
//     The engine gives Helm a chart of literal templates, see [Rendered], and Helm does the rest.
//   - Tasks also process dependencies, conditions, aliases and imported values: a chart can name one subchart many
//     times.
//   - The engine answers lookups of a chart with the identity of the action. It bounds their number and their size.
//   - A task refuses a manifest that is small as text and large after its aliases are expanded: Helm would parse it in
//     the process of the engine.
//   - An error of the kind [ErrLimit] names the limit and the template.
//   - Errors of schemas and patches quote no values. Errors of templates may quote values: the engine hides them.
package rendering
