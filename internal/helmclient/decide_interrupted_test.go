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
	"strings"
	"testing"
	"time"
)

func interruptions(n int) func(*Record) { return func(r *Record) { r.Interruptions = n } }

// upon says which request a record was made upon.
func upon(request string) func(*Record) { return func(r *Record) { r.Request = request } }

func (d Decision) asked(request string) Decision {
	d.Request = request
	return d
}

// TestDecideInterrupted holds that what was cut off is taken up at once, but not for ever: it may itself be what cuts the
// connection, or ends the process, each time.
func TestDecideInterrupted(t *testing.T) {
	t.Parallel()
	good := testRecord("deployed", 3, otherArtifact)
	pending := func(n int, change ...func(*Record)) []Record {
		return []Record{testRecord("pending-upgrade", 4, append([]func(*Record){interruptions(n), changed(0)}, change...)...), good}
	}
	again := func(cut, count int) Decision {
		return Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverReplace,
			FromRevision: 4, ToRevision: 4, Failures: count, Interruptions: cut}
	}
	wait := func(cut, count int, after time.Duration) Decision {
		return Decision{State: StatePending, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4,
			Failures: count, Interruptions: cut, RequeueAfter: after}
	}
	stall := func(cut, count int) Decision {
		return Decision{State: StatePending, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 4, ToRevision: 4,
			Failures: count, Interruptions: cut}
	}
	rollback := testRecord("pending-rollback", 5, rolledBack, failures(1), interruptions(2), changed(0))
	install := testRecord("pending-install", 1, interruptions(3))
	runRemediationCases(t, map[string]remediationCase{
		"once, whatever the policy":   {records: pending(0), policy: neverRetry, want: again(1, 0)},
		"twice, whatever the policy":  {records: pending(1), policy: neverRetry, want: again(2, 0)},
		"three times, none allowed":   {records: pending(2), policy: neverRetry, want: stall(3, 0)},
		"three times":                 {records: pending(2), want: wait(3, 0, 10*time.Second)},
		"three times, after a while":  {records: pending(2, changed(10*time.Second)), want: again(3, 0)},
		"four times":                  {records: pending(3), want: wait(4, 0, 20*time.Second)},
		"by default twelve":           {records: pending(11, changed(time.Hour)), want: again(12, 0)},
		"and no more":                 {records: pending(12, changed(time.Hour)), want: stall(13, 0)},
		"without end":                 {records: pending(98, changed(time.Hour)), policy: withoutEnd, want: again(99, 0)},
		"the last try allowed":        {records: pending(0, failures(1)), policy: retryOnce, want: again(1, 1)},
		"failures count, too":         {records: pending(2, failures(1)), policy: retryOnce, want: stall(3, 1)},
		"more failed than is allowed": {records: pending(0, failures(7)), policy: neverRetry, past: Past{Failures: 8, FailedAt: testNow}, want: stall(1, 8)},
		"the caller counted it as failed": {records: pending(0), past: Past{Failures: 1, FailedAt: testNow.Add(-3 * time.Second)},
			want: wait(1, 1, 7*time.Second)},
		"somebody asks, requests are not told apart": {records: pending(40, failures(40)), policy: neverRetry, past: Past{Failures: 40, FailedAt: testNow, RetryRequested: true}, want: again(0, 0)},
		"somebody asks, the record is of an older version": {records: pending(40, failures(40)), policy: neverRetry,
			past: Past{Failures: 40, FailedAt: testNow, RetryRequested: true, Request: "r1"}, want: again(0, 0).asked("r1")},
		"somebody asks anew": {records: pending(40, failures(40), upon("r1")), policy: neverRetry,
			past: Past{Failures: 40, FailedAt: testNow, RetryRequested: true, Request: "r2"}, want: again(0, 0).asked("r2")},
		"somebody asked, and it was tried": {records: pending(0, upon("r1")), policy: neverRetry,
			past: Past{Failures: 40, FailedAt: testNow, RetryRequested: true, Request: "r1"}, want: again(1, 0).asked("r1")},
		"somebody asked, and it was tried thrice": {records: pending(2, upon("r1")),
			past: Past{RetryRequested: true, Request: "r1"}, want: wait(3, 0, 10*time.Second).asked("r1")},
		"somebody asked, and it was tried too often": {records: pending(12, upon("r1"), changed(time.Hour)),
			past: Past{RetryRequested: true, Request: "r1"}, want: stall(13, 0).asked("r1")},
		"somebody asked for something else": {records: pending(2, upon("r1"), otherValues), past: Past{RetryRequested: true, Request: "r1"},
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 4, ToRevision: 5}.asked("r1")},
		"nobody asks, and the request is another": {records: pending(2, upon("r1")), past: Past{Request: "r2"}, want: wait(3, 0, 10*time.Second).asked("r2")},
		"somebody asked, and it failed": {records: []Record{testRecord("failed", 4, upon("r1"), failures(2), changed(0)), good},
			past: Past{Failures: 40, FailedAt: testNow, RetryRequested: true, Request: "r1"},
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Failures: 3, Request: "r1", RequeueAfter: 40 * time.Second}},
		"somebody asked, and its rollback failed": {records: []Record{testRecord("failed", 5, rolledBack, upon("r1"), failures(1), rollbackFailures(2), changed(0)), testRecord("failed", 4), good},
			policy: withRollback, past: Past{RetryRequested: true, Request: "r1"},
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRollbackFailed, FromRevision: 5, ToRevision: 5, Failures: 1, RollbackFailures: 3, Request: "r1"}},
		"another request alone changes nothing": {records: []Record{testRecord("deployed", 4, upon("r1")), good}, past: Past{RetryRequested: true, Request: "r2"},
			want: Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 4, ToRevision: 4, Request: "r2"}},
		"no request on an old record changes nothing": {records: []Record{testRecord("deployed", 4), good}, past: Past{Request: "r2"},
			want: Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 4, ToRevision: 4, Request: "r2"}},
		"something else is desired": {records: pending(40, otherValues), policy: neverRetry,
			want: Decision{State: StatePending, Action: ActionRecoverThenUpgrade, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 4, ToRevision: 5}},
		"of a release that moved": {records: pending(2, otherUID, old), policy: neverRetry, want: stall(3, 0)},
		"an install":              {records: []Record{install}, policy: Policy{Install: FailurePolicy{Retries: retries(1)}, Upgrade: FailurePolicy{Retries: retries(-1)}}, want: Decision{State: StatePending, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 1, ToRevision: 1, Interruptions: 4}},
		"a rollback": {records: []Record{rollback, testRecord("failed", 4), good}, policy: withRollback,
			want: Decision{State: StatePending, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 5, ToRevision: 5, Failures: 1, Interruptions: 3, RequeueAfter: 10 * time.Second}},
		"marked as failed": {records: []Record{testRecord("failed", 4, interrupted, interruptions(3), changed(0)), good},
			want: Decision{State: StateFailed, Action: ActionWait, Reason: ReasonBackoff, FromRevision: 4, ToRevision: 4, Interruptions: 4, RequeueAfter: 20 * time.Second}},
		"a rollback marked as failed": {records: []Record{testRecord("failed", 5, rolledBack, interrupted, interruptions(3), failures(1)), testRecord("failed", 4), good}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionStall, Reason: ReasonRetriesExhausted, FromRevision: 5, ToRevision: 5, Failures: 1, Interruptions: 4}},
		"one that came to an end counts no more": {records: []Record{testRecord("failed", 4, interruptions(9)), good},
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonRetryFailed, FromRevision: 4, ToRevision: 5, Failures: 1}},
	})
	d := Decide(Observation{Records: pending(12)}, testDesired(), Policy{}, Past{}, testNow)
	if !strings.Contains(d.Message, "13 tries in a row were cut off") || !strings.Contains(d.Message, "retry-requested-at") {
		t.Errorf("message %q", d.Message)
	}
}

// TestDecideKeepsFailedInstall holds where a failed install is not uninstalled although the policy says so.
func TestDecideKeepsFailedInstall(t *testing.T) {
	t.Parallel()
	adopting := withUninstall
	adopting.TakeOwnership = true
	tests := map[string]struct {
		records []Record
		policy  Policy
		change  func(*Desired)
		message string
	}{
		"it took objects over":       {records: []Record{testRecord("failed", 2), testRecord("failed", 1)}, policy: adopting, message: "takes ownership"},
		"another object asked":       {records: []Record{testRecord("failed", 2, otherUID), testRecord("failed", 1)}, policy: withUninstall, message: "another object"},
		"nobody asks":                {records: []Record{testRecord("failed", 2)}, policy: withUninstall, change: func(d *Desired) { d.UID = "" }, message: "another object"},
		"an earlier one was cut off": {records: []Record{testRecord("failed", 2), testRecord("failed", 1, interrupted, otherArtifact)}, policy: withUninstall, message: "does not prove"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desired := testDesired()
			if test.change != nil {
				test.change(&desired)
			}
			d := Decide(Observation{Records: test.records}, desired, test.policy, Past{}, testNow)
			if d.Action != ActionUpgrade || d.Reason != ReasonRetryFailed || !strings.Contains(d.Message, test.message) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestDecideRollbackTarget holds that a rollback does not return to what was rolled back from.
func TestDecideRollbackTarget(t *testing.T) {
	t.Parallel()
	unhealthy := func(r *Record) { r.ArtifactDigest = "2" }
	fromUnhealthy := func(r *Record) {
		otherArtifact(r)
		r.RolledBackFrom = testRecord("deployed", 1, unhealthy).attempt()
	}
	newest := testRecord("failed", 9)
	tests := map[string]struct {
		below []Record
		want  int
	}{
		"the return itself":          {[]Record{testRecord("deployed", 8, fromUnhealthy), testRecord("superseded", 7, unhealthy), testRecord("superseded", 6, otherArtifact)}, 8},
		"the return failed":          {[]Record{testRecord("failed", 8, fromUnhealthy), testRecord("deployed", 7, unhealthy), testRecord("superseded", 6, otherArtifact)}, 6},
		"the return was cut off":     {[]Record{testRecord("failed", 8, fromUnhealthy, interrupted), testRecord("deployed", 7, unhealthy), testRecord("superseded", 6, unhealthy), testRecord("superseded", 5, otherArtifact)}, 5},
		"tried again since":          {[]Record{testRecord("deployed", 8, unhealthy), testRecord("superseded", 7, fromUnhealthy), testRecord("superseded", 6, unhealthy)}, 8},
		"a hand returned to it":      {[]Record{testRecord("deployed", 8, unhealthy, otherHand), testRecord("failed", 7, fromUnhealthy), testRecord("superseded", 6, unhealthy)}, 8},
		"a hand copied the labels":   {[]Record{testRecord("failed", 8, fromUnhealthy, otherHand), testRecord("deployed", 7, unhealthy)}, 7},
		"nothing else":               {[]Record{testRecord("failed", 8, fromUnhealthy), testRecord("deployed", 7, unhealthy)}, 0},
		"what was before this life":  {[]Record{testRecord("superseded", 8, unhealthy), testRecord("uninstalled", 7), testRecord("superseded", 6, fromUnhealthy)}, 8},
		"nothing but before it":      {[]Record{testRecord("failed", 8, otherValues), testRecord("uninstalled", 7), testRecord("superseded", 6, otherArtifact)}, 0},
		"failed with other versions": {[]Record{testRecord("failed", 8, otherValues), testRecord("failed", 7, otherOptions), testRecord("deployed", 6, otherArtifact)}, 6},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(Observation{Records: append([]Record{newest}, test.below...)}, testDesired(), withRollback, Past{}, testNow)
			if d.RollbackTo != test.want || (d.Action == ActionRollback) != (test.want > 0) {
				t.Errorf("want a return to %d: %+v", test.want, d)
			}
		})
	}
}

// TestDecideRollbackTargetOvertaken holds that a rollback returns to a revision that had the time to become healthy, if there is one.
func TestDecideRollbackTargetOvertaken(t *testing.T) {
	t.Parallel()
	broken := func(r *Record) { r.ArtifactDigest = "2" }
	fromBroken := func(r *Record) {
		otherArtifact(r)
		r.RolledBackFrom = testRecord("deployed", 1, broken).attempt()
	}
	unproven := func(revision int) func(*Record) { return func(r *Record) { r.Unproven = revision } }
	newest := testRecord("failed", 9, unproven(8))
	for name, test := range map[string]struct {
		below []Record
		want  int
	}{
		"one":                              {[]Record{testRecord("superseded", 8, broken), testRecord("superseded", 7, otherArtifact)}, 7},
		"two":                              {[]Record{testRecord("superseded", 8, broken, unproven(7)), testRecord("superseded", 7, otherValues), testRecord("superseded", 6, otherArtifact)}, 6},
		"as one that failed says":          {[]Record{testRecord("failed", 8, otherValues, unproven(7)), testRecord("superseded", 7, broken), testRecord("superseded", 6, otherArtifact)}, 6},
		"one that was tried again":         {[]Record{testRecord("superseded", 8, broken), testRecord("superseded", 7, fromBroken), testRecord("superseded", 6, broken)}, 7},
		"one that came back":               {[]Record{testRecord("superseded", 8, fromBroken), testRecord("superseded", 7, broken), testRecord("superseded", 6, otherArtifact)}, 6},
		"no other":                         {[]Record{testRecord("superseded", 8, otherArtifact), testRecord("failed", 7, broken)}, 8},
		"no other, and rolled back before": {[]Record{testRecord("superseded", 8, broken), testRecord("failed", 7, fromBroken), testRecord("superseded", 6, broken)}, 0},
	} {
		d := Decide(Observation{Records: append([]Record{newest}, test.below...)}, testDesired(), withRollback, Past{}, testNow)
		if d.RollbackTo != test.want || (d.Action == ActionRollback) != (test.want > 0) {
			t.Errorf("%s: want a return to %d: %+v", name, test.want, d)
		}
	}
}

// TestDecideNotesUnproven holds what is said, of the revision whose place it takes, on what is made next.
func TestDecideNotesUnproven(t *testing.T) {
	t.Parallel()
	earlier := func(r *Record) { r.Unproven = 3 }
	for name, test := range map[string]struct {
		newest Record
		past   Past
		want   int
	}{
		"had the time":                      {testRecord("deployed", 4, otherArtifact), Past{}, 0},
		"had not":                           {testRecord("deployed", 4, otherArtifact), Past{Unproven: true}, 4},
		"nor had the one before":            {testRecord("deployed", 4, otherArtifact, earlier), Past{Unproven: true}, 4},
		"failed after one that had not":     {testRecord("failed", 4, otherArtifact, earlier), Past{Unproven: true}, 3},
		"cut off, its place to be taken":    {testRecord("pending-upgrade", 4, earlier), Past{}, 3},
		"cut off, whatever the caller says": {testRecord("pending-upgrade", 4), Past{Unproven: true}, 0},
	} {
		d := Decide(Observation{Records: []Record{test.newest, testRecord("superseded", 3, otherArtifact)}}, testDesired(), withRollback, test.past, testNow)
		if d.Unproven != test.want {
			t.Errorf("%s: want %d: %+v", name, test.want, d)
		}
	}
}
