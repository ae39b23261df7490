// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func interruptions(n int) func(*model.Record) { return func(r *model.Record) { r.Interruptions = n } }

// forRequest sets the retry request of a record.
func forRequest(request string) func(*model.Record) {
	return func(r *model.Record) { r.Request = request }
}

func (d Decision) asked(request string) Decision {
	d.Request = request
	return d
}

// TestDecideInterrupted checks that an interrupted action is continued at once, but not forever: the action itself may
// break the connection or end the process.
func TestDecideInterrupted(t *testing.T) {
	t.Parallel()
	good := helmtest.Record("deployed", 3, otherArtifact)
	pending := func(n int, change ...func(*model.Record)) []model.Record {
		return []model.Record{helmtest.Record("pending-upgrade", 4,
			append([]func(*model.Record){interruptions(n), changed(0)}, change...)...), good}
	}
	again := func(cut, count int) Decision {
		return Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonInterrupted,
			Recovery:     RecoverReplace,
			FromRevision: 4, ToRevision: 4, Failures: count, Interruptions: cut}
	}
	wait := func(cut, count int, after time.Duration) Decision {
		return Decision{State: model.StatePending, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
			ToRevision: 4,
			Failures:   count, Interruptions: cut, RequeueAfter: after}
	}
	stall := func(cut, count int) Decision {
		return Decision{State: model.StatePending, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4,
			ToRevision: 4,
			Failures:   count, Interruptions: cut}
	}
	rollback := helmtest.Record("pending-rollback", 5, rolledBack, failures(1), interruptions(2), changed(0))
	install := helmtest.Record("pending-install", 1, interruptions(3))
	runRemediationCases(t, map[string]remediationCase{
		"once, whatever the policy":     {records: pending(0), policy: helmtest.NeverRetry, want: again(1, 0)},
		"twice, whatever the policy":    {records: pending(1), policy: helmtest.NeverRetry, want: again(2, 0)},
		"three times, no retry allowed": {records: pending(2), policy: helmtest.NeverRetry, want: stall(3, 0)},
		"three times":                   {records: pending(2), want: wait(3, 0, 10*time.Second)},
		"three times, after a while":    {records: pending(2, changed(10*time.Second)), want: again(3, 0)},
		"four times":                    {records: pending(3), want: wait(4, 0, 20*time.Second)},
		"by default twelve":             {records: pending(11, changed(time.Hour)), want: again(12, 0)},
		"more than the default":         {records: pending(12, changed(time.Hour)), want: stall(13, 0)},
		"without limit": {records: pending(98, changed(time.Hour)), policy: withoutEnd,
			want: again(99, 0)},
		"the last attempt allowed": {records: pending(0, failures(1)), policy: helmtest.RetryOnce,
			want: again(1, 1)},
		"failures count, too": {records: pending(2, failures(1)), policy: helmtest.RetryOnce,
			want: stall(3, 1)},
		"more failures than allowed": {records: pending(0, failures(7)), policy: helmtest.NeverRetry,
			past: model.Past{Failures: 8, FailedAt: helmtest.Now}, want: stall(1, 8)},
		"the caller counted the attempt as failed": {records: pending(0, changed(5*time.Second)),
			past: model.Past{Failures: 1, FailedAt: helmtest.Now.Add(-3 * time.Second)},
			want: wait(1, 1, 7*time.Second)},
		"retry requested, requests without digests": {records: pending(40, failures(40)), policy: helmtest.NeverRetry,
			past: model.Past{Failures: 40, FailedAt: helmtest.Now, RetryRequested: true}, want: again(0, 0)},
		"retry requested, record of an older version": {records: pending(40, failures(40)), policy: helmtest.NeverRetry,
			past: model.Past{Failures: 40, FailedAt: helmtest.Now, RetryRequested: true, Request: "r1"},
			want: again(0, 0).asked("r1")},
		"another retry requested": {records: pending(40, failures(40), forRequest("r1")), policy: helmtest.NeverRetry,
			past: model.Past{Failures: 40, FailedAt: helmtest.Now, RetryRequested: true, Request: "r2"},
			want: again(0, 0).asked("r2")},
		"retry request was handled": {records: pending(0, forRequest("r1")), policy: helmtest.NeverRetry,
			past: model.Past{Failures: 40, FailedAt: helmtest.Now, RetryRequested: true, Request: "r1"},
			want: again(1, 0).asked("r1")},
		"retry request was handled three times": {records: pending(2, forRequest("r1")),
			past: model.Past{RetryRequested: true, Request: "r1"}, want: wait(3, 0, 10*time.Second).asked("r1")},
		"retry request was handled too often": {records: pending(12, forRequest("r1"), changed(time.Hour)),
			past: model.Past{RetryRequested: true, Request: "r1"}, want: stall(13, 0).asked("r1")},
		"retry request for another state": {records: pending(2, forRequest("r1"), otherValues),
			past: model.Past{RetryRequested: true, Request: "r1"},
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonValuesChanged,
				Recovery: RecoverFail, FromRevision: 4, ToRevision: 5}.asked("r1")},
		"no retry requested, other last request": {records: pending(2, forRequest("r1")), past: model.Past{Request: "r2"},
			want: wait(3, 0, 10*time.Second).asked("r2")},
		"retry request was handled, attempt failed": {records: []model.Record{helmtest.Record("failed", 4, forRequest("r1"),
			failures(2),
			changed(0)), good},
			past: model.Past{Failures: 40, FailedAt: helmtest.Now, RetryRequested: true, Request: "r1"},
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Failures: 3, Request: "r1", RequeueAfter: 40 * time.Second}},
		"retry request was handled, rollback failed": {records: []model.Record{helmtest.Record("failed", 5, rolledBack,
			forRequest("r1"), failures(1), rollbackFailures(2), changed(0)), helmtest.Record("failed", 4), good},
			policy: helmtest.WithRollback, past: model.Past{RetryRequested: true, Request: "r1"},
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRollbackFailed, FromRevision: 5,
				ToRevision: 5, Failures: 1, RollbackFailures: 3, Request: "r1"}},
		"other request without a retry": {records: []model.Record{helmtest.Record("deployed", 4, forRequest("r1")), good},
			past: model.Past{RetryRequested: true, Request: "r2"},
			want: Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 4,
				ToRevision: 4, Request: "r2"}},
		"no request on an old record": {records: []model.Record{helmtest.Record("deployed", 4), good},
			past: model.Past{Request: "r2"},
			want: Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 4,
				ToRevision: 4, Request: "r2"}},
		"another state is desired": {records: pending(40, otherValues), policy: helmtest.NeverRetry,
			want: Decision{State: model.StatePending, Action: model.ActionRecoverThenUpgrade, Reason: ReasonValuesChanged,
				Recovery: RecoverFail, FromRevision: 4, ToRevision: 5}},
		"after a move": {records: pending(2, otherUID, old), policy: helmtest.NeverRetry, want: stall(3, 0)},
		"an install": {records: []model.Record{install},
			policy: model.Policy{Install: model.FailurePolicy{Retries: helmtest.Retries(1)},
				Upgrade: model.FailurePolicy{Retries: helmtest.Retries(-1)}},
			want: Decision{State: model.StatePending, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 1,
				ToRevision: 1, Interruptions: 4}},
		"a rollback": {records: []model.Record{rollback, helmtest.Record("failed", 4), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StatePending, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 5,
				ToRevision: 5, Failures: 1, Interruptions: 3, RequeueAfter: 10 * time.Second}},
		"marked as failed": {records: []model.Record{helmtest.Record("failed", 4, interrupted, interruptions(3), changed(0)),
			good},
			want: Decision{State: model.StateFailed, Action: model.ActionWait, Reason: ReasonBackoff, FromRevision: 4,
				ToRevision: 4, Interruptions: 4, RequeueAfter: 20 * time.Second}},
		"a rollback marked as failed": {records: []model.Record{helmtest.Record("failed", 5, rolledBack, interrupted,
			interruptions(3), failures(1)), helmtest.Record("failed", 4), good}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 5,
				ToRevision: 5, Failures: 1, Interruptions: 4}},
		"interruptions before a completed attempt do not count": {records: []model.Record{helmtest.Record("failed", 4,
			interruptions(9)),
			good},
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4,
				ToRevision: 5, Failures: 1}},
	})
	d := Next(model.Observation{Records: pending(12)}, helmtest.Desired(), model.Policy{}, model.Past{}, helmtest.Now)
	if !strings.Contains(d.Message, "13 attempts in a row were interrupted") ||
		!strings.Contains(d.Message, "retry-requested-at") {
		t.Errorf("message %q", d.Message)
	}
}

// TestDecideKeepsFailedInstallation checks in which cases a failed installation is not uninstalled although the policy
// remediates by uninstalling.
func TestDecideKeepsFailedInstallation(t *testing.T) {
	t.Parallel()
	adopting := helmtest.WithUninstall
	adopting.TakeOwnership = true
	tests := map[string]struct {
		records []model.Record
		policy  model.Policy
		change  func(*model.Desired)
		message string
	}{
		"the policy takes ownership": {records: []model.Record{helmtest.Record("failed", 2), helmtest.Record("failed", 1)},
			policy: adopting, message: "takes ownership"},
		"another UID": {records: []model.Record{helmtest.Record("failed", 2, otherUID),
			helmtest.Record("failed", 1)}, policy: helmtest.WithUninstall, message: "another HelmOpRelease"},
		"no UID": {records: []model.Record{helmtest.Record("failed", 2)}, policy: helmtest.WithUninstall,
			change: func(d *model.Desired) { d.UID = "" }, message: "another HelmOpRelease"},
		"an earlier revision was interrupted": {records: []model.Record{helmtest.Record("failed", 2),
			helmtest.Record("failed", 1, interrupted, otherArtifact)}, policy: helmtest.WithUninstall,
			message: "may have worked before, according to its history"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desired := helmtest.Desired()
			if test.change != nil {
				test.change(&desired)
			}
			d := Next(model.Observation{Records: test.records}, desired, test.policy, model.Past{}, helmtest.Now)
			if d.Action != model.ActionUpgrade || d.Reason != ReasonRetryFailed || !strings.Contains(d.Message, test.message) {
				t.Errorf("%+v", d)
			}
		})
	}
}
