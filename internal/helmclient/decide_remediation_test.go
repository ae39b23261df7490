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
	"math"
	"strings"
	"testing"
	"time"
)

func failures(n int) func(*Record)         { return func(r *Record) { r.Failures = n } }
func rollbackFailures(n int) func(*Record) { return func(r *Record) { r.RollbackFailures = n } }
func interrupted(r *Record)                { r.Interrupted = true }
func tested(how string) func(*Record)      { return func(r *Record) { r.Tested = how } }
func changed(ago time.Duration) func(*Record) {
	return func(r *Record) { r.ChangedAt = testNow.Add(-ago) }
}

// rolledBack makes a record one of a rollback of ours from what is desired to something else.
func rolledBack(r *Record) {
	otherArtifact(r)
	r.RolledBackFrom = attemptLabel(testDesired())
}

// rolledBackFromOther makes a record one of a rollback to what is desired.
func rolledBackFromOther(r *Record) { r.RolledBackFrom = "1" }

func retries(n int) *int { return &n }

var (
	retryOnce     = Policy{Install: FailurePolicy{Retries: retries(1)}, Upgrade: FailurePolicy{Retries: retries(1)}}
	neverRetry    = Policy{Install: FailurePolicy{Retries: retries(0)}, Upgrade: FailurePolicy{Retries: retries(0)}}
	withoutEnd    = Policy{Install: FailurePolicy{Retries: retries(-1)}, Upgrade: FailurePolicy{Retries: retries(-1)}}
	withRollback  = Policy{Upgrade: FailurePolicy{Retries: retries(1), Remediate: RemediateRollback}}
	withUninstall = Policy{Install: FailurePolicy{Retries: retries(1), Remediate: RemediateUninstall}}
)

// remediationCase is what Decide answers in one situation.
type remediationCase struct {
	records []Record
	policy  Policy
	past    Past
	want    Decision
}

func runRemediationCases(t *testing.T, cases map[string]remediationCase) {
	t.Helper()
	runCasesFor(t, testDesired(), cases)
}

func runCasesFor(t *testing.T, desired Desired, cases map[string]remediationCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(Observation{Records: test.records}, desired, test.policy, test.past, testNow)
			if got.Message == "" {
				t.Error("there is no message")
			}
			if got.Action == ActionStall && !strings.Contains(got.Message, "retry-requested-at") {
				t.Errorf("%q does not say what to do", got.Message)
			}
			checkNextTry(t, &got)
			got.Message, got.Keep = "", 0
			if got != test.want {
				t.Errorf("Decide:\n got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestDecideFailedUpgrade(t *testing.T) {
	t.Parallel()
	good := testRecord("deployed", 3, otherArtifact)
	runRemediationCases(t, map[string]remediationCase{
		"retry after a while": {records: []Record{testRecord("failed", 4), good},
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4, ToRevision: 5, Failures: 1}},
		"retry, not yet": {records: []Record{testRecord("failed", 4, changed(3*time.Second)), good},
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 1, RequeueAfter: 7 * time.Second}},
		"retry, the caller knows of a later failure": {records: []Record{testRecord("failed", 4), good}, past: Past{FailedAt: testNow.Add(-2 * time.Second)},
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 1, RequeueAfter: 8 * time.Second}},
		"retry, from a clock ahead": {records: []Record{testRecord("failed", 4, fromFuture), good},
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 1, RequeueAfter: 10 * time.Second}},
		"the labels know of more failures": {records: []Record{testRecord("failed", 4, failures(3)), good}, past: Past{Failures: 2},
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 4, RequeueAfter: 20 * time.Second}},
		"the caller knows of more failures": {records: []Record{testRecord("failed", 4), good}, past: Past{Failures: 4}, policy: withoutEnd,
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 4, RequeueAfter: 20 * time.Second}},
		"one retry is left": {records: []Record{testRecord("failed", 4), good}, policy: retryOnce,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4, ToRevision: 5, Failures: 1}},
		"no retry is left": {records: []Record{testRecord("failed", 5, failures(1)), good}, policy: retryOnce,
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 5, ToRevision: 5, Failures: 2}},
		"never": {records: []Record{testRecord("failed", 4), good}, policy: neverRetry,
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4, Failures: 1}},
		"by default ten": {records: []Record{testRecord("failed", 14, failures(10)), good},
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 14, ToRevision: 14, Failures: 11}},
		"without end": {records: []Record{testRecord("failed", 99, failures(98), changed(time.Hour)), good}, policy: withoutEnd,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 99, ToRevision: 100, Failures: 99}},
		"somebody asks": {records: []Record{testRecord("failed", 5, failures(1), changed(0)), good}, policy: neverRetry, past: Past{Failures: 9, RetryRequested: true},
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5, ToRevision: 6}},
		"interrupted": {records: []Record{testRecord("failed", 4, interrupted, changed(0)), good}, policy: neverRetry,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonInterrupted, FromRevision: 4, ToRevision: 5, Interruptions: 1}},
		"of something else": {records: []Record{testRecord("failed", 4, otherValues, failures(9)), good}, policy: neverRetry,
			want: Decision{State: StateOutOfSync, Action: ActionUpgrade, Reason: ReasonValuesChanged, FromRevision: 4, ToRevision: 5}},
		"uninstall is for installs": {records: []Record{testRecord("failed", 4), good},
			policy: Policy{Install: FailurePolicy{Remediate: RemediateUninstall}, Upgrade: FailurePolicy{Remediate: RemediateUninstall}},
			want:   Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4, ToRevision: 5, Failures: 1}},
	})
}

func TestDecideRollback(t *testing.T) {
	t.Parallel()
	good := testRecord("deployed", 3, otherArtifact)
	rollbackTo := func(target, from, count int, reason string) Decision {
		return Decision{State: StateFailed, Action: ActionRollback, Reason: reason, FromRevision: from, ToRevision: from + 1, RollbackTo: target, Failures: count}
	}
	noTarget := Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonNoRollbackTarget, FromRevision: 4, ToRevision: 5, Failures: 1}
	runRemediationCases(t, map[string]remediationCase{
		"at once":                {records: []Record{testRecord("failed", 4, changed(0)), good}, policy: withRollback, want: rollbackTo(3, 4, 1, ReasonUpgradeFailed)},
		"after the last failure": {records: []Record{testRecord("failed", 6, failures(1)), good}, policy: withRollback, want: rollbackTo(3, 6, 2, ReasonUpgradeFailed)},
		"to a hand's revision":   {records: []Record{testRecord("failed", 4), testRecord("deployed", 3, unlabelled)}, policy: withRollback, want: rollbackTo(3, 4, 1, ReasonUpgradeFailed)},
		"over what failed":       {records: []Record{testRecord("failed", 4), testRecord("failed", 3, otherValues), testRecord("superseded", 2, otherArtifact)}, policy: withRollback, want: rollbackTo(2, 4, 1, ReasonUpgradeFailed)},
		"over what failed its tests": {records: []Record{testRecord("failed", 4), testRecord("deployed", 3, otherValues, tested(TestedFailed)), testRecord("superseded", 2, otherArtifact)},
			policy: withRollback, want: rollbackTo(2, 4, 1, ReasonUpgradeFailed)},
		"not to what is desired": {records: []Record{testRecord("failed", 4), testRecord("deployed", 3)}, policy: withRollback, want: noTarget},
		"not over an uninstall": {records: []Record{testRecord("failed", 4), testRecord("uninstalled", 3), testRecord("superseded", 2, otherArtifact)}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4, ToRevision: 5, Failures: 1}},
		"not of an install": {records: []Record{testRecord("failed", 1)}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 1, ToRevision: 2, Failures: 1}},
		"not if interrupted": {records: []Record{testRecord("failed", 4, interrupted), good}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonInterrupted, FromRevision: 4, ToRevision: 5, Interruptions: 1}},
		"not if somebody asks to try": {records: []Record{testRecord("failed", 4), good}, policy: withRollback, past: Past{RetryRequested: true},
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4, ToRevision: 5}},

		"rolled back, not yet": {records: []Record{testRecord("deployed", 5, rolledBack, failures(1), changed(3*time.Second))}, policy: withRollback,
			want: Decision{State: StateRolledBack, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 5, ToRevision: 5, Failures: 1, RequeueAfter: 7 * time.Second}},
		"rolled back, next try": {records: []Record{testRecord("deployed", 5, rolledBack, failures(1))}, policy: withRollback,
			want: Decision{State: StateRolledBack, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5, ToRevision: 6, Failures: 1}},
		"rolled back for good": {records: []Record{testRecord("deployed", 7, rolledBack, failures(2))}, policy: withRollback,
			want: Decision{State: StateRolledBack, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 7, ToRevision: 7, Failures: 2}},
		"rolled back, somebody asks": {records: []Record{testRecord("deployed", 7, rolledBack, failures(2), changed(0))}, policy: withRollback, past: Past{RetryRequested: true},
			want: Decision{State: StateRolledBack, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 7, ToRevision: 8}},
		"rolled back after somebody asked": {records: []Record{testRecord("deployed", 7, rolledBack)}, policy: withRollback,
			want: Decision{State: StateRolledBack, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 7, ToRevision: 8, Failures: 1}},
		"rolled back, and a hand did it again": {records: []Record{testRecord("deployed", 7, rolledBack, otherHand, failures(2))}, policy: withRollback,
			want: Decision{State: StateUnmanaged, Action: ActionUpgrade, Reason: ReasonChangedByAnotherHand, FromRevision: 7, ToRevision: 8}},
		"rolled back to what is desired now": {records: []Record{testRecord("deployed", 7, rolledBackFromOther, failures(2))}, policy: withRollback,
			want: Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 7, ToRevision: 7}},
		"rolled back, something new is desired": {records: []Record{testRecord("deployed", 7, rolledBackFromOther, otherValues, failures(2))}, policy: withRollback,
			want: Decision{State: StateOutOfSync, Action: ActionUpgrade, Reason: ReasonValuesChanged, FromRevision: 7, ToRevision: 8}},

		"failed rollback, not yet": {records: []Record{testRecord("failed", 5, rolledBack, failures(1), changed(3*time.Second)), testRecord("failed", 4), good}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 5, ToRevision: 5, Failures: 1, RollbackFailures: 1, RequeueAfter: 7 * time.Second}},
		"failed rollback, again": {records: []Record{testRecord("failed", 5, rolledBack, failures(1)), testRecord("failed", 4), good}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 5, ToRevision: 6, RollbackTo: 3, Failures: 1, RollbackFailures: 1}},
		"failed rollback, too often": {records: []Record{testRecord("failed", 6, rolledBack, failures(1), rollbackFailures(1)), good}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRollbackFailed, FromRevision: 6, ToRevision: 6, Failures: 1, RollbackFailures: 2}},
		"failed rollback, somebody asks": {records: []Record{testRecord("failed", 6, rolledBack, failures(1), rollbackFailures(1), changed(0)), good}, policy: withRollback, past: Past{RetryRequested: true},
			want: Decision{State: StateFailed, Action: ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 6, ToRevision: 7, RollbackTo: 3}},
		"failed rollback, interrupted": {records: []Record{testRecord("failed", 5, rolledBack, interrupted, failures(1), changed(0)), good}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 5, ToRevision: 6, RollbackTo: 3, Failures: 1, Interruptions: 1}},
		"failed rollback, its target is pruned": {records: []Record{testRecord("failed", 5, rolledBack, failures(1)), testRecord("deployed", 4)}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 5, ToRevision: 6, RollbackTo: 5, Failures: 1, RollbackFailures: 1}},
		"failed rollback, no longer wanted": {records: []Record{testRecord("failed", 5, rolledBack, failures(1)), good}, policy: retryOnce,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5, ToRevision: 6, Failures: 1}},
		"failed rollback to what is desired now": {records: []Record{testRecord("failed", 5, rolledBackFromOther, failures(7), changed(0)), good}, policy: neverRetry,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5, ToRevision: 6}},

		"own rollback cut off": {records: []Record{testRecord("pending-rollback", 5, rolledBack, failures(1)), testRecord("failed", 4), good}, policy: withRollback,
			want: Decision{State: StatePending, Action: ActionRollback, Reason: ReasonInterrupted, Recovery: RecoverReplace, FromRevision: 5, ToRevision: 5, RollbackTo: 3, Failures: 1, Interruptions: 1}},
		"own rollback of what was unhealthy cut off": {records: []Record{testRecord("pending-rollback", 5, rolledBack, failures(1)), testRecord("deployed", 4), testRecord("superseded", 3, otherArtifact)}, policy: withRollback,
			want: Decision{State: StatePending, Action: ActionRollback, Reason: ReasonInterrupted, Recovery: RecoverReplace, FromRevision: 5, ToRevision: 5, RollbackTo: 3, Failures: 1, Interruptions: 1}},
		"own rollback cut off, no longer wanted": {records: []Record{testRecord("pending-rollback", 5, rolledBack, failures(1)), testRecord("failed", 4), good}, policy: retryOnce,
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 5, ToRevision: 6, Failures: 1, Interruptions: 1}},
		"own rollback of something else cut off": {records: []Record{testRecord("pending-rollback", 5, rolledBackFromOther, otherValues), good}, policy: withRollback,
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 5, ToRevision: 6}},
	})
}

func TestDecideFailedInstall(t *testing.T) {
	t.Parallel()
	again := Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 1, ToRevision: 2, Failures: 1}
	uninstall := Decision{State: StateFailed, Action: ActionUninstall, Reason: ReasonRemediateUninstall, FromRevision: 1, ToRevision: 1, Failures: 1}
	from := func(d Decision, revision int) Decision {
		d.ToRevision += revision - d.FromRevision
		d.FromRevision = revision
		return d
	}
	runRemediationCases(t, map[string]remediationCase{
		"retry":     {records: []Record{testRecord("failed", 1)}, want: again},
		"stall":     {records: []Record{testRecord("failed", 1)}, policy: Policy{Install: FailurePolicy{Retries: retries(0)}, Upgrade: FailurePolicy{Retries: retries(-1)}}, want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 1, ToRevision: 1, Failures: 1}},
		"uninstall": {records: []Record{testRecord("failed", 1, changed(0))}, policy: withUninstall, want: uninstall},
		"uninstall, after retries by another policy": {records: []Record{testRecord("failed", 3, otherArtifact), testRecord("failed", 2, otherArtifact), testRecord("failed", 1)}, policy: withUninstall,
			want: Decision{State: StateOutOfSync, Action: ActionUpgrade, Reason: ReasonArtifactChanged, FromRevision: 3, ToRevision: 4}},
		"uninstall, over a kept history": {records: []Record{testRecord("failed", 3), testRecord("uninstalled", 2), testRecord("superseded", 1, otherArtifact)}, policy: withUninstall, want: from(uninstall, 3)},
		"the last failure stays": {records: []Record{testRecord("failed", 1, failures(1))}, policy: withUninstall,
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 1, ToRevision: 1, Failures: 2}},
		"never what worked":               {records: []Record{testRecord("failed", 2), testRecord("superseded", 1)}, policy: withUninstall, want: from(again, 2)},
		"never what may have worked":      {records: []Record{testRecord("failed", 4), testRecord("failed", 3)}, policy: withUninstall, want: from(again, 4)},
		"never with a gap":                {records: []Record{testRecord("failed", 3), testRecord("failed", 1)}, policy: withUninstall, want: from(again, 3)},
		"never what another hand made":    {records: []Record{testRecord("failed", 2), testRecord("failed", 1, otherHand)}, policy: withUninstall, want: from(again, 2)},
		"never what is of unknown status": {records: []Record{testRecord("failed", 2), testRecord("unknown", 1)}, policy: withUninstall, want: from(again, 2)},
		"never what was interrupted": {records: []Record{testRecord("failed", 1, interrupted)}, policy: withUninstall,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonInterrupted, FromRevision: 1, ToRevision: 2, Interruptions: 1}},
		"uninstalled, not yet": {policy: withUninstall, past: Past{Failures: 1, FailedAt: testNow.Add(-3 * time.Second)},
			want: Decision{State: StateAbsent, Action: ActionWait, Reason: ReasonBackoff, Failures: 1, RequeueAfter: 7 * time.Second}},
		"uninstalled, next try": {policy: withUninstall, past: Past{Failures: 1, FailedAt: testNow.Add(-time.Minute)},
			want: Decision{State: StateAbsent, Action: ActionInstall, Reason: ReasonNotInstalled, ToRevision: 1, Failures: 1}},
		"uninstalled, history kept, next try": {records: []Record{testRecord("uninstalled", 1)}, policy: withUninstall, past: Past{Failures: 1, FailedAt: testNow.Add(-time.Minute)},
			want: Decision{State: StateUninstalled, Action: ActionInstall, Reason: ReasonNotInstalled, FromRevision: 1, ToRevision: 2, Failures: 1}},
		"uninstall failed, not yet": {records: []Record{testRecord("uninstalling", 1, uninstalling)}, policy: withUninstall, past: Past{Failures: 2, FailedAt: testNow.Add(-3 * time.Second)},
			want: Decision{State: StateUninstalling, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 1, ToRevision: 1, Failures: 2, RequeueAfter: 17 * time.Second}},
		"uninstall failed, again, however often": {records: []Record{testRecord("uninstalling", 1, uninstalling)}, policy: withUninstall, past: Past{Failures: 20, FailedAt: testNow.Add(-time.Hour)},
			want: Decision{State: StateUninstalling, Action: ActionUninstall, Reason: ReasonFinishUninstall, FromRevision: 1, ToRevision: 1, Failures: 20}},
		"uninstall cut off": {records: []Record{testRecord("uninstalling", 1, uninstalling, failures(1), changed(0))}, policy: withUninstall,
			want: Decision{State: StateUninstalling, Action: ActionUninstall, Reason: ReasonFinishUninstall, FromRevision: 1, ToRevision: 1, Failures: 1}},
		"gone, and no retry left": {policy: withUninstall, past: Past{Failures: 2},
			want: Decision{State: StateAbsent, Action: ActionStall, Reason: ReasonRetriesExhausted, Failures: 2}},
		"gone, somebody asks": {policy: withUninstall, past: Past{Failures: 2, FailedAt: testNow, RetryRequested: true},
			want: Decision{State: StateAbsent, Action: ActionInstall, Reason: ReasonNotInstalled, ToRevision: 1}},
	})
}

func TestDecideDeployed(t *testing.T) {
	t.Parallel()
	before := testRecord("superseded", 3, otherArtifact)
	gated, ignoring := withRollback, withRollback
	gated.Test.Enabled = true
	ignoring.Test = TestPolicy{Enabled: true, IgnoreFailures: true}
	retrying := Policy{Install: FailurePolicy{Retries: retries(0)}, Upgrade: FailurePolicy{Retries: retries(1)}, Test: TestPolicy{Enabled: true}}
	correcting := withRollback
	correcting.CorrectDrift = true
	correctingTests := retrying
	correctingTests.CorrectDrift = true
	inSync := Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 4, ToRevision: 4}
	rollback := func(reason string, state State, count int) Decision {
		return Decision{State: state, Action: ActionRollback, Reason: reason, FromRevision: 4, ToRevision: 5, RollbackTo: 3, Failures: count}
	}
	drifted := func(action Action, count int) Decision {
		return Decision{State: StateDrifted, Action: action, Reason: ReasonDrifted, FromRevision: 4, ToRevision: 4, Failures: count}
	}
	runRemediationCases(t, map[string]remediationCase{
		"failures of before are over":   {records: []Record{testRecord("deployed", 4, failures(2)), before}, past: Past{Failures: 2}, want: inSync},
		"unhealthy, rollback":           {records: []Record{testRecord("deployed", 4), before}, policy: withRollback, past: Past{Unhealthy: true}, want: rollback(ReasonUnhealthy, StateInSync, 1)},
		"unhealthy again, rollback":     {records: []Record{testRecord("deployed", 4, failures(1)), before}, policy: withRollback, past: Past{Unhealthy: true}, want: rollback(ReasonUnhealthy, StateInSync, 2)},
		"unhealthy, somebody asks":      {records: []Record{testRecord("deployed", 4, failures(9)), before}, policy: withRollback, past: Past{Unhealthy: true, RetryRequested: true}, want: rollback(ReasonUnhealthy, StateInSync, 1)},
		"unhealthy, retry does nothing": {records: []Record{testRecord("deployed", 4), before}, past: Past{Unhealthy: true}, want: inSync},
		"unhealthy install":             {records: []Record{testRecord("deployed", 4)}, policy: withRollback, past: Past{Unhealthy: true}, want: inSync},
		"unhealthy, nowhere to go":      {records: []Record{testRecord("deployed", 4), testRecord("superseded", 3)}, policy: withRollback, past: Past{Unhealthy: true}, want: inSync},

		"untested, not healthy yet": {records: []Record{testRecord("deployed", 4), before}, policy: gated, past: Past{Progressing: true}, want: Decision{State: StateUntested, Action: ActionNone, Reason: ReasonUntested, FromRevision: 4, ToRevision: 4}},
		"untested":                  {records: []Record{testRecord("deployed", 4, failures(1)), before}, policy: gated, want: Decision{State: StateUntested, Action: ActionTest, Reason: ReasonUntested, FromRevision: 4, ToRevision: 4, Failures: 1}},
		"tests passed":              {records: []Record{testRecord("deployed", 4, tested(TestedPassed)), before}, policy: gated, want: inSync},
		"tests not wanted":          {records: []Record{testRecord("deployed", 4, tested(TestedFailed)), before}, policy: withRollback, want: inSync},
		"failures ignored":          {records: []Record{testRecord("deployed", 4, tested(TestedFailed)), before}, policy: ignoring, want: inSync},
		"ignored, but run":          {records: []Record{testRecord("deployed", 4), before}, policy: ignoring, want: Decision{State: StateUntested, Action: ActionTest, Reason: ReasonUntested, FromRevision: 4, ToRevision: 4}},
		"failed, rollback":          {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(2)), before}, policy: gated, want: rollback(ReasonTestsFailed, StateFailed, 2)},
		"failed, run again":         {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(1)), before}, policy: retrying, want: Decision{State: StateFailed, Action: ActionTest, Reason: ReasonTestsFailed, FromRevision: 4, ToRevision: 4, Failures: 1}},
		"failed, not yet":           {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(1), changed(time.Second)), before}, policy: retrying, want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 1, RequeueAfter: 9 * time.Second}},
		"failed too often":          {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(2)), before}, policy: retrying, want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4, Failures: 2}},
		"failed, an install":        {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(1))}, policy: retrying, want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4, Failures: 1}},
		"failed, asked":             {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(2), changed(0)), before}, policy: retrying, past: Past{RetryRequested: true}, want: Decision{State: StateFailed, Action: ActionTest, Reason: ReasonTestsFailed, FromRevision: 4, ToRevision: 4}},

		"drifted":                    {records: []Record{testRecord("deployed", 4), before}, past: Past{Drifted: true}, want: drifted(ActionNone, 0)},
		"drifted, correct":           {records: []Record{testRecord("deployed", 4), before}, policy: correcting, past: Past{Drifted: true}, want: drifted(ActionCorrectDrift, 0)},
		"drifted, tests stalled":     {records: []Record{testRecord("deployed", 4, tested(TestedFailed), failures(2)), before}, policy: correctingTests, past: Past{Drifted: true}, want: drifted(ActionCorrectDrift, 2)},
		"drifted and unhealthy":      {records: []Record{testRecord("deployed", 4), before}, policy: correcting, past: Past{Drifted: true, Unhealthy: true}, want: rollback(ReasonUnhealthy, StateInSync, 1)},
		"drifted, rolled back":       {records: []Record{testRecord("deployed", 4, rolledBack, failures(2)), before}, policy: correcting, past: Past{Drifted: true}, want: drifted(ActionCorrectDrift, 2)},
		"drifted, rolled back, warn": {records: []Record{testRecord("deployed", 4, rolledBack, failures(2)), before}, policy: withRollback, past: Past{Drifted: true}, want: Decision{State: StateRolledBack, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4, Failures: 2}},
		"drifted and failed":         {records: []Record{testRecord("failed", 4, failures(2)), before}, policy: Policy{Upgrade: FailurePolicy{Retries: retries(0)}, CorrectDrift: true}, past: Past{Drifted: true}, want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4, Failures: 3}},
		"taken over by another HelmOp": {records: []Record{testRecord("deployed", 4, otherOwner)}, policy: Policy{TakeOwnership: true}, past: Past{WasOurs: true},
			want: Decision{State: StateForeign, Action: ActionRefuse, Reason: ReasonConflict, FromRevision: 4, ToRevision: 4}},
		"taken over by hand": {records: []Record{testRecord("deployed", 4, unlabelled)}, policy: Policy{TakeOwnership: true}, past: Past{WasOurs: true},
			want: Decision{State: StateForeign, Action: ActionUpgrade, Reason: ReasonAdopt, FromRevision: 4, ToRevision: 5}},
		"drifted and somebody else's": {records: []Record{testRecord("pending-upgrade", 4, otherUID), before}, policy: correcting, past: Past{Drifted: true}, want: Decision{State: StatePending, Action: ActionWait, Reason: ReasonPendingElsewhere, FromRevision: 4, ToRevision: 4, RequeueAfter: elsewhereRetry, Interruptions: 1}},
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failures int
		jitter   float64
		want     time.Duration
	}{
		{-1, 0, 0}, {0, 1, 0}, {1, 0, 10 * time.Second}, {2, 0, 20 * time.Second}, {3, 0.5, 44 * time.Second}, {6, 0, 320 * time.Second},
		{7, 0, 10 * time.Minute}, {math.MaxInt, 1, 12 * time.Minute}, {1, 7, 12 * time.Second}, {1, -7, 10 * time.Second},
		{1, math.NaN(), 10 * time.Second}, {1, math.Inf(1), 12 * time.Second},
	} {
		if got := Backoff(test.failures, test.jitter); got != test.want {
			t.Errorf("Backoff(%d, %g) = %s, want %s", test.failures, test.jitter, got, test.want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	if d := Unreachable(); d.Action != ActionWait || d.State != StateUnreachable || d.RequeueAfter <= 0 || d.Failures != 0 || d.Message == "" {
		t.Errorf("%+v", d)
	}
}

// TestDecideNeverUninstallsWhatWorked tries histories of up to three revisions with every policy and memory.
func TestDecideNeverUninstallsWhatWorked(t *testing.T) {
	t.Parallel()
	statuses := []string{"deployed", "superseded", "failed", "pending-install", "pending-upgrade", "pending-rollback", "unknown"}
	changes := []func(*Record){func(*Record) {}, otherHand, rolledBack, interrupted}
	policies := []Policy{{}, withUninstall, withRollback, neverRetry,
		{TakeOwnership: true, Install: FailurePolicy{Remediate: RemediateUninstall}, Upgrade: FailurePolicy{Remediate: RemediateUninstall}, Test: TestPolicy{Enabled: true}}}
	pasts := []Past{{}, {Failures: 3, Unhealthy: true, Drifted: true}, {RetryRequested: true, Unhealthy: true}}
	var try func(records []Record, depth int)
	try = func(records []Record, depth int) {
		worked := false
		for _, record := range records {
			worked = worked || record.Status == "deployed" || record.Status == "superseded"
		}
		for _, policy := range policies {
			for _, past := range pasts {
				d := Decide(Observation{Records: records}, testDesired(), policy, past, testNow)
				if worked && d.Action == ActionUninstall {
					t.Fatalf("%+v with %+v and %+v: %+v", records, policy, past, d)
				}
				if d.Action == ActionRollback && (d.RollbackTo < 1 || d.RollbackTo > d.FromRevision) || d.Message == "" || (d.Action == ActionWait) != (d.RequeueAfter > 0) {
					t.Fatalf("%+v with %+v and %+v: %+v", records, policy, past, d)
				}
			}
		}
		if depth == 0 {
			return
		}
		for _, status := range statuses {
			for _, change := range changes {
				below := testRecord(status, depth, change)
				try(append(append([]Record{}, records...), below), depth-1)
			}
		}
	}
	try(nil, 3)
}
