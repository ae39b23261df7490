// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply is Helm's client of a cluster: it builds, creates, updates and deletes the objects of a manifest.
//
// It does the following in addition to Helm's own client:
//
//   - It does not delete objects that belong to another release (deletion.go).
//   - It creates the namespace right before the first record (namespace.go).
//   - It creates some objects right after the first record, instead of reading them before it (assumed.go).
//   - It does not read an object before a change if it knows the content of the object (update.go).
//   - With the option force, it replaces objects that the cluster refuses to change (force.go).
//   - It ends an action whose record no longer exists (stop.go).
//   - Its waits for hooks end when the action is stopped (hooks.go).
//   - It deletes the objects that failed revisions left behind (leftovers.go), and reverts the fields that they set
//     (revert.go).
//
// The package does not decide which manifest is applied, and it writes no records. Callers create one [Client] for each
// action.
package apply
