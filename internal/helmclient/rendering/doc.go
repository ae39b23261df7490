// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rendering renders charts. A chart is untrusted code: its templates, schemas and values may need any amount of
// memory and time. So the tasks of a [sandbox.Runner] process charts, see [Tasks]. The engine runs the tasks with a
// [Renderer].
//
// # Contract
//
//   - The result is the same as with Helm: byte-identical files, the same errors, and the same chart in the record. The
//     engine passes a chart of literal templates to Helm, see [Rendered]. Helm does the rest.
//   - Tasks also process dependencies, conditions, aliases and imported values, because a chart can name a subchart
//     many times.
//   - The engine carries out the lookups of a chart as the user of the action. It limits the number and the size of
//     lookups.
//   - A task rejects a manifest that is small as text and large after its aliases are expanded: Helm would parse it in
//     the process of the engine.
//   - An error of the kind [ErrLimit] names the limit and the template.
//   - A task that failed without a lookup fails again for a minute with the same input, and does not run. Values that a
//     schema accepted are not checked again for a minute. Each tenant has a share of the memory for this.
//   - Before a task runs, the engine can refuse it, see [Source].
//   - Errors of schemas and patches quote no values. Errors of templates may quote values, and the engine removes them.
package rendering
