// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply is Helm's client of a cluster: it builds, creates, updates and deletes the objects of a manifest.
//
// It does the following in addition to Helm's own client:
//
//   - It does not delete objects that belong to another release (deletion.go).
//   - It creates some objects right after the first record, instead of reading them before it (assumed.go).
//   - It does not read an object before a change if it knows the content of the object (update.go).
//   - With the option force, it replaces objects that the cluster refuses to change (force.go).
//   - It deletes an object with the name of a hook only if the object belongs to no other release (hooks.go).
//   - Its waits end when the action is stopped or when its record no longer exists (package waits).
//   - It deletes the objects that failed revisions left behind (leftovers.go), and reverts the fields that they set
//     (revert.go).
//
// The package does not decide which manifest is applied, and it writes no records. Callers create one [Client] for each
// action.
package apply
