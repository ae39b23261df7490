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

package helmclient

import (
	"testing"
	"time"
)

// TestDecideReturn holds when a return goes by Helm's history, and to which revision.
func TestDecideReturn(t *testing.T) {
	t.Parallel()
	back := func(state State, reason string, target, from int) Decision {
		return Decision{State: state, Action: ActionRollback, Reason: reason, RollbackTo: target, Returns: true, FromRevision: from, ToRevision: from + 1}
	}
	upgrade := func(state State, reason string, from int) Decision {
		return Decision{State: state, Action: ActionUpgrade, Reason: reason, FromRevision: from, ToRevision: from + 1}
	}
	bad, had := testRecord("deployed", 2, otherArtifact), testRecord("superseded", 1)
	runReturnCases(t, map[string]remediationCase{
		"to what it had":            {records: []Record{bad, had}, want: back(StateOutOfSync, ReasonReturn, 1, 2)},
		"from what failed":          {records: []Record{testRecord("failed", 2, otherValues), testRecord("deployed", 1)}, want: back(StateOutOfSync, ReasonReturn, 1, 2)},
		"to the newest of them":     {records: []Record{testRecord("deployed", 9, otherValues), testRecord("superseded", 7), testRecord("superseded", 5, otherArtifact), testRecord("superseded", 4)}, want: back(StateOutOfSync, ReasonReturn, 7, 9)},
		"not to a hand's":           {records: []Record{bad, testRecord("superseded", 1, otherHand)}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to another owner's":    {records: []Record{bad, testRecord("superseded", 1, otherOwner)}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to one that failed":    {records: []Record{bad, testRecord("failed", 1)}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to other values":       {records: []Record{bad, testRecord("superseded", 1, otherValues)}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"not to other options":      {records: []Record{bad, testRecord("superseded", 1, otherOptions)}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"not over an uninstall":     {records: []Record{bad, testRecord("uninstalled", 1), testRecord("superseded", 1)}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"it was pruned":             {records: []Record{bad}, want: upgrade(StateOutOfSync, ReasonArtifactChanged, 2)},
		"to one whose tests failed": {records: []Record{bad, testRecord("superseded", 1, tested(TestedFailed))}, want: back(StateOutOfSync, ReasonReturn, 1, 2)},
		"to a rollback's record":    {records: []Record{testRecord("deployed", 4, otherArtifact), testRecord("superseded", 3, rolledBackFromOther), testRecord("failed", 2, otherArtifact)}, want: back(StateOutOfSync, ReasonReturn, 3, 4)},
		"a hand changed it":         {records: []Record{testRecord("deployed", 3, otherHand), bad, had}, want: back(StateUnmanaged, ReasonChangedByAnotherHand, 1, 3)},
		"nothing is deployed":       {records: []Record{testRecord("superseded", 3), bad, had}, want: back(StateOutOfSync, ReasonNotDeployed, 1, 3)},
		"it has it already":         {records: []Record{testRecord("deployed", 3), bad, had}, want: Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 3, ToRevision: 3}},
		"remediation brought it": {records: []Record{testRecord("deployed", 3, rolledBackFromOther), testRecord("failed", 2, otherArtifact), had}, policy: withRollback,
			want: Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 3, ToRevision: 3}},
		"it is gone":          {want: Decision{State: StateAbsent, Action: ActionInstall, Reason: ReasonNotInstalled, ToRevision: 1}},
		"it is uninstalled":   {records: []Record{testRecord("uninstalled", 3), bad, had}, want: Decision{State: StateUninstalled, Action: ActionInstall, Reason: ReasonNotInstalled, FromRevision: 3, ToRevision: 4}},
		"another's":           {records: []Record{testRecord("deployed", 3, otherOwner), had}, want: Decision{State: StateForeign, Action: ActionRefuse, Reason: ReasonConflict, FromRevision: 3, ToRevision: 3}},
		"somebody is at work": {records: []Record{testRecord("pending-upgrade", 3, otherUID), bad, had}, want: Decision{State: StatePending, Action: ActionWait, Reason: ReasonPendingElsewhere, FromRevision: 3, ToRevision: 3, Interruptions: 1, RequeueAfter: elsewhereRetry}},
	})
}

// TestDecideReturnFails holds that a return that fails is tried again, within the budget, and never answered by what was given up.
func TestDecideReturnFails(t *testing.T) {
	t.Parallel()
	bad, had := testRecord("deployed", 2, otherArtifact), testRecord("superseded", 1)
	again := func(target, from, count int) Decision {
		return Decision{State: StateFailed, Action: ActionRollback, Reason: ReasonRetryFailed, RollbackTo: target, Returns: true, FromRevision: from, ToRevision: from + 1, Failures: count}
	}
	withTests := withRollback
	withTests.Test.Enabled = true
	inSync := Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 3, ToRevision: 3}
	runReturnCases(t, map[string]remediationCase{
		"again, not back to what was given up": {records: []Record{testRecord("failed", 3), bad, had}, policy: withRollback, want: again(1, 3, 1)},
		"not yet": {records: []Record{testRecord("failed", 3, changed(0)), bad, had}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 3, ToRevision: 3, Failures: 1, RequeueAfter: 10 * time.Second}},
		"no more": {records: []Record{testRecord("failed", 4, failures(1)), testRecord("failed", 3), bad, had}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4, Failures: 2}},
		"somebody asks":                       {records: []Record{testRecord("failed", 4, failures(1)), bad, had}, policy: withRollback, past: Past{RetryRequested: true}, want: again(1, 4, 0)},
		"its tries pushed it out":             {records: []Record{testRecord("failed", 4, failures(1)), testRecord("failed", 3), bad}, want: again(4, 4, 2)},
		"the install of it failed":            {records: []Record{testRecord("failed", 1)}, want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 1, ToRevision: 2, Failures: 1}},
		"unhealthy":                           {records: []Record{testRecord("deployed", 3), bad, had}, policy: withRollback, past: Past{Unhealthy: true}, want: inSync},
		"untested":                            {records: []Record{testRecord("deployed", 3), bad, testRecord("superseded", 1, tested(TestedPassed))}, policy: withTests, want: Decision{State: StateUntested, Action: ActionTest, Reason: ReasonUntested, FromRevision: 3, ToRevision: 3}},
		"its tests failed":                    {records: []Record{testRecord("deployed", 3, tested(TestedFailed), failures(1)), bad, had}, policy: withTests, want: Decision{State: StateFailed, Action: ActionTest, Reason: ReasonTestsFailed, FromRevision: 3, ToRevision: 3, Failures: 1}},
		"it was rolled back from before":      {records: []Record{testRecord("deployed", 3, rolledBack, failures(1)), testRecord("superseded", 2), testRecord("superseded", 1, otherArtifact)}, policy: withRollback, want: func() Decision { d := again(2, 3, 1); d.State = StateRolledBack; return d }()},
		"a rollback from it failed":           {records: []Record{testRecord("failed", 3, rolledBack, failures(1)), testRecord("superseded", 2), testRecord("superseded", 1, otherArtifact)}, policy: withRollback, want: again(2, 3, 1)},
		"it was marked as failed, cut off":    {records: []Record{testRecord("failed", 3, interrupted, changed(0)), bad, had}, policy: neverRetry, want: Decision{State: StateFailed, Action: ActionRollback, Reason: ReasonInterrupted, RollbackTo: 1, Returns: true, FromRevision: 3, ToRevision: 4, Interruptions: 1}},
		"drift is corrected, as ever":         {records: []Record{testRecord("deployed", 3), bad, had}, policy: Policy{CorrectDrift: true}, past: Past{Drifted: true}, want: Decision{State: StateDrifted, Action: ActionCorrectDrift, Reason: ReasonDrifted, FromRevision: 3, ToRevision: 3}},
		"drift of what was given up does not": {records: []Record{bad, had}, policy: Policy{CorrectDrift: true}, past: Past{Drifted: true}, want: Decision{State: StateOutOfSync, Action: ActionRollback, Reason: ReasonReturn, RollbackTo: 1, Returns: true, FromRevision: 2, ToRevision: 3}},
	})
}

// TestDecideReturnCutOff holds that a return that was cut off is done again under the same revision, and that one goes over an upgrade
// that was.
func TestDecideReturnCutOff(t *testing.T) {
	t.Parallel()
	bad, had := testRecord("deployed", 2, otherArtifact), testRecord("superseded", 1)
	pending := func(reason string, recovery Recovery, target, from, to, cut int) Decision {
		return Decision{State: StatePending, Action: ActionRollback, Reason: reason, Recovery: recovery, RollbackTo: target, Returns: true,
			FromRevision: from, ToRevision: to, Interruptions: cut}
	}
	runReturnCases(t, map[string]remediationCase{
		"of this object": {records: []Record{testRecord("pending-rollback", 3, changed(0)), bad, had}, policy: neverRetry, want: pending(ReasonInterrupted, RecoverReplace, 1, 3, 3, 1)},
		"after a move, young": {records: []Record{testRecord("pending-rollback", 3, otherUID), bad, had},
			want: Decision{State: StatePending, Action: ActionWait, Reason: ReasonPendingElsewhere, FromRevision: 3, ToRevision: 3, Interruptions: 1, RequeueAfter: elsewhereRetry}},
		"after a move, old": {records: []Record{testRecord("pending-rollback", 3, otherUID, old), bad, had}, want: pending(ReasonPendingTimeout, RecoverReplace, 1, 3, 3, 1)},
		"each time": {records: []Record{testRecord("pending-rollback", 3, interruptions(2), changed(0)), bad, had},
			want: Decision{State: StatePending, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 3, ToRevision: 3, Interruptions: 3, RequeueAfter: 10 * time.Second}},
		"there is a gap":       {records: []Record{testRecord("pending-rollback", 4), bad, had}, want: pending(ReasonInterrupted, RecoverFail, 1, 4, 5, 1)},
		"nothing else is left": {records: []Record{testRecord("pending-rollback", 3), bad}, want: pending(ReasonInterrupted, RecoverFail, 3, 3, 4, 1)},
		"an upgrade to it":     {records: []Record{testRecord("pending-upgrade", 3), bad, had}, want: pending(ReasonInterrupted, RecoverReplace, 1, 3, 3, 1)},
		"an upgrade to it, nothing to return to": {records: []Record{testRecord("pending-upgrade", 3), bad},
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverReplace, FromRevision: 3, ToRevision: 3, Interruptions: 1}},
		"the upgrade that is given up": {records: []Record{testRecord("pending-upgrade", 2, otherArtifact), testRecord("deployed", 1)}, want: pending(ReasonInterrupted, RecoverFail, 1, 2, 3, 0)},
		"the upgrade that is given up, nothing to return to": {records: []Record{testRecord("pending-upgrade", 2, otherArtifact), testRecord("deployed", 1, otherValues)},
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 2, ToRevision: 3}},
		"a rollback from it": {records: []Record{testRecord("pending-rollback", 3, rolledBack, failures(1)), testRecord("superseded", 2), testRecord("superseded", 1, otherArtifact)}, policy: withRollback,
			want: func() Decision { d := pending(ReasonInterrupted, RecoverFail, 2, 3, 4, 1); d.Failures = 1; return d }()},
	})
}

// TestDecideWithoutReturn holds that nothing goes by the history unless a return is desired.
func TestDecideWithoutReturn(t *testing.T) {
	t.Parallel()
	runRemediationCases(t, map[string]remediationCase{
		"out of sync": {records: []Record{testRecord("deployed", 2, otherArtifact), testRecord("superseded", 1)},
			want: Decision{State: StateOutOfSync, Action: ActionUpgrade, Reason: ReasonArtifactChanged, FromRevision: 2, ToRevision: 3}},
		"a return that was cut off": {records: []Record{testRecord("pending-rollback", 3), testRecord("deployed", 2, otherArtifact), testRecord("superseded", 1)},
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 3, ToRevision: 4, Interruptions: 1}},
	})
}

func TestMakesDesired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		decision Decision
		want     bool
	}{
		"an install":              {Decision{Action: ActionInstall}, true},
		"an upgrade over another": {Decision{Action: ActionRecoverThenUpgrade}, true},
		"a return":                {Decision{Action: ActionRollback, Returns: true}, true},
		"a remediation":           {Decision{Action: ActionRollback}, false},
		"tests":                   {Decision{Action: ActionTest}, false},
		"nothing":                 {Decision{Action: ActionNone}, false},
	} {
		if got := test.decision.MakesDesired(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// runReturnCases runs cases in which what is desired is a return.
func runReturnCases(t *testing.T, cases map[string]remediationCase) {
	t.Helper()
	desired := testDesired()
	desired.Return = true
	runCasesFor(t, desired, cases)
}
