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

var testNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func testDesired() Desired {
	return Desired{
		Name: "calico", Namespace: "tigera", Owner: "default.calico", UID: "uid-1",
		ArtifactDigest: "sha256:" + strings.Repeat("a", 64),
		ValuesDigest:   "sha256:" + strings.Repeat("b", 64),
		OptionsDigest:  strings.Repeat("c", 64),
	}
}

// testRecord returns a record of ours made from what is desired, changed by the functions.
func testRecord(status string, revision int, change ...func(*Record)) Record {
	d := testDesired()
	record := Record{
		Revision: revision, Status: status, Owner: ownerLabel(d.Owner), UID: d.UID,
		ArtifactDigest: digestLabel(d.ArtifactDigest), ValuesDigest: digestLabel(d.ValuesDigest),
		OptionsDigest: digestLabel(d.OptionsDigest), LabelledRevision: revision, ChangedAt: testNow.Add(-time.Minute),
	}
	for _, f := range change {
		f(&record)
	}
	return record
}

func otherUID(r *Record)   { r.UID = "uid-2" }
func otherHand(r *Record)  { r.LabelledRevision = r.Revision - 1 }
func otherOwner(r *Record) { r.Owner = "default.other" }
func unlabelled(r *Record) {
	*r = Record{Revision: r.Revision, Status: r.Status, ChangedAt: r.ChangedAt}
}
func otherArtifact(r *Record) { r.ArtifactDigest = "1" }
func otherValues(r *Record)   { r.ValuesDigest = "1" }
func otherOptions(r *Record)  { r.OptionsDigest = "1" }
func old(r *Record)           { r.ChangedAt = testNow.Add(-16 * time.Minute) }
func keptElsewhere(r *Record) { r.KeptElsewhere = true }
func uninstalling(r *Record)  { r.Uninstalling = true }
func until(after time.Duration) func(*Record) {
	return func(r *Record) { r.Deadline = testNow.Add(after) }
}
func fromFuture(r *Record) { r.ChangedAt = testNow.Add(time.Hour) }

func TestDecide(t *testing.T) {
	t.Parallel()
	adopt := Policy{TakeOwnership: true}
	one := func(r Record) []Record { return []Record{r} }
	before := testRecord("deployed", 3, otherArtifact)
	tests := map[string]struct {
		records  []Record
		policy   Policy
		state    State
		action   Action
		reason   string
		from, to int
		recovery Recovery
		after    time.Duration
		failures int
		// cut is the number of interruptions.
		cut     int
		message string
	}{
		"absent":             {state: StateAbsent, action: ActionInstall, reason: ReasonNotInstalled, to: 1},
		"in sync":            {records: one(testRecord("deployed", 3)), state: StateInSync, action: ActionNone, reason: ReasonInSync, from: 3, to: 3},
		"in sync after move": {records: one(testRecord("deployed", 3, otherUID)), state: StateInSync, action: ActionNone, reason: ReasonInSync, from: 3, to: 3},
		"other artifact":     {records: one(testRecord("deployed", 3, otherArtifact)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonArtifactChanged, from: 3, to: 4},
		"other values":       {records: one(testRecord("deployed", 3, otherValues)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4},
		"other options":      {records: one(testRecord("deployed", 3, otherOptions)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonOptionsChanged, from: 3, to: 4},
		"values and options": {records: one(testRecord("deployed", 3, otherValues, otherOptions)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4, message: "values, options"},
		"superseded":         {records: one(testRecord("superseded", 3)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonNotDeployed, from: 3, to: 4},
		"unknown status":     {records: one(testRecord("unknown", 3)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonNotDeployed, from: 3, to: 4},
		"failed":             {records: one(testRecord("failed", 3)), state: StateFailed, action: ActionUpgrade, reason: ReasonRetryFailed, from: 3, to: 4, failures: 1},
		"failed, other now":  {records: one(testRecord("failed", 3, otherValues)), state: StateOutOfSync, action: ActionUpgrade, reason: ReasonValuesChanged, from: 3, to: 4},
		"by another hand":    {records: one(testRecord("deployed", 3, otherHand)), state: StateUnmanaged, action: ActionUpgrade, reason: ReasonChangedByAnotherHand, from: 3, to: 4},
		"failed by another":  {records: one(testRecord("failed", 3, otherHand)), state: StateUnmanaged, action: ActionUpgrade, reason: ReasonChangedByAnotherHand, from: 3, to: 4},
		"by old Helm":        {records: []Record{testRecord("deployed", 3, unlabelled), testRecord("superseded", 2)}, state: StateUnmanaged, action: ActionUpgrade, reason: ReasonChangedByAnotherHand, from: 3, to: 4},
		"uninstalled":        {records: one(testRecord("uninstalled", 3)), state: StateUninstalled, action: ActionInstall, reason: ReasonNotInstalled, from: 3, to: 4},
		"uninstalled, other": {records: one(testRecord("uninstalled", 3, otherOwner)), state: StateUninstalled, action: ActionInstall, reason: ReasonNotInstalled, from: 3, to: 4},
		"uninstalling":       {records: one(testRecord("uninstalling", 3, uninstalling)), state: StateUninstalling, action: ActionUninstall, reason: ReasonFinishUninstall, from: 3, to: 3},
		"uninstalled by hand, young": {records: one(testRecord("uninstalling", 3)), state: StateUninstalling, action: ActionWait,
			reason: ReasonPendingElsewhere, from: 3, to: 3, after: elsewhereRetry},
		"uninstalled by hand, old": {records: one(testRecord("uninstalling", 3, old)), state: StateUninstalling, action: ActionUninstall,
			reason: ReasonFinishUninstall, from: 3, to: 3},
		"uninstalling, kept elsewhere": {records: one(testRecord("uninstalling", 3, keptElsewhere, uninstalling)), state: StateUninstalling, action: ActionUninstall,
			reason: ReasonFinishUninstall, from: 3, to: 3},
		"uninstalled by hand, in vain": {records: one(testRecord("uninstalling", 3, keptElsewhere)), state: StateUninstalling, action: ActionRecoverThenUpgrade,
			reason: ReasonChangedByAnotherHand, from: 3, to: 4, recovery: RecoverFail, message: "nothing was deleted"},

		"foreign":                     {records: one(testRecord("deployed", 3, otherOwner)), state: StateForeign, action: ActionRefuse, reason: ReasonConflict, from: 3, to: 3, message: `"default.other"`},
		"foreign made with helm":      {records: one(testRecord("deployed", 3, unlabelled)), state: StateForeign, action: ActionRefuse, reason: ReasonConflict, from: 3, to: 3, message: "without HelmOp"},
		"foreign uninstalling":        {records: one(testRecord("uninstalling", 3, otherOwner, old)), state: StateForeign, action: ActionRefuse, reason: ReasonConflict, from: 3, to: 3},
		"foreign pending":             {records: one(testRecord("pending-upgrade", 3, unlabelled, old)), state: StateForeign, action: ActionRefuse, reason: ReasonConflict, from: 3, to: 3},
		"adopt":                       {records: one(testRecord("deployed", 3, otherOwner)), policy: adopt, state: StateForeign, action: ActionUpgrade, reason: ReasonAdopt, from: 3, to: 4},
		"adopt pending, young":        {records: one(testRecord("pending-upgrade", 3, otherOwner)), policy: adopt, state: StateForeign, action: ActionWait, reason: ReasonPendingElsewhere, from: 3, to: 3, after: elsewhereRetry},
		"adopt pending, old":          {records: one(testRecord("pending-install", 1, otherOwner, old)), policy: adopt, state: StateForeign, action: ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 1, to: 2, recovery: RecoverFail},
		"adopt uninstalling, young":   {records: one(testRecord("uninstalling", 3, unlabelled)), policy: adopt, state: StateForeign, action: ActionWait, reason: ReasonPendingElsewhere, from: 3, to: 3, after: elsewhereRetry},
		"adopt uninstalling, old":     {records: one(testRecord("uninstalling", 3, unlabelled, old)), policy: adopt, state: StateForeign, action: ActionUninstall, reason: ReasonFinishUninstall, from: 3, to: 3},
		"take ownership changes none": {records: one(testRecord("deployed", 3)), policy: adopt, state: StateInSync, action: ActionNone, reason: ReasonInSync, from: 3, to: 3},

		"own pending install":                   {records: one(testRecord("pending-install", 1)), state: StatePending, action: ActionRecoverThenInstall, reason: ReasonInterrupted, from: 1, to: 1, recovery: RecoverReplace, cut: 1},
		"own pending install, other values":     {records: one(testRecord("pending-install", 1, otherValues)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 1, to: 2, recovery: RecoverFail},
		"own pending install on a kept history": {records: []Record{testRecord("pending-install", 4), testRecord("uninstalled", 3)}, state: StatePending, action: ActionRecoverThenInstall, reason: ReasonInterrupted, from: 4, to: 4, recovery: RecoverReplace, cut: 1},
		"own pending install, number taken":     {records: []Record{testRecord("pending-install", 4), testRecord("uninstalled", 2)}, state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"own pending upgrade, after a gap":      {records: []Record{testRecord("pending-upgrade", 5), before}, state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 5, to: 6, recovery: RecoverFail, cut: 1},
		"own pending upgrade, of nothing":       {records: one(testRecord("pending-upgrade", 4)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"own pending upgrade, on another":       {records: []Record{testRecord("pending-upgrade", 4), testRecord("pending-upgrade", 3)}, state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"own pending install, history gone":     {records: one(testRecord("pending-install", 4)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"own pending upgrade":                   {records: []Record{testRecord("pending-upgrade", 4), before}, state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 4, recovery: RecoverReplace, cut: 1},
		"own pending upgrade, other artifact":   {records: one(testRecord("pending-upgrade", 4, otherArtifact)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail},
		"own pending rollback":                  {records: one(testRecord("pending-rollback", 4)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonInterrupted, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"other's pending, young":                {records: one(testRecord("pending-upgrade", 4, otherUID)), state: StatePending, action: ActionWait, reason: ReasonPendingElsewhere, from: 4, to: 4, after: elsewhereRetry, cut: 1},
		"other's pending, old":                  {records: []Record{testRecord("pending-upgrade", 4, otherUID, old), before}, state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 4, recovery: RecoverReplace, cut: 1},
		"other's pending install, old":          {records: one(testRecord("pending-install", 1, otherUID, old)), state: StatePending, action: ActionRecoverThenInstall, reason: ReasonPendingTimeout, from: 1, to: 1, recovery: RecoverReplace, cut: 1},
		"a human's pending, young":              {records: one(testRecord("pending-upgrade", 4, otherHand)), state: StatePending, action: ActionWait, reason: ReasonPendingElsewhere, from: 4, to: 4, after: elsewhereRetry},
		"a human's pending, old":                {records: one(testRecord("pending-upgrade", 4, otherHand, old)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5, recovery: RecoverFail},
		"a human's pending rollback, old":       {records: one(testRecord("pending-rollback", 4, otherHand, old)), state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5, recovery: RecoverFail},
		"other's pending, before its deadline": {records: one(testRecord("pending-upgrade", 4, otherUID, old, until(time.Hour))), state: StatePending,
			action: ActionWait, reason: ReasonPendingElsewhere, from: 4, to: 4, after: elsewhereRetry, cut: 1},
		"other's pending, after its deadline": {records: one(testRecord("pending-upgrade", 4, otherUID, until(-time.Second))), state: StatePending,
			action: ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 5, recovery: RecoverFail, cut: 1},
		"a human's pending, with a deadline carried over": {records: one(testRecord("pending-upgrade", 4, otherHand, until(-time.Second))),
			state: StatePending, action: ActionWait, reason: ReasonPendingElsewhere, from: 4, to: 4, after: elsewhereRetry},
		"pending from a clock ahead":           {records: one(testRecord("pending-upgrade", 4, otherUID, fromFuture)), state: StatePending, action: ActionWait, reason: ReasonPendingElsewhere, from: 4, to: 4, after: elsewhereRetry, cut: 1},
		"pending elsewhere, shorter by policy": {records: []Record{testRecord("pending-upgrade", 4, otherUID), before}, policy: Policy{PendingTimeout: 30 * time.Second}, state: StatePending, action: ActionRecoverThenUpgrade, reason: ReasonPendingTimeout, from: 4, to: 4, recovery: RecoverReplace, cut: 1},
		"pending elsewhere, almost over":       {records: one(testRecord("pending-upgrade", 4, otherUID)), policy: Policy{PendingTimeout: time.Minute + time.Millisecond}, state: StatePending, action: ActionWait, reason: ReasonPendingElsewhere, from: 4, to: 4, after: time.Second, cut: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(Observation{Records: test.records}, testDesired(), test.policy, Past{}, testNow)
			if !strings.Contains(got.Message, test.message) || got.Message == "" {
				t.Errorf("message %q does not contain %q", got.Message, test.message)
			}
			checkNextTry(t, &got)
			got.Message = ""
			want := Decision{Action: test.action, State: test.state, Reason: test.reason, FromRevision: test.from,
				ToRevision: test.to, Recovery: test.recovery, RequeueAfter: test.after, Failures: test.failures, Interruptions: test.cut}
			if got != want {
				t.Errorf("Decide:\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

// checkNextTry checks that a decision says when the next try is exactly where one is waited for, and takes the time out
// of it.
func checkNextTry(t *testing.T, got *Decision) {
	t.Helper()
	wait := got.NextTryAt.Sub(testNow)
	switch {
	case got.Reason != ReasonBackoff && !got.NextTryAt.IsZero():
		t.Errorf("the decision %+v names a next try", *got)
	case got.Reason == ReasonBackoff && (wait-got.RequeueAfter).Abs() > time.Second:
		t.Errorf("the next try is in %s, and the next look in %s", wait, got.RequeueAfter)
	case got.Reason == ReasonBackoff && !strings.Contains(got.Message, got.NextTryAt.UTC().Format(time.RFC3339)):
		t.Errorf("the message %q does not say when the next try is", got.Message)
	}
	got.NextTryAt = time.Time{}
}

// TestNextTryStays holds that the time of the next try is the same at each look until then: each other one would be a
// write.
func TestNextTryStays(t *testing.T) {
	t.Parallel()
	failed := testRecord("failed", 2, failures(2))
	var first Decision
	for after := time.Duration(0); after < 30*time.Second; after += 700 * time.Millisecond {
		decided := Decide(Observation{Records: []Record{failed, testRecord("deployed", 1)}}, testDesired(), Policy{}, Past{}, failed.ChangedAt.Add(after))
		if first.Action == "" {
			first = decided
		}
		if decided.Reason == ReasonBackoff && (decided.Message != first.Message || !decided.NextTryAt.Equal(first.NextTryAt)) {
			t.Fatalf("%s later, %q became %q", after, first.Message, decided.Message)
		}
	}
	if first.Reason != ReasonBackoff {
		t.Errorf("%s: %s", first.Reason, first.Message)
	}
}

func TestDecideUninstall(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		records []Record
		policy  Policy
		action  Action
		reason  string
	}{
		"absent":                        {action: ActionNone, reason: ReasonAlreadyUninstalled},
		"uninstalled":                   {records: []Record{testRecord("uninstalled", 2)}, action: ActionNone, reason: ReasonAlreadyUninstalled},
		"deployed":                      {records: []Record{testRecord("deployed", 2, otherValues)}, action: ActionUninstall, reason: ReasonUninstall},
		"failed":                        {records: []Record{testRecord("failed", 2)}, action: ActionUninstall, reason: ReasonUninstall},
		"by another hand":               {records: []Record{testRecord("deployed", 2, otherHand)}, action: ActionUninstall, reason: ReasonUninstall},
		"uninstalling":                  {records: []Record{testRecord("uninstalling", 2, uninstalling)}, action: ActionUninstall, reason: ReasonFinishUninstall},
		"uninstalling by hand, in vain": {records: []Record{testRecord("uninstalling", 2, keptElsewhere)}, action: ActionUninstall, reason: ReasonFinishUninstall},
		"own pending":                   {records: []Record{testRecord("pending-upgrade", 2)}, action: ActionUninstall, reason: ReasonUninstall},
		"other's pending, young":        {records: []Record{testRecord("pending-upgrade", 2, otherUID)}, action: ActionWait, reason: ReasonPendingElsewhere},
		"other's pending, old":          {records: []Record{testRecord("pending-upgrade", 2, otherUID, old)}, action: ActionUninstall, reason: ReasonUninstall},
		"foreign":                       {records: []Record{testRecord("deployed", 2, otherOwner)}, action: ActionRefuse, reason: ReasonConflict},
		"foreign, though ownership set": {records: []Record{testRecord("deployed", 2, unlabelled)}, policy: Policy{TakeOwnership: true}, action: ActionRefuse, reason: ReasonConflict},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := DecideUninstall(Observation{Records: test.records}, testDesired(), test.policy, testNow)
			if got.Action != test.action || got.Reason != test.reason || got.Message == "" {
				t.Errorf("got %+v, want action %s, reason %s", got, test.action, test.reason)
			}
			if (got.RequeueAfter > 0) != (got.Action == ActionWait) {
				t.Errorf("RequeueAfter %s with action %s", got.RequeueAfter, got.Action)
			}
		})
	}
}
