// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide decides the next action on a release: [Next] for a desired release, [Uninstall] for a release that is
// not desired. Both are pure functions: they read no cluster and carry out no action. The caller passes its
// observation. It must not call them while its own action on the release runs.
//
// # Decisions after a failure
//
// An attempt counts as failed if it left a failed record, or if its tests failed. With [model.RemediateRollback], it
// also counts if the caller reports that the revision did not become healthy. An attempt without a record does not
// count. The next attempt waits, see [model.Backoff]. When the attempts of the [model.FailurePolicy] are used up, the
// decision is to stall. Failed rollbacks are counted separately, with the same policy. An interrupted attempt is
// continued at once. From the third interruption in a row, each interruption counts as a failure, because the attempt
// itself may break the connection or end the process.
//
// The record of an interrupted action stays until another record replaces it: this record is the only evidence that the
// action began.
//
// The target of a rollback is the newest older revision that worked and was not made from the desired state. The record
// of the rollback has the digests of the target. It also names the attempt that was rolled back. This distinguishes the
// record from the record of an old revision.
//
// If [model.Desired].Return is set, the desired state is an earlier state of the release, for example after the rollout
// of a fleet was aborted. The decision is then a rollback to a revision that was made from exactly the desired state.
// Such a rollback needs no chart and no values. The result is in sync and is tested as usual. A failed return is tried
// again and never rolled back.
//
// A failed or interrupted upgrade never leads to an uninstallation. For a desired release, the decision is to uninstall
// only with [model.RemediateUninstall], if the history proves that no revision ever worked, and to finish such an
// uninstallation. If another uninstallation of a desired release did not complete, the decision is to upgrade.
package decide
