// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// unproven sets the revision that was not healthy when it was replaced.
func unproven(revision int) func(*model.Record) {
	return func(r *model.Record) { r.Unproven = revision }
}

// TestDecideRollbackSkipsRolledBackAttempt checks that a rollback does not return to an attempt that was rolled back.
func TestDecideRollbackSkipsRolledBackAttempt(t *testing.T) {
	t.Parallel()
	unhealthy := func(r *model.Record) { r.ArtifactDigest = "2" }
	fromUnhealthy := func(r *model.Record) {
		otherArtifact(r)
		r.RolledBackFrom = helmtest.Record("deployed", 1, unhealthy).Attempt()
	}
	newest := helmtest.Record("failed", 9)
	tests := map[string]struct {
		below []model.Record
		want  int
	}{
		"rolled back": {[]model.Record{helmtest.Record("deployed", 8, fromUnhealthy),
			helmtest.Record("superseded", 7, unhealthy), helmtest.Record("superseded", 6, otherArtifact)}, 8},
		"the rollback failed": {[]model.Record{helmtest.Record("failed", 8, fromUnhealthy),
			helmtest.Record("deployed", 7, unhealthy), helmtest.Record("superseded", 6, otherArtifact)}, 6},
		"the rollback was interrupted": {[]model.Record{helmtest.Record("failed", 8, fromUnhealthy, interrupted),
			helmtest.Record("deployed", 7, unhealthy), helmtest.Record("superseded", 6, unhealthy),
			helmtest.Record("superseded", 5, otherArtifact)}, 5},
		"the attempt was repeated": {[]model.Record{helmtest.Record("deployed", 8, unhealthy),
			helmtest.Record("superseded", 7, fromUnhealthy), helmtest.Record("superseded", 6, unhealthy)}, 8},
		"rolled back to it with helm": {[]model.Record{helmtest.Record("deployed", 8, unhealthy, otherHand),
			helmtest.Record("failed", 7, fromUnhealthy), helmtest.Record("superseded", 6, unhealthy)}, 8},
		"labels copied by helm": {[]model.Record{helmtest.Record("failed", 8, fromUnhealthy, otherHand),
			helmtest.Record("deployed", 7, unhealthy)}, 7},
		"no other revision": {[]model.Record{helmtest.Record("failed", 8, fromUnhealthy),
			helmtest.Record("deployed", 7, unhealthy)}, 0},
		"before an uninstallation": {[]model.Record{helmtest.Record("superseded", 8, unhealthy),
			helmtest.Record("uninstalled", 7), helmtest.Record("superseded", 6, fromUnhealthy)}, 8},
		"no revision after an uninstallation": {[]model.Record{helmtest.Record("failed", 8, otherValues),
			helmtest.Record("uninstalled", 7), helmtest.Record("superseded", 6, otherArtifact)}, 0},
		"failed with other versions": {[]model.Record{helmtest.Record("failed", 8, otherValues),
			helmtest.Record("failed", 7, otherOptions), helmtest.Record("deployed", 6, otherArtifact)}, 6},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Next(model.Observation{Records: append([]model.Record{newest}, test.below...)}, helmtest.Desired(),
				helmtest.WithRollback, model.Past{}, helmtest.Now)
			if d.RollbackTo != test.want || (d.Action == model.ActionRollback) != (test.want > 0) {
				t.Errorf("want a return to %d: %+v", test.want, d)
			}
		})
	}
}

// TestDecideRollbackPrefersProvenRevision checks that a rollback returns to a revision that had the time to become
// healthy, if there is such a revision.
func TestDecideRollbackPrefersProvenRevision(t *testing.T) {
	t.Parallel()
	broken := func(r *model.Record) { r.ArtifactDigest = "2" }
	fromBroken := func(r *model.Record) {
		otherArtifact(r)
		r.RolledBackFrom = helmtest.Record("deployed", 1, broken).Attempt()
	}
	newest := helmtest.Record("failed", 9, unproven(8))
	for name, test := range map[string]struct {
		below []model.Record
		want  int
	}{
		"one unproven": {[]model.Record{helmtest.Record("superseded", 8, broken),
			helmtest.Record("superseded", 7, otherArtifact)}, 7},
		"two unproven": {[]model.Record{helmtest.Record("superseded", 8, broken, unproven(7)),
			helmtest.Record("superseded", 7, otherValues), helmtest.Record("superseded", 6, otherArtifact)}, 6},
		"unproven according to a failed record": {[]model.Record{helmtest.Record("failed", 8, otherValues, unproven(7)),
			helmtest.Record("superseded", 7, broken), helmtest.Record("superseded", 6, otherArtifact)}, 6},
		"unproven attempt was repeated": {[]model.Record{helmtest.Record("superseded", 8, broken),
			helmtest.Record("superseded", 7, fromBroken), helmtest.Record("superseded", 6, broken)}, 7},
		"unproven revision was restored": {[]model.Record{helmtest.Record("superseded", 8, fromBroken),
			helmtest.Record("superseded", 7, broken), helmtest.Record("superseded", 6, otherArtifact)}, 6},
		"no other revision": {[]model.Record{helmtest.Record("superseded", 8, otherArtifact),
			helmtest.Record("failed", 7, broken)}, 8},
		"no other revision, rolled back before": {[]model.Record{helmtest.Record("superseded", 8, broken),
			helmtest.Record("failed", 7, fromBroken), helmtest.Record("superseded", 6, broken)}, 0},
	} {
		d := Next(model.Observation{Records: append([]model.Record{newest}, test.below...)}, helmtest.Desired(),
			helmtest.WithRollback, model.Past{}, helmtest.Now)
		if d.RollbackTo != test.want || (d.Action == model.ActionRollback) != (test.want > 0) {
			t.Errorf("%s: want a return to %d: %+v", name, test.want, d)
		}
	}
}

// TestDecideUnprovenRevision checks which revision is saved as unproven in the record of the next revision.
func TestDecideUnprovenRevision(t *testing.T) {
	t.Parallel()
	earlier := func(r *model.Record) { r.Unproven = 3 }
	for name, test := range map[string]struct {
		newest model.Record
		past   model.Past
		want   int
	}{
		"proven":   {helmtest.Record("deployed", 4, otherArtifact), model.Past{}, 0},
		"unproven": {helmtest.Record("deployed", 4, otherArtifact), model.Past{Unproven: true}, 4},
		"unproven, and the revision before": {helmtest.Record("deployed", 4, otherArtifact, earlier),
			model.Past{Unproven: true}, 4},
		"failed after an unproven revision": {helmtest.Record("failed", 4, otherArtifact, earlier),
			model.Past{Unproven: true}, 3},
		"interrupted, after an unproven revision": {helmtest.Record("pending-upgrade", 4, earlier), model.Past{}, 3},
		"interrupted, unproven according to the caller": {helmtest.Record("pending-upgrade", 4), model.Past{Unproven: true},
			0},
	} {
		d := Next(model.Observation{Records: []model.Record{test.newest, helmtest.Record("superseded", 3, otherArtifact)}},
			helmtest.Desired(), helmtest.WithRollback, test.past, helmtest.Now)
		if d.Unproven != test.want {
			t.Errorf("%s: want %d: %+v", name, test.want, d)
		}
	}
}

// TestDecideKeepsRollbackTarget checks which revision must stay in the history.
func TestDecideKeepsRollbackTarget(t *testing.T) {
	t.Parallel()
	broken := func(r *model.Record) { r.ArtifactDigest = "2" }
	fromBroken := func(r *model.Record) {
		otherArtifact(r)
		r.RolledBackFrom = helmtest.Record("deployed", 1, broken).Attempt()
	}
	good := helmtest.Record("superseded", 1, otherArtifact)
	for name, test := range map[string]struct {
		records []model.Record
		past    model.Past
		want    int
	}{
		"healthy": {[]model.Record{helmtest.Record("deployed", 2, broken), good}, model.Past{}, 2},
		"not healthy yet": {[]model.Record{helmtest.Record("deployed", 2, broken), good},
			model.Past{Unproven: true}, 1},
		"never healthy, and desired": {[]model.Record{helmtest.Record("deployed", 2), good},
			model.Past{Unproven: true, Unhealthy: true}, 1},
		"two unproven revisions": {[]model.Record{helmtest.Record("deployed", 3, broken, unproven(2)),
			helmtest.Record("superseded", 2, otherValues), good}, model.Past{Unproven: true}, 1},
		"the desired revision": {[]model.Record{helmtest.Record("deployed", 2, broken),
			helmtest.Record("superseded", 1)}, model.Past{Unproven: true}, 1},
		"failed": {[]model.Record{helmtest.Record("failed", 3, broken, unproven(2)),
			helmtest.Record("deployed", 2, otherValues), good}, model.Past{}, 1},
		"a failed rollback": {[]model.Record{helmtest.Record("failed", 3, fromBroken),
			helmtest.Record("deployed", 2, broken), good}, model.Past{}, 1},
		"no proven revision": {[]model.Record{helmtest.Record("deployed", 2, broken, unproven(1)), good},
			model.Past{Unproven: true}, 0},
		"before an uninstallation": {[]model.Record{helmtest.Record("uninstalled", 2), good}, model.Past{}, 0},
	} {
		if d := Next(model.Observation{Records: test.records}, helmtest.Desired(), helmtest.WithRollback, test.past,
			helmtest.Now); d.Keep != test.want {
			t.Errorf("%s: want %d: %+v", name, test.want, d)
		}
		if d := Next(model.Observation{Records: test.records}, helmtest.Desired(), model.Policy{}, test.past,
			helmtest.Now); d.Keep != 0 {
			t.Errorf("%s: without rollbacks: %+v", name, d)
		}
	}
}

// TestDecideWithoutProvenTarget checks decisions if no revision is proven to work. A revision that was applied
// completely stays, a rollback keeps its target, and a desired state that worked before is tried again.
func TestDecideWithoutProvenTarget(t *testing.T) {
	t.Parallel()
	hasty := helmtest.Record("superseded", 3, otherArtifact)
	gated := helmtest.WithRollback
	gated.Test.Enabled = true
	inSync := Decision{State: model.StateInSync, Action: model.ActionNone, Reason: ReasonInSync, FromRevision: 4,
		ToRevision: 4, Unproven: 3}
	onto := func(d Decision) Decision {
		d.Action, d.RollbackTo, d.ToRevision, d.Failures, d.Unproven = model.ActionRollback, d.FromRevision, d.FromRevision+1,
			1, 3
		return d
	}
	runRemediationCases(t, map[string]remediationCase{
		"a late revert": {records: []model.Record{helmtest.Record("deployed", 4, unproven(3)), hasty,
			helmtest.Record("superseded", 2)}, policy: helmtest.WithRollback, past: model.Past{Unhealthy: true}, want: inSync},
		"an unproven installation": {records: []model.Record{helmtest.Record("deployed", 4, unproven(3)), hasty},
			policy: helmtest.WithRollback, past: model.Past{Unhealthy: true}, want: inSync},
		"tests failed": {records: []model.Record{helmtest.Record("deployed", 4, unproven(3), tested(model.TestedFailed)),
			hasty}, policy: gated,
			want: Decision{State: model.StateFailed, Action: model.ActionTest, Reason: ReasonTestsFailed, FromRevision: 4,
				ToRevision: 4, Failures: 1, Unproven: 3}},
		"a failed revert": {records: []model.Record{helmtest.Record("failed", 4, unproven(3)), hasty,
			helmtest.Record("superseded", 2)}, policy: helmtest.WithRollback,
			want: Decision{State: model.StateFailed, Action: model.ActionUpgrade, Reason: ReasonNoRollbackTarget,
				FromRevision: 4, ToRevision: 5, Failures: 1, Unproven: 3}},
		"a failed rollback": {records: []model.Record{helmtest.Record("failed", 5, rolledBack, failures(1), unproven(3)),
			helmtest.Record("deployed", 4), hasty}, policy: helmtest.WithRollback,
			want: onto(Decision{State: model.StateFailed, Reason: ReasonRollbackFailed, FromRevision: 5, RollbackFailures: 1})},
		"an interrupted rollback": {records: []model.Record{helmtest.Record("pending-rollback", 5, rolledBack,
			failures(1), unproven(3)), helmtest.Record("deployed", 4), hasty}, policy: helmtest.WithRollback,
			want: onto(Decision{State: model.StatePending, Reason: ReasonInterrupted, Recovery: RecoverFail, FromRevision: 5,
				Interruptions: 1})},
	})
}
