// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestDecideReturn checks when a return is a rollback in Helm's history, and to which revision.
func TestDecideReturn(t *testing.T) {
	t.Parallel()
	back := func(state model.State, reason string, target, from int) Decision {
		return Decision{State: state, Action: model.ActionRollback, Reason: reason, RollbackTo: target, Returns: true,
			FromRevision: from, ToRevision: from + 1}
	}
	upgrade := func(state model.State, reason string, from int) Decision {
		return Decision{State: state, Action: model.ActionUpgrade, Reason: reason, FromRevision: from, ToRevision: from + 1}
	}
	bad, had := helmtest.Record("deployed", 2, otherArtifact), helmtest.Record("superseded", 1)
	runReturnCases(t, map[string]remediationCase{
		"to an earlier revision": {records: []model.Record{bad, had},
			want: back(model.StateOutOfSync, ReasonReturn, 1, 2)},
		"from a failed revision": {records: []model.Record{helmtest.Record("failed", 2, otherValues),
			helmtest.Record("deployed", 1)}, want: back(model.StateOutOfSync, ReasonReturn, 1, 2)},
		"to the newest matching revision": {records: []model.Record{helmtest.Record("deployed", 9, otherValues),
			helmtest.Record("superseded", 7), helmtest.Record("superseded", 5, otherArtifact), helmtest.Record("superseded", 4)},
			want: back(model.StateOutOfSync, ReasonReturn, 7, 9)},
		"not to a revision made with helm": {records: []model.Record{bad, helmtest.Record("superseded", 1, otherHand)},
			want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to a revision of another owner": {records: []model.Record{bad, helmtest.Record("superseded", 1, otherOwner)},
			want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to a failed revision": {records: []model.Record{bad, helmtest.Record("failed", 1)},
			want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to other values": {records: []model.Record{bad, helmtest.Record("superseded", 1, otherValues)},
			want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to other options": {records: []model.Record{bad, helmtest.Record("superseded", 1, otherOptions)},
			want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"not beyond an uninstallation": {records: []model.Record{bad, helmtest.Record("uninstalled", 1),
			helmtest.Record("superseded", 1)}, want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"target no longer exists": {records: []model.Record{bad},
			want: upgrade(model.StateOutOfSync, ReasonArtifactChanged, 2)},
		"to a revision with failed tests": {records: []model.Record{bad,
			helmtest.Record("superseded", 1, tested(model.TestedFailed))}, want: back(model.StateOutOfSync, ReasonReturn, 1, 2)},
		"to the record of a rollback": {records: []model.Record{helmtest.Record("deployed", 4, otherArtifact),
			helmtest.Record("superseded", 3, rolledBackFromOther), helmtest.Record("failed", 2, otherArtifact)},
			want: back(model.StateOutOfSync, ReasonReturn, 3, 4)},
		"changed with helm": {records: []model.Record{helmtest.Record("deployed", 3, otherHand), bad, had},
			want: back(model.StateUnmanaged, ReasonChangedOutsideHelmOp, 1, 3)},
		"nothing is deployed": {records: []model.Record{helmtest.Record("superseded", 3), bad, had},
			want: back(model.StateOutOfSync, ReasonNotDeployed, 1, 3)},
		"already in sync": {records: []model.Record{helmtest.Record("deployed", 3), bad, had},
			want: Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 3,
				ToRevision: 3}},
		"a rollback already made it": {records: []model.Record{helmtest.Record("deployed", 3, rolledBackFromOther),
			helmtest.Record("failed", 2, otherArtifact), had}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 3,
				ToRevision: 3}},
		"absent": {want: Decision{State: model.StateAbsent, Action: model.ActionInstall,
			Reason: ReasonNotInstalled, ToRevision: 1}},
		"uninstalled": {records: []model.Record{helmtest.Record("uninstalled", 3), bad, had},
			want: Decision{State: model.StateUninstalled, Action: model.ActionInstall, Reason: ReasonNotInstalled,
				FromRevision: 3, ToRevision: 4}},
		"foreign": {records: []model.Record{helmtest.Record("deployed", 3, otherOwner), had},
			want: Decision{State: model.StateForeign, Action: model.ActionRefuse, Reason: ReasonConflict, FromRevision: 3,
				ToRevision: 3}},
		"pending of another UID": {records: []model.Record{helmtest.Record("pending-upgrade", 3, otherUID), bad, had},
			want: Decision{State: model.StatePending, Action: model.ActionWait, Reason: ReasonPendingOtherOwner, FromRevision: 3,
				ToRevision: 3, Interruptions: 1, RequeueAfter: OtherProcessRetry}},
	})
}

// TestDecideFailedReturnIsRetried checks a failed return: a rollback to the Helm revision with the desired state. It is
// tried again, within the limit of retries. It is never rolled back, because this would restore the abandoned state.
func TestDecideFailedReturnIsRetried(t *testing.T) {
	t.Parallel()
	bad, had := helmtest.Record("deployed", 2, otherArtifact), helmtest.Record("superseded", 1)
	again := func(target, from, count int) Decision {
		return Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: ReasonRetryFailed, RollbackTo: target,
			Returns: true, FromRevision: from, ToRevision: from + 1, Failures: count}
	}
	withTests := helmtest.WithRollback
	withTests.Test.Enabled = true
	inSync := Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 3,
		ToRevision: 3}
	runReturnCases(t, map[string]remediationCase{
		"retry, not back to the abandoned state": {records: []model.Record{helmtest.Record("failed", 3), bad, had},
			policy: helmtest.WithRollback, want: again(1, 3, 1)},
		"not yet": {records: []model.Record{helmtest.Record("failed", 3, changed(0)), bad, had},
			policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 3,
				ToRevision: 3, Failures: 1, RequeueAfter: 10 * time.Second}},
		"no retry left": {records: []model.Record{helmtest.Record("failed", 4, failures(1)), helmtest.Record("failed", 3),
			bad,
			had}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4,
				ToRevision: 4, Failures: 2}},
		"retry requested": {records: []model.Record{helmtest.Record("failed", 4, failures(1)), bad, had},
			policy: helmtest.WithRollback, past: model.Past{RetryRequested: true}, want: again(1, 4, 0)},
		"failed attempts removed the target": {records: []model.Record{helmtest.Record("failed", 4, failures(1)),
			helmtest.Record("failed", 3), bad}, want: again(4, 4, 2)},
		"the installation failed": {records: []model.Record{helmtest.Record("failed", 1)},
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 1,
				ToRevision: 2, Failures: 1}},
		"unhealthy": {records: []model.Record{helmtest.Record("deployed", 3), bad, had},
			policy: helmtest.WithRollback, past: model.Past{Unhealthy: true}, want: inSync},
		"untested": {records: []model.Record{helmtest.Record("deployed", 3), bad,
			helmtest.Record("superseded", 1, tested(model.TestedPassed))}, policy: withTests,
			want: Decision{State: model.StateUntested, Action: model.ActionTest, Reason: ReasonUntested, FromRevision: 3,
				ToRevision: 3}},
		"tests failed": {records: []model.Record{helmtest.Record("deployed", 3,
			tested(model.TestedFailed), failures(1)), bad, had}, policy: withTests,
			want: Decision{State: model.StateFailed, Action: model.ActionTest, Reason: ReasonTestsFailed, FromRevision: 3,
				ToRevision: 3, Failures: 1}},
		"rolled back before": {records: []model.Record{helmtest.Record("deployed", 3, rolledBack,
			failures(1)), helmtest.Record("superseded", 2), helmtest.Record("superseded", 1, otherArtifact)},
			policy: helmtest.WithRollback,
			want:   func() Decision { d := again(2, 3, 1); d.State = model.StateRolledBack; return d }()},
		"a rollback from the state failed": {records: []model.Record{helmtest.Record("failed", 3, rolledBack, failures(1)),
			helmtest.Record("superseded", 2), helmtest.Record("superseded", 1, otherArtifact)}, policy: helmtest.WithRollback,
			want: again(2, 3, 1)},
		"interrupted, marked as failed": {records: []model.Record{helmtest.Record("failed", 3, interrupted, changed(0)),
			bad, had}, policy: helmtest.NeverRetry,
			want: Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: ReasonInterrupted, RollbackTo: 1,
				Returns: true, FromRevision: 3, ToRevision: 4, Interruptions: 1}},
		"drift is corrected": {records: []model.Record{helmtest.Record("deployed", 3), bad, had},
			policy: model.Policy{CorrectDrift: true}, past: model.Past{Drifted: true},
			want: Decision{State: model.StateDrifted, Action: model.ActionCorrectDrift, Reason: ReasonDrifted, FromRevision: 3,
				ToRevision: 3}},
		"drift of the abandoned state is not corrected": {records: []model.Record{bad, had},
			policy: model.Policy{CorrectDrift: true},
			past:   model.Past{Drifted: true},
			want: Decision{State: model.StateOutOfSync, Action: model.ActionRollback, Reason: ReasonReturn, RollbackTo: 1,
				Returns: true, FromRevision: 2, ToRevision: 3}},
	})
}

// TestDecideInterruptedReturn checks that an interrupted return is repeated under the same revision, and that a return
// can replace an interrupted upgrade.
func TestDecideInterruptedReturn(t *testing.T) {
	t.Parallel()
	bad, had := helmtest.Record("deployed", 2, otherArtifact), helmtest.Record("superseded", 1)
	pending := func(reason string, recovery Recovery, target, from, to, cut int) Decision {
		return Decision{State: model.StatePending, Action: model.ActionRollback, Reason: reason, Recovery: recovery,
			RollbackTo: target, Returns: true,
			FromRevision: from, ToRevision: to, Interruptions: cut}
	}
	runReturnCases(t, map[string]remediationCase{
		"of the same UID": {records: []model.Record{helmtest.Record("pending-rollback", 3, changed(0)), bad, had},
			policy: helmtest.NeverRetry, want: pending(ReasonInterrupted, RecoverReplace, 1, 3, 3, 1)},
		"after a move, young": {records: []model.Record{helmtest.Record("pending-rollback", 3, otherUID), bad, had},
			want: Decision{State: model.StatePending, Action: model.ActionWait, Reason: ReasonPendingOtherOwner, FromRevision: 3,
				ToRevision: 3, Interruptions: 1, RequeueAfter: OtherProcessRetry}},
		"after a move, old": {records: []model.Record{helmtest.Record("pending-rollback", 3, otherUID, old), bad, had},
			want: pending(ReasonPendingTimeout, RecoverReplace, 1, 3, 3, 1)},
		"interrupted each time": {records: []model.Record{helmtest.Record("pending-rollback", 3, interruptions(2),
			changed(0)), bad, had},
			want: Decision{State: model.StatePending, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 3,
				ToRevision: 3, Interruptions: 3, RequeueAfter: 10 * time.Second}},
		"gap in the history": {records: []model.Record{helmtest.Record("pending-rollback", 4), bad, had},
			want: pending(ReasonInterrupted, RecoverFail, 1, 4, 5, 1)},
		"no other target": {records: []model.Record{helmtest.Record("pending-rollback", 3), bad},
			want: pending(ReasonInterrupted, RecoverFail, 3, 3, 4, 1)},
		"upgrade to the state": {records: []model.Record{helmtest.Record("pending-upgrade", 3), bad, had},
			want: pending(ReasonInterrupted, RecoverReplace, 1, 3, 3, 1)},
		"upgrade to the state, no target": {records: []model.Record{helmtest.Record("pending-upgrade", 3), bad},
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonInterrupted,
				Recovery: RecoverReplace, FromRevision: 3, ToRevision: 3, Interruptions: 1}},
		"upgrade to the abandoned state": {records: []model.Record{helmtest.Record("pending-upgrade", 2, otherArtifact),
			helmtest.Record("deployed", 1)}, want: pending(ReasonReturn, RecoverFail, 1, 2, 3, 0)},
		"upgrade to the abandoned state, no target": {records: []model.Record{helmtest.Record("pending-upgrade", 2,
			otherArtifact), helmtest.Record("deployed", 1, otherValues)},
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonArtifactChanged,
				Recovery: RecoverFail, FromRevision: 2, ToRevision: 3}},
		"rollback from the state": {records: []model.Record{helmtest.Record("pending-rollback", 3, rolledBack, failures(1)),
			helmtest.Record("superseded", 2), helmtest.Record("superseded", 1, otherArtifact)}, policy: helmtest.WithRollback,
			want: func() Decision { d := pending(ReasonInterrupted, RecoverFail, 2, 3, 4, 1); d.Failures = 1; return d }()},
	})
}

// TestDecideUpgradesWithoutReturn checks that the decision is an upgrade, and not a rollback, unless a return is
// desired.
func TestDecideUpgradesWithoutReturn(t *testing.T) {
	t.Parallel()
	runRemediationCases(t, map[string]remediationCase{
		"out of sync": {records: []model.Record{helmtest.Record("deployed", 2, otherArtifact),
			helmtest.Record("superseded", 1)},
			want: Decision{State: model.StateOutOfSync, Action: model.ActionUpgrade, Reason: ReasonArtifactChanged,
				FromRevision: 2, ToRevision: 3}},
		"a return that was cut off": {records: []model.Record{helmtest.Record("pending-rollback", 3),
			helmtest.Record("deployed", 2, otherArtifact), helmtest.Record("superseded", 1)},
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonInterrupted,
				Recovery: RecoverFail, FromRevision: 3, ToRevision: 4, Interruptions: 1}},
	})
}

func TestMakesDesired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		decision Decision
		want     bool
	}{
		"an install":              {Decision{Action: model.ActionInstall}, true},
		"an upgrade over another": {Decision{Action: model.ActionRecoverThenUpgrade}, true},
		"a return":                {Decision{Action: model.ActionRollback, Returns: true}, true},
		"a remediation":           {Decision{Action: model.ActionRollback}, false},
		"tests":                   {Decision{Action: model.ActionTest}, false},
		"nothing":                 {Decision{Action: model.ActionNone}, false},
	} {
		if got := test.decision.MakesDesired(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// runReturnCases runs cases with a desired return.
func runReturnCases(t *testing.T, cases map[string]remediationCase) {
	t.Helper()
	desired := helmtest.Desired()
	desired.Return = true
	runCasesFor(t, desired, cases)
}
