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

import "testing"

// unproven says which revision below was not healthy when its place was taken.
func unproven(revision int) func(*Record) { return func(r *Record) { r.Unproven = revision } }

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

// TestDecideKeep holds what must stay in the history, whatever is made next.
func TestDecideKeep(t *testing.T) {
	t.Parallel()
	broken := func(r *Record) { r.ArtifactDigest = "2" }
	fromBroken := func(r *Record) {
		otherArtifact(r)
		r.RolledBackFrom = testRecord("deployed", 1, broken).attempt()
	}
	good := testRecord("superseded", 1, otherArtifact)
	for name, test := range map[string]struct {
		records []Record
		past    Past
		want    int
	}{
		"healthy":                       {[]Record{testRecord("deployed", 2, broken), good}, Past{}, 2},
		"not healthy yet":               {[]Record{testRecord("deployed", 2, broken), good}, Past{Unproven: true}, 1},
		"never healthy, and desired":    {[]Record{testRecord("deployed", 2), good}, Past{Unproven: true, Unhealthy: true}, 1},
		"two that were overtaken":       {[]Record{testRecord("deployed", 3, broken, unproven(2)), testRecord("superseded", 2, otherValues), good}, Past{Unproven: true}, 1},
		"the one that is desired again": {[]Record{testRecord("deployed", 2, broken), testRecord("superseded", 1)}, Past{Unproven: true}, 1},
		"failed":                        {[]Record{testRecord("failed", 3, broken, unproven(2)), testRecord("deployed", 2, otherValues), good}, Past{}, 1},
		"a failed rollback":             {[]Record{testRecord("failed", 3, fromBroken), testRecord("deployed", 2, broken), good}, Past{}, 1},
		"none":                          {[]Record{testRecord("deployed", 2, broken, unproven(1)), good}, Past{Unproven: true}, 0},
		"of another life":               {[]Record{testRecord("uninstalled", 2), good}, Past{}, 0},
	} {
		if d := Decide(Observation{Records: test.records}, testDesired(), withRollback, test.past, testNow); d.Keep != test.want {
			t.Errorf("%s: want %d: %+v", name, test.want, d)
		}
		if d := Decide(Observation{Records: test.records}, testDesired(), Policy{}, test.past, testNow); d.Keep != 0 {
			t.Errorf("%s: without rollbacks: %+v", name, d)
		}
	}
}

// TestDecideWithoutProvenTarget holds what is done where nothing is proven to work: what was applied as a whole stays, a rollback goes on
// with what it had chosen, and what is known to have worked is rather tried again.
func TestDecideWithoutProvenTarget(t *testing.T) {
	t.Parallel()
	hasty := testRecord("superseded", 3, otherArtifact)
	gated := withRollback
	gated.Test.Enabled = true
	inSync := Decision{State: StateInSync, Action: ActionNone, Reason: ReasonInSync, FromRevision: 4, ToRevision: 4, Unproven: 3}
	onto := func(d Decision) Decision {
		d.Action, d.RollbackTo, d.ToRevision, d.Failures, d.Unproven = ActionRollback, d.FromRevision, d.FromRevision+1, 1, 3
		return d
	}
	runRemediationCases(t, map[string]remediationCase{
		"a revert that is late":     {records: []Record{testRecord("deployed", 4, unproven(3)), hasty, testRecord("superseded", 2)}, policy: withRollback, past: Past{Unhealthy: true}, want: inSync},
		"an installation overtaken": {records: []Record{testRecord("deployed", 4, unproven(3)), hasty}, policy: withRollback, past: Past{Unhealthy: true}, want: inSync},
		"its tests failed": {records: []Record{testRecord("deployed", 4, unproven(3), tested(TestedFailed)), hasty}, policy: gated,
			want: Decision{State: StateFailed, Action: ActionTest, Reason: ReasonTestsFailed, FromRevision: 4, ToRevision: 4, Failures: 1, Unproven: 3}},
		"a revert that failed": {records: []Record{testRecord("failed", 4, unproven(3)), hasty, testRecord("superseded", 2)}, policy: withRollback,
			want: Decision{State: StateFailed, Action: ActionUpgrade, Reason: ReasonNoRollbackTarget, FromRevision: 4, ToRevision: 5, Failures: 1, Unproven: 3}},
		"a failed rollback": {records: []Record{testRecord("failed", 5, rolledBack, failures(1), unproven(3)), testRecord("deployed", 4), hasty}, policy: withRollback,
			want: onto(Decision{State: StateFailed, Reason: ReasonRollbackFailed, FromRevision: 5, RollbackFailures: 1})},
		"a rollback that was cut off": {records: []Record{testRecord("pending-rollback", 5, rolledBack, failures(1), unproven(3)), testRecord("deployed", 4), hasty}, policy: withRollback,
			want: onto(Decision{State: StatePending, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 5, Interruptions: 1})},
	})
}
