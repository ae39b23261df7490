// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func failures(n int) func(*model.Record) { return func(r *model.Record) { r.Failures = n } }
func rollbackFailures(n int) func(*model.Record) {
	return func(r *model.Record) { r.RollbackFailures = n }
}
func interrupted(r *model.Record)           { r.Interrupted = true }
func tested(how string) func(*model.Record) { return func(r *model.Record) { r.Tested = how } }
func changed(ago time.Duration) func(*model.Record) {
	return func(r *model.Record) { r.ChangedAt = helmtest.Now.Add(-ago) }
}

// rolledBack makes a record a rollback by HelmOp from the desired state to another state.
func rolledBack(r *model.Record) {
	otherArtifact(r)
	r.RolledBackFrom = model.AttemptLabel(helmtest.Desired())
}

// rolledBackFromOther makes a record a rollback from another state to the desired state.
func rolledBackFromOther(r *model.Record) { r.RolledBackFrom = "1" }

var (
	withoutEnd = model.Policy{Install: model.FailurePolicy{Retries: helmtest.Retries(-1)},
		Upgrade: model.FailurePolicy{Retries: helmtest.Retries(-1)}}
)

// remediationCase is the expected decision in a situation.
type remediationCase struct {
	records []model.Record
	policy  model.Policy
	past    model.Past
	want    Decision
}

func runRemediationCases(t *testing.T, cases map[string]remediationCase) {
	t.Helper()
	runCasesFor(t, helmtest.Desired(), cases)
}

func runCasesFor(t *testing.T, desired model.Desired, cases map[string]remediationCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Next(model.Observation{Records: test.records}, desired, test.policy, test.past, helmtest.Now)
			if got.Message == "" {
				t.Error("there is no message")
			}
			if got.Action == model.ActionStall && !strings.Contains(got.Message, "retry-requested-at") {
				t.Errorf("%q does not say what to do", got.Message)
			}
			checkNextTry(t, &got)
			got.Message, got.Keep, got.FromUID = "", 0, ""
			if got != test.want {
				t.Errorf("Decide:\n got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestDecideFailedUpgrade(t *testing.T) {
	t.Parallel()
	good := helmtest.Record("deployed", 3, otherArtifact)
	runRemediationCases(t, map[string]remediationCase{
		"retry after a while": {records: []model.Record{helmtest.Record("failed", 4), good},
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4,
				ToRevision: 5, Failures: 1}},
		"retry, not yet": {records: []model.Record{helmtest.Record("failed", 4, changed(3*time.Second)), good},
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 1, RequeueAfter: 7 * time.Second}},
		"retry, the caller has a later failure": {records: []model.Record{helmtest.Record("failed", 4), good},
			past: model.Past{FailedAt: helmtest.Now.Add(-2 * time.Second)},
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 1, RequeueAfter: 8 * time.Second}},
		"retry, clock of the cluster is ahead": {records: []model.Record{helmtest.Record("failed", 4, fromFuture), good},
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 1, RequeueAfter: 10 * time.Second}},
		"the labels have more failures": {records: []model.Record{helmtest.Record("failed", 4, failures(3)), good},
			past: model.Past{Failures: 2},
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 4, RequeueAfter: 20 * time.Second}},
		"the caller has more failures": {records: []model.Record{helmtest.Record("failed", 4), good},
			past: model.Past{Failures: 4}, policy: withoutEnd,
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 4, RequeueAfter: 20 * time.Second}},
		"one retry is left": {records: []model.Record{helmtest.Record("failed", 4), good}, policy: helmtest.RetryOnce,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4,
				ToRevision: 5, Failures: 1}},
		"no retry is left": {records: []model.Record{helmtest.Record("failed", 5, failures(1)), good},
			policy: helmtest.RetryOnce,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 5,
				ToRevision: 5, Failures: 2}},
		"no retry allowed": {records: []model.Record{helmtest.Record("failed", 4), good}, policy: helmtest.NeverRetry,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4,
				ToRevision: 4, Failures: 1}},
		"by default ten": {records: []model.Record{helmtest.Record("failed", 14, failures(10)), good},
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 14,
				ToRevision: 14, Failures: 11}},
		"without limit": {records: []model.Record{helmtest.Record("failed", 99, failures(98), changed(time.Hour)), good},
			policy: withoutEnd,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 99,
				ToRevision: 100, Failures: 99}},
		"retry requested": {records: []model.Record{helmtest.Record("failed", 5, failures(1), changed(0)), good},
			policy: helmtest.NeverRetry, past: model.Past{Failures: 9, RetryRequested: true},
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5,
				ToRevision: 6}},
		"interrupted": {records: []model.Record{helmtest.Record("failed", 4, interrupted, changed(0)), good},
			policy: helmtest.NeverRetry,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonInterrupted, FromRevision: 4,
				ToRevision: 5, Interruptions: 1}},
		"failures at another state": {records: []model.Record{helmtest.Record("failed", 4, otherValues, failures(9)), good},
			policy: helmtest.NeverRetry,
			want: Decision{State: model.StateOutOfSync, Action: model.ActionUpgrade, Reason: ReasonValuesChanged,
				FromRevision: 4, ToRevision: 5}},
		"remediation by uninstall does not apply to upgrades": {records: []model.Record{helmtest.Record("failed", 4), good},
			policy: model.Policy{Install: model.FailurePolicy{Remediate: model.RemediateUninstall},
				Upgrade: model.FailurePolicy{Remediate: model.RemediateUninstall}},
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4,
				ToRevision: 5, Failures: 1}},
	})
}

func TestDecideRollback(t *testing.T) {
	t.Parallel()
	good := helmtest.Record("deployed", 3, otherArtifact)
	rollbackTo := func(target, from, count int, reason string) Decision {
		return Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: reason, FromRevision: from,
			ToRevision: from + 1, RollbackTo: target, Failures: count}
	}
	noTarget := Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonNoRollbackTarget,
		FromRevision: 4, ToRevision: 5, Failures: 1}
	runRemediationCases(t, map[string]remediationCase{
		"at once": {records: []model.Record{helmtest.Record("failed", 4, changed(0)), good},
			policy: helmtest.WithRollback, want: rollbackTo(3, 4, 1, ReasonUpgradeFailed)},
		"after the last failure": {records: []model.Record{helmtest.Record("failed", 6, failures(1)), good},
			policy: helmtest.WithRollback, want: rollbackTo(3, 6, 2, ReasonUpgradeFailed)},
		"to a revision made with helm": {records: []model.Record{helmtest.Record("failed", 4),
			helmtest.Record("deployed", 3, unlabelled)}, policy: helmtest.WithRollback,
			want: rollbackTo(3, 4, 1, ReasonUpgradeFailed)},
		"skips failed revisions": {records: []model.Record{helmtest.Record("failed", 4),
			helmtest.Record("failed", 3, otherValues), helmtest.Record("superseded", 2, otherArtifact)},
			policy: helmtest.WithRollback, want: rollbackTo(2, 4, 1, ReasonUpgradeFailed)},
		"skips revisions with failed tests": {records: []model.Record{helmtest.Record("failed", 4),
			helmtest.Record("deployed", 3, otherValues, tested(model.TestedFailed)),
			helmtest.Record("superseded", 2, otherArtifact)},
			policy: helmtest.WithRollback, want: rollbackTo(2, 4, 1, ReasonUpgradeFailed)},
		"not to a revision of the desired state": {records: []model.Record{helmtest.Record("failed", 4),
			helmtest.Record("deployed", 3)},
			policy: helmtest.WithRollback, want: noTarget},
		"not beyond an uninstallation": {records: []model.Record{helmtest.Record("failed", 4),
			helmtest.Record("uninstalled", 3),
			helmtest.Record("superseded", 2, otherArtifact)}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4,
				ToRevision: 5, Failures: 1}},
		"not of an installation": {records: []model.Record{helmtest.Record("failed", 1)}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 1,
				ToRevision: 2, Failures: 1}},
		"not if interrupted": {records: []model.Record{helmtest.Record("failed", 4, interrupted), good},
			policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonInterrupted, FromRevision: 4,
				ToRevision: 5, Interruptions: 1}},
		"not if a retry is requested": {records: []model.Record{helmtest.Record("failed", 4), good},
			policy: helmtest.WithRollback, past: model.Past{RetryRequested: true},
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4,
				ToRevision: 5}},

		"rolled back, not yet": {records: []model.Record{helmtest.Record("deployed", 5, rolledBack, failures(1),
			changed(3*time.Second))}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateRolledBack, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 5,
				ToRevision: 5, Failures: 1, RequeueAfter: 7 * time.Second}},
		"rolled back, next attempt": {records: []model.Record{helmtest.Record("deployed", 5, rolledBack, failures(1))},
			policy: helmtest.WithRollback,
			want: Decision{State: model.StateRolledBack, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5,
				ToRevision: 6, Failures: 1}},
		"rolled back, retries exhausted": {records: []model.Record{helmtest.Record("deployed", 7, rolledBack, failures(2))},
			policy: helmtest.WithRollback,
			want: Decision{State: model.StateRolledBack, Action: model.ActionStall, Reason: ReasonRetriesExhausted,
				FromRevision: 7, ToRevision: 7, Failures: 2}},
		"rolled back, retry requested": {records: []model.Record{helmtest.Record("deployed", 7, rolledBack, failures(2),
			changed(0))}, policy: helmtest.WithRollback, past: model.Past{RetryRequested: true},
			want: Decision{State: model.StateRolledBack, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 7,
				ToRevision: 8}},
		"rolled back after a requested retry": {records: []model.Record{helmtest.Record("deployed", 7, rolledBack)},
			policy: helmtest.WithRollback,
			want: Decision{State: model.StateRolledBack, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 7,
				ToRevision: 8, Failures: 1}},
		"rolled back again with helm": {records: []model.Record{helmtest.Record("deployed", 7, rolledBack, otherHand,
			failures(2))}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateUnmanaged, Action: model.ActionUpgrade, Reason: ReasonChangedOutsideHelmOp,
				FromRevision: 7, ToRevision: 8}},
		"rolled back to the desired state": {records: []model.Record{helmtest.Record("deployed", 7, rolledBackFromOther,
			failures(2))}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 7,
				ToRevision: 7}},
		"rolled back, another state is desired": {records: []model.Record{helmtest.Record("deployed", 7, rolledBackFromOther,
			otherValues, failures(2))}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateOutOfSync, Action: model.ActionUpgrade, Reason: ReasonValuesChanged,
				FromRevision: 7, ToRevision: 8}},

		"failed rollback, not yet": {records: []model.Record{helmtest.Record("failed", 5, rolledBack, failures(1),
			changed(3*time.Second)), helmtest.Record("failed", 4), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 5,
				ToRevision: 5, Failures: 1, RollbackFailures: 1, RequeueAfter: 7 * time.Second}},
		"failed rollback, retry": {records: []model.Record{helmtest.Record("failed", 5, rolledBack, failures(1)),
			helmtest.Record("failed", 4), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 5,
				ToRevision: 6, RollbackTo: 3, Failures: 1, RollbackFailures: 1}},
		"failed rollback, too often": {records: []model.Record{helmtest.Record("failed", 6, rolledBack, failures(1),
			rollbackFailures(1)), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRollbackFailed, FromRevision: 6,
				ToRevision: 6, Failures: 1, RollbackFailures: 2}},
		"failed rollback, retry requested": {records: []model.Record{helmtest.Record("failed", 6, rolledBack, failures(1),
			rollbackFailures(1), changed(0)), good}, policy: helmtest.WithRollback, past: model.Past{RetryRequested: true},
			want: Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 6,
				ToRevision: 7, RollbackTo: 3}},
		"failed rollback, interrupted": {records: []model.Record{helmtest.Record("failed", 5, rolledBack, interrupted,
			failures(1), changed(0)), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 5,
				ToRevision: 6, RollbackTo: 3, Failures: 1, Interruptions: 1}},
		"failed rollback, target no longer exists": {records: []model.Record{helmtest.Record("failed", 5, rolledBack,
			failures(1)), helmtest.Record("deployed", 4)}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionRollback, Reason: ReasonRollbackFailed, FromRevision: 5,
				ToRevision: 6, RollbackTo: 5, Failures: 1, RollbackFailures: 1}},
		"failed rollback, remediation disabled": {records: []model.Record{helmtest.Record("failed", 5, rolledBack,
			failures(1)),
			good}, policy: helmtest.RetryOnce,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5,
				ToRevision: 6, Failures: 1}},
		"failed rollback to the desired state": {records: []model.Record{helmtest.Record("failed", 5, rolledBackFromOther,
			failures(7), changed(0)), good}, policy: helmtest.NeverRetry,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 5,
				ToRevision: 6}},

		"interrupted rollback": {records: []model.Record{helmtest.Record("pending-rollback", 5, rolledBack, failures(1)),
			helmtest.Record("failed", 4), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StatePending, Action: model.ActionRollback, Reason: ReasonInterrupted,
				Recovery: RecoverReplace, FromRevision: 5, ToRevision: 5, RollbackTo: 3, Failures: 1, Interruptions: 1}},
		"interrupted rollback of an unhealthy revision": {records: []model.Record{helmtest.Record("pending-rollback", 5,
			rolledBack, failures(1)), helmtest.Record("deployed", 4), helmtest.Record("superseded", 3, otherArtifact)},
			policy: helmtest.WithRollback,
			want: Decision{State: model.StatePending, Action: model.ActionRollback, Reason: ReasonInterrupted,
				Recovery: RecoverReplace, FromRevision: 5, ToRevision: 5, RollbackTo: 3, Failures: 1, Interruptions: 1}},
		"interrupted rollback, remediation disabled": {records: []model.Record{helmtest.Record("pending-rollback", 5,
			rolledBack,
			failures(1)), helmtest.Record("failed", 4), good}, policy: helmtest.RetryOnce,
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonInterrupted,
				Recovery: RecoverFail, FromRevision: 5, ToRevision: 6, Failures: 1, Interruptions: 1}},
		"interrupted rollback from another state": {records: []model.Record{helmtest.Record("pending-rollback", 5,
			rolledBackFromOther, otherValues), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonValuesChanged,
				Recovery: RecoverFail, FromRevision: 5, ToRevision: 6}},
		"interrupted rollback to the desired state": {records: []model.Record{helmtest.Record("pending-rollback", 5,
			rolledBackFromOther), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonInterrupted,
				Recovery: RecoverFail, FromRevision: 5, ToRevision: 6}},
	})
}

func TestDecideFailedInstall(t *testing.T) {
	t.Parallel()
	again := Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 1,
		ToRevision: 2, Failures: 1}
	uninstall := Decision{State: model.StateFailed, Action: model.ActionUninstall, Reason: ReasonRemediateUninstall,
		FromRevision: 1, ToRevision: 1, Failures: 1}
	from := func(d Decision, revision int) Decision {
		d.ToRevision += revision - d.FromRevision
		d.FromRevision = revision
		return d
	}
	mayHaveWorked := func(d Decision) Decision { d.MayHaveWorked = true; return d }
	foundObjects := func(r *model.Record) { r.MayHaveWorked = true }
	runRemediationCases(t, map[string]remediationCase{
		"retry": {records: []model.Record{helmtest.Record("failed", 1)}, want: again},
		"stall": {records: []model.Record{helmtest.Record("failed", 1)},
			policy: model.Policy{Install: model.FailurePolicy{Retries: helmtest.Retries(0)},
				Upgrade: model.FailurePolicy{Retries: helmtest.Retries(-1)}},
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 1,
				ToRevision: 1, Failures: 1}},
		"uninstall": {records: []model.Record{helmtest.Record("failed", 1, changed(0))}, policy: helmtest.WithUninstall,
			want: uninstall},
		"uninstall, after retries by another policy": {records: []model.Record{helmtest.Record("failed", 3, otherArtifact),
			helmtest.Record("failed", 2, otherArtifact), helmtest.Record("failed", 1)}, policy: helmtest.WithUninstall,
			want: Decision{State: model.StateOutOfSync, Action: model.ActionUpgrade, Reason: ReasonArtifactChanged,
				FromRevision: 3, ToRevision: 4}},
		"uninstall, with a kept history": {records: []model.Record{helmtest.Record("failed", 3),
			helmtest.Record("uninstalled", 2), helmtest.Record("superseded", 1, otherArtifact)}, policy: helmtest.WithUninstall,
			want: from(uninstall, 3)},
		"the last failure stays": {records: []model.Record{helmtest.Record("failed", 1, failures(1))},
			policy: helmtest.WithUninstall,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 1,
				ToRevision: 1, Failures: 2}},
		"not if a revision worked": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("superseded", 1)}, policy: helmtest.WithUninstall, want: from(again, 2)},
		"not if the caller knows that it worked": {records: []model.Record{helmtest.Record("failed", 1)},
			policy: helmtest.WithUninstall, past: model.Past{Worked: true}, want: mayHaveWorked(again)},
		"not if the installation found objects": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("failed", 1, foundObjects)}, policy: helmtest.WithUninstall, want: from(again, 2)},
		"uninstall, objects found before an uninstallation": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("uninstalled", 1, foundObjects)}, policy: helmtest.WithUninstall, want: from(uninstall, 2)},
		"install, the caller knows that it worked": {policy: helmtest.WithUninstall, past: model.Past{Worked: true},
			want: mayHaveWorked(Decision{State: model.StateAbsent, Action: model.ActionInstall, Reason: ReasonNotInstalled,
				ToRevision: 1})},
		"upgrade, the records show that it worked": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("superseded", 1)}, policy: helmtest.WithUninstall, past: model.Past{Worked: true},
			want: from(again, 2)},
		"not if a revision may have worked": {records: []model.Record{helmtest.Record("failed", 4),
			helmtest.Record("failed", 3)}, policy: helmtest.WithUninstall, want: from(again, 4)},
		"not if the history has a gap": {records: []model.Record{helmtest.Record("failed", 3),
			helmtest.Record("failed", 1)}, policy: helmtest.WithUninstall, want: from(again, 3)},
		"not if a revision was made with helm": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("failed", 1, otherHand)}, policy: helmtest.WithUninstall, want: from(again, 2)},
		"not if a status is unknown": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("unknown", 1)}, policy: helmtest.WithUninstall, want: from(again, 2)},
		"not if the revision was interrupted": {records: []model.Record{helmtest.Record("failed", 1, interrupted)},
			policy: helmtest.WithUninstall,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonInterrupted, FromRevision: 1,
				ToRevision: 2, Interruptions: 1}},
		"uninstalled, not yet": {policy: helmtest.WithUninstall,
			past: model.Past{Failures: 1, FailedAt: helmtest.Now.Add(-3 * time.Second)},
			want: Decision{State: model.StateAbsent, Action: model.ActionWait, Reason: ReasonBackoff, Failures: 1,
				RequeueAfter: 7 * time.Second}},
		"uninstalled, next attempt": {policy: helmtest.WithUninstall,
			past: model.Past{Failures: 1, FailedAt: helmtest.Now.Add(-time.Minute)},
			want: Decision{State: model.StateAbsent, Action: model.ActionInstall, Reason: ReasonNotInstalled, ToRevision: 1,
				Failures: 1}},
		"uninstalled, history kept, next attempt": {records: []model.Record{helmtest.Record("uninstalled", 1)},
			policy: helmtest.WithUninstall, past: model.Past{Failures: 1, FailedAt: helmtest.Now.Add(-time.Minute)},
			want: Decision{State: model.StateUninstalled, Action: model.ActionInstall, Reason: ReasonNotInstalled,
				FromRevision: 1, ToRevision: 2, Failures: 1}},
		"uninstall failed, not yet": {records: []model.Record{helmtest.Record("uninstalling", 1, uninstalling, neverWorked)},
			policy: helmtest.WithUninstall, past: model.Past{Failures: 2, FailedAt: helmtest.Now.Add(-3 * time.Second)},
			want: Decision{State: model.StateUninstalling, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 1,
				ToRevision: 1, Failures: 2, RequeueAfter: 17 * time.Second}},
		"uninstall failed, retry without limit": {
			records: []model.Record{helmtest.Record("uninstalling", 1, uninstalling, neverWorked)},
			policy:  helmtest.WithUninstall, past: model.Past{Failures: 20, FailedAt: helmtest.Now.Add(-time.Hour)},
			want: Decision{State: model.StateUninstalling, Action: model.ActionUninstall, Reason: ReasonFinishUninstall,
				FromRevision: 1, ToRevision: 1, Failures: 20}},
		"uninstall interrupted": {records: []model.Record{helmtest.Record("uninstalling", 1, uninstalling, neverWorked,
			failures(1), changed(0))}, policy: helmtest.WithUninstall,
			want: Decision{State: model.StateUninstalling, Action: model.ActionUninstall, Reason: ReasonFinishUninstall,
				FromRevision: 1, ToRevision: 1, Failures: 1}},
		"absent, no retry left": {policy: helmtest.WithUninstall, past: model.Past{Failures: 2},
			want: Decision{State: model.StateAbsent, Action: model.ActionStall, Reason: ReasonRetriesExhausted, Failures: 2}},
		"absent, retry requested": {policy: helmtest.WithUninstall,
			past: model.Past{Failures: 2, FailedAt: helmtest.Now, RetryRequested: true},
			want: Decision{State: model.StateAbsent, Action: model.ActionInstall, Reason: ReasonNotInstalled, ToRevision: 1}},
	})
}

func TestDecideDeployed(t *testing.T) {
	t.Parallel()
	before := helmtest.Record("superseded", 3, otherArtifact)
	gated, ignoring := helmtest.WithRollback, helmtest.WithRollback
	gated.Test.Enabled = true
	ignoring.Test = model.TestPolicy{Enabled: true, IgnoreFailures: true}
	retrying := model.Policy{Install: model.FailurePolicy{Retries: helmtest.Retries(0)},
		Upgrade: model.FailurePolicy{Retries: helmtest.Retries(1)}, Test: model.TestPolicy{Enabled: true}}
	correcting := helmtest.WithRollback
	correcting.CorrectDrift = true
	correctingTests := retrying
	correctingTests.CorrectDrift = true
	inSync := Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 4,
		ToRevision: 4}
	rollback := func(reason string, state model.State, count int) Decision {
		return Decision{State: state, Action: model.ActionRollback, Reason: reason, FromRevision: 4, ToRevision: 5,
			RollbackTo: 3, Failures: count}
	}
	drifted := func(action model.Action, count int) Decision {
		return Decision{State: model.StateDrifted, Action: action, Reason: ReasonDrifted, FromRevision: 4, ToRevision: 4,
			Failures: count}
	}
	runRemediationCases(t, map[string]remediationCase{
		"in sync, earlier failures": {records: []model.Record{helmtest.Record("deployed", 4, failures(2)), before},
			past: model.Past{Failures: 2}, want: inSync},
		"unhealthy, rollback": {records: []model.Record{helmtest.Record("deployed", 4), before},
			policy: helmtest.WithRollback, past: model.Past{Unhealthy: true},
			want: rollback(ReasonUnhealthy, model.StateInSync, 1)},
		"unhealthy again, rollback": {records: []model.Record{helmtest.Record("deployed", 4, failures(1)), before},
			policy: helmtest.WithRollback, past: model.Past{Unhealthy: true},
			want: rollback(ReasonUnhealthy, model.StateInSync, 2)},
		"unhealthy, retry requested": {records: []model.Record{helmtest.Record("deployed", 4, failures(9)), before},
			policy: helmtest.WithRollback, past: model.Past{Unhealthy: true, RetryRequested: true},
			want: rollback(ReasonUnhealthy, model.StateInSync, 1)},
		"unhealthy, without rollback": {records: []model.Record{helmtest.Record("deployed", 4), before},
			past: model.Past{Unhealthy: true}, want: inSync},
		"unhealthy installation": {records: []model.Record{helmtest.Record("deployed", 4)},
			policy: helmtest.WithRollback, past: model.Past{Unhealthy: true}, want: inSync},
		"unhealthy, no rollback target": {records: []model.Record{helmtest.Record("deployed", 4),
			helmtest.Record("superseded", 3)}, policy: helmtest.WithRollback, past: model.Past{Unhealthy: true}, want: inSync},

		"untested, not healthy yet": {records: []model.Record{helmtest.Record("deployed", 4), before}, policy: gated,
			past: model.Past{Progressing: true},
			want: Decision{State: model.StateUntested, Action: model.ActionNone, Reason: ReasonUntested, FromRevision: 4,
				ToRevision: 4}},
		"untested": {records: []model.Record{helmtest.Record("deployed", 4, failures(1)), before},
			policy: gated, want: Decision{State: model.StateUntested, Action: model.ActionTest, Reason: ReasonUntested,
				FromRevision: 4, ToRevision: 4, Failures: 1}},
		"tests passed": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedPassed)),
			before}, policy: gated, want: inSync},
		"adopted": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedAdopted)), before},
			policy: gated, want: inSync},
		"tests disabled": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed)),
			before}, policy: helmtest.WithRollback, want: inSync},
		"failures ignored": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed)),
			before}, policy: ignoring, want: inSync},
		"failures ignored, tests not run yet": {records: []model.Record{helmtest.Record("deployed", 4), before},
			policy: ignoring,
			want: Decision{State: model.StateUntested, Action: model.ActionTest, Reason: ReasonUntested, FromRevision: 4,
				ToRevision: 4}},
		"tests failed, rollback": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(2)), before}, policy: gated, want: rollback(ReasonTestsFailed, model.StateFailed, 2)},
		"tests failed, run again": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(1)), before}, policy: retrying,
			want: Decision{State: model.StateFailed, Action: model.ActionTest, Reason: ReasonTestsFailed, FromRevision: 4,
				ToRevision: 4, Failures: 1}},
		"tests failed, not yet": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(1), changed(time.Second)), before}, policy: retrying,
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 1, RequeueAfter: 9 * time.Second}},
		"tests failed too often": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(2)), before}, policy: retrying,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4,
				ToRevision: 4, Failures: 2}},
		"tests of an installation failed": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(1))}, policy: retrying,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4,
				ToRevision: 4, Failures: 1}},
		"tests failed, retry requested": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(2), changed(0)), before}, policy: retrying, past: model.Past{RetryRequested: true},
			want: Decision{State: model.StateFailed, Action: model.ActionTest, Reason: ReasonTestsFailed, FromRevision: 4,
				ToRevision: 4}},

		"drifted": {records: []model.Record{helmtest.Record("deployed", 4), before},
			past: model.Past{Drifted: true}, want: drifted(model.ActionNone, 0)},
		"drifted, correct": {records: []model.Record{helmtest.Record("deployed", 4), before}, policy: correcting,
			past: model.Past{Drifted: true}, want: drifted(model.ActionCorrectDrift, 0)},
		"drifted, tests stalled": {records: []model.Record{helmtest.Record("deployed", 4, tested(model.TestedFailed),
			failures(2)), before}, policy: correctingTests, past: model.Past{Drifted: true},
			want: drifted(model.ActionCorrectDrift, 2)},
		"drifted and unhealthy": {records: []model.Record{helmtest.Record("deployed", 4), before}, policy: correcting,
			past: model.Past{Drifted: true, Unhealthy: true}, want: rollback(ReasonUnhealthy, model.StateInSync, 1)},
		"drifted, rolled back": {records: []model.Record{helmtest.Record("deployed", 4, rolledBack, failures(2)),
			before}, policy: correcting, past: model.Past{Drifted: true}, want: drifted(model.ActionCorrectDrift, 2)},
		"drifted, rolled back, warn": {records: []model.Record{helmtest.Record("deployed", 4, rolledBack, failures(2)),
			before}, policy: helmtest.WithRollback, past: model.Past{Drifted: true},
			want: Decision{State: model.StateRolledBack, Action: model.ActionStall, Reason: ReasonRetriesExhausted,
				FromRevision: 4, ToRevision: 4, Failures: 2}},
		"drifted and failed": {records: []model.Record{helmtest.Record("failed", 4, failures(2)), before},
			policy: model.Policy{Upgrade: model.FailurePolicy{Retries: helmtest.Retries(0)}, CorrectDrift: true},
			past:   model.Past{Drifted: true},
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted,
				FromRevision: 4, ToRevision: 4, Failures: 3}},
		"taken over by another HelmOp": {records: []model.Record{helmtest.Record("deployed", 4, otherOwner)},
			policy: model.Policy{TakeOwnership: true}, past: model.Past{WasOurs: true},
			want: Decision{State: model.StateForeign, Action: model.ActionRefuse, Reason: ReasonConflict, FromRevision: 4,
				ToRevision: 4}},
		"taken over with helm": {records: []model.Record{helmtest.Record("deployed", 4, unlabelled)},
			policy: model.Policy{TakeOwnership: true}, past: model.Past{WasOurs: true},
			want: Decision{State: model.StateForeign, Action: model.ActionAdopt, Reason: ReasonAdopt, FromRevision: 4,
				ToRevision: 4}},
		"drifted, pending of another UID": {records: []model.Record{helmtest.Record("pending-upgrade", 4, otherUID), before},
			policy: correcting, past: model.Past{Drifted: true},
			want: Decision{State: model.StatePending, Action: model.ActionWait, Reason: ReasonPendingOtherOwner, FromRevision: 4,
				ToRevision: 4, RequeueAfter: OtherProcessRetry, Interruptions: 1}},
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failures int
		jitter   float64
		want     time.Duration
	}{
		{-1, 0, 0}, {0, 1, 0}, {1, 0, 10 * time.Second}, {2, 0, 20 * time.Second}, {3, 0.5, 44 * time.Second},
		{6, 0, 320 * time.Second},
		{7, 0, 10 * time.Minute}, {math.MaxInt, 1, 12 * time.Minute}, {1, 7, 12 * time.Second}, {1, -7, 10 * time.Second},
		{1, math.NaN(), 10 * time.Second}, {1, math.Inf(1), 12 * time.Second},
	} {
		if got := model.Backoff(test.failures, test.jitter); got != test.want {
			t.Errorf("Backoff(%d, %g) = %s, want %s", test.failures, test.jitter, got, test.want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	if d := Unreachable(); d.Action != model.ActionWait || d.State != model.StateUnreachable || d.RequeueAfter <= 0 ||
		d.Failures != 0 || d.Message == "" {
		t.Errorf("%+v", d)
	}
}

// TestDecideNeverUninstallsWhatWorked checks histories of up to three revisions with every policy and past: the
// decision is never to uninstall a release that worked.
func TestDecideNeverUninstallsWhatWorked(t *testing.T) {
	t.Parallel()
	statuses := []string{"deployed", "superseded", "failed", "pending-install", "pending-upgrade", "pending-rollback",
		"unknown", "uninstalling"}
	changes := []func(*model.Record){func(*model.Record) {}, otherHand, rolledBack, interrupted}
	policies := []model.Policy{{}, helmtest.WithUninstall, helmtest.WithRollback, helmtest.NeverRetry,
		{TakeOwnership: true, Install: model.FailurePolicy{Remediate: model.RemediateUninstall},
			Upgrade: model.FailurePolicy{Remediate: model.RemediateUninstall}, Test: model.TestPolicy{Enabled: true}}}
	pasts := []model.Past{{}, {Failures: 3, Unhealthy: true, Drifted: true, Worked: true}, {RetryRequested: true, Unhealthy: true}}
	var try func(records []model.Record, depth int)
	try = func(records []model.Record, depth int) {
		worked := false
		for _, record := range records {
			worked = worked || record.Status == "deployed" || record.Status == "superseded" ||
				record.Status == "uninstalling"
		}
		for _, policy := range policies {
			for _, past := range pasts {
				d := Next(model.Observation{Records: records}, helmtest.Desired(), policy, past, helmtest.Now)
				if (worked || past.Worked) && d.Action == model.ActionUninstall {
					t.Fatalf("%+v with %+v and %+v: %+v", records, policy, past, d)
				}
				if d.Action == model.ActionRollback && (d.RollbackTo < 1 || d.RollbackTo > d.FromRevision) || d.Message == "" ||
					(d.Action == model.ActionWait) != (d.RequeueAfter > 0) {
					t.Fatalf("%+v with %+v and %+v: %+v", records, policy, past, d)
				}
			}
		}
		if depth == 0 {
			return
		}
		for _, status := range statuses {
			for _, change := range changes {
				below := helmtest.Record(status, depth, change)
				try(append(append([]model.Record{}, records...), below), depth-1)
			}
		}
	}
	try(nil, 3)
}

// TestDecideKeepsTimeOfFirstAttempt checks that a new record gets the time of the first failed attempt at its state.
func TestDecideKeepsTimeOfFirstAttempt(t *testing.T) {
	t.Parallel()
	at := func(minutes int) func(*model.Record) {
		return func(r *model.Record) { r.AttemptsSince = helmtest.Now.Add(time.Duration(minutes) * time.Minute) }
	}
	other := func(r *model.Record) { r.ValuesDigest = "other" }
	byHelm := func(r *model.Record) { r.LabelledRevision-- }
	failed := func(revision int, change ...func(*model.Record)) model.Record {
		return helmtest.Record("failed", revision, change...)
	}
	deployed := helmtest.Record("deployed", 2, at(1))
	for name, tc := range map[string]struct {
		records []model.Record
		want    int
	}{
		"absent":              {nil, 0},
		"deployed":            {[]model.Record{deployed}, 0},
		"failed":              {[]model.Record{failed(4, at(4)), deployed}, 4},
		"pending":             {[]model.Record{helmtest.Record("pending-upgrade", 4, at(4)), deployed}, 4},
		"failed twice":        {[]model.Record{failed(4, at(3)), failed(3, at(4))}, 3},
		"other state":         {[]model.Record{failed(4, at(4), other), deployed}, 0},
		"other state between": {[]model.Record{failed(4, at(4), other), failed(3, at(3))}, 3},
		"made by helm":        {[]model.Record{failed(4, at(4), byHelm), deployed}, 0},
		"uninstalled":         {[]model.Record{helmtest.Record("uninstalled", 4, at(4)), failed(3, at(3))}, 0},
	} {
		want := time.Time{}
		if tc.want > 0 {
			want = helmtest.Now.Add(time.Duration(tc.want) * time.Minute)
		}
		got := Next(model.Observation{Records: tc.records}, helmtest.Desired(), model.Policy{}, model.Past{}, helmtest.Now)
		if !got.AttemptsSince.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got.AttemptsSince, want)
		}
	}
}
