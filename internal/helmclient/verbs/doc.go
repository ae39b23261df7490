// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verbs carries out decisions: it installs, upgrades, adopts, rolls back, tests and uninstalls one release with
// the Helm SDK. Each action has a file.
//
// [Check] and [Perform] are the interface. The caller checks a job before it opens a session, because the check needs
// no cluster. It performs one job with a session, and at most one job on a release at the same time.
//
// # Contract
//
//   - Perform changes nothing if the newest record is not the one that the decision is based on (checks.go).
//   - Before the first change, it checks whether the record can be stored, and whether the caller admits the deletions.
//   - It deletes the objects that failed revisions left behind.
//   - It never uninstalls a release that worked or belongs to another owner, whatever the cause of the decision.
//
// The package decides nothing: the decision says which action, and from which revision. It holds no state between
// actions.
package verbs
