// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide decides what a release needs next: [Next] if a release is desired, [Uninstall] if none is. Both are pure functions.
//
// # What follows a failure
//
// A try counts as failed if it left a failed record, if its tests failed, and, with [model.RemediateRollback], if the
// caller says that it did not become healthy. One that never reached the storage does not count. The next try waits, see
// [model.Backoff]; after as many as the [model.FailurePolicy] allows, the decision is to stall. Rollbacks that fail are counted apart, by
// the same policy. A try that was cut off is continued at once; from the third in a row on it counts like one that failed,
// since it may itself be what cuts the connection or ends the process.
//
// The record of an action that was cut off stays until another takes its place: nothing else shows that something began.
//
// A rollback returns to the newest revision below that worked and was not made from what is desired. Its record has the
// digests of that revision, and says what was rolled back from: only this distinguishes the return from an old revision.
//
// If a [model.Desired] is a Return, what is desired is what the release had before, for example because the rollout of a fleet
// was aborted. The decision then follows the history, but without chart and values, and to a revision that was made from exactly what is
// desired. The result is in sync, and is tested as any other; a return that fails is tried again and never rolled back.
//
// A failed or interrupted upgrade never leads to an uninstallation. The decision is to uninstall in order to finish an uninstallation
// which had begun, and with [model.RemediateUninstall] if the history proves that no revision ever worked.
package decide
