// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verbs carries out decisions: it installs, upgrades, adopts, rolls back, tests and uninstalls one release with
// the Helm SDK. The package does not decide when an action is needed: package decide does. It holds no state between
// actions. Each action has a file.
//
// The caller checks a job with [Check] before it opens a session, because the check needs no cluster. Then it calls
// [Perform] with the session. The caller must not perform two jobs on a release at the same time.
//
// # Contract
//
//   - Perform changes nothing if the newest record is not the record that the decision is based on (checks.go).
//   - Before the first change, Perform checks that the record can be stored, and that the caller permits the deletions.
//   - Perform deletes the objects of failed revisions that are still in the cluster.
//   - To remediate a failure, Perform uninstalls only a release of this owner that never worked.
package verbs
