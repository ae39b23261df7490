// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

func goalUnapproved(c *Cluster) { c.GoalUnapproved = true }
func ownUnapproved(c *Cluster)  { c.OwnUnapproved = true }

// again gives the release of the Cluster other content under the current revision, which it has.
func again(c *Cluster) { c.Target = &Release{Identity: "ns/a", Content: "7 changed"} }

func TestPlanUnapprovedRevision(t *testing.T) {
	t.Parallel()
	const waiting = "the approval of HelmOp revision 7"
	for name, tc := range map[string]planTest{
		"no Cluster is updated, even if nothing changes in it": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready, sameAsOwn)},
			waitingFor: waiting,
			check:      wantProgress(0, 0, 0, 0),
		},
		"it is not complete although nothing would change": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, sameAsOwn)},
			waitingFor: waiting,
		},
		"it is not complete although all Clusters had the revision already": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready)},
			waitingFor: waiting,
			check:      wantProgress(1, 1, 0, 0),
		},
		"a promotion opens no wave": {
			strategy: canary(Wave{Manual: true}), requests: Requests{Promoted: "canary"},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 1, 6, ready)},
			waitingFor: waiting,
			check:      wantPassed(""),
		},
		"a new Cluster gets the last known good revision": {
			clusters:   []Cluster{fleetMember("a", 0, -1, onItsWay, stranger)},
			want:       "a: Create Good 6 joined",
			waitingFor: waiting,
		},
		"a new Cluster gets the last known good revision even if both are the same": {
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger,
				func(c *Cluster) { c.Target = c.Good })},
			want:       "a: Create Good 6 joined",
			waitingFor: waiting,
		},
		"a new Cluster waits if the last known good revision cannot be rendered": {
			clusters:   []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, noGood)},
			waitingFor: waiting,
		},
		"the first revision is installed nowhere": {
			state:      State{Revision: 1, First: true},
			clusters:   []Cluster{fleetMember("a", 0, -1, onItsWay, noGood), fleetMember("b", 0, -1, onItsWay, noGood)},
			waitingFor: "the approval of HelmOp revision 1",
		},
		"a change of the Cluster itself waits, too": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, moved, ownUnapproved)},
			waitingFor: waiting,
		},
		"an approved change of the Cluster itself is applied under its revision": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, moved)},
			want:       "a: Update Own 6",
			waitingFor: waiting,
		},
		"a release that is not under the revision is not replaced": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, renamed)},
			waitingFor: waiting,
		},
		"an abort gives it up": {
			requests: Requests{Abort: true},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 7, failed)},
			want:     "b: Update Good 6 returned",
			phase:    PhaseAborted, waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"a pause does not hide it": {
			strategy:   Strategy{Paused: true},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready)},
			waitingFor: waiting,
		},
		"a Cluster that is no longer selected loses its release": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, func(c *Cluster) { c.Selected = false })},
			want:       "a: Delete",
			waitingFor: waiting,
		},
	} {
		tc.unapproved = true
		t.Run(name, tc.run)
	}
}

func TestPlanUnapprovedChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"a Cluster whose change is not approved waits, the others do not": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, goalUnapproved), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantUnapproved("a"),
		},
		"it takes no slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, goalUnapproved), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"a Cluster that has the revision keeps its release and counts with it": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, again, goalUnapproved), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
			check:    wantUnapproved("a"),
		},
		"it waits after the rollout, too": {
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, again, goalUnapproved), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
			check:    wantUnapproved("a"),
		},
		"it is updated when the change is approved": {
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, again)},
			want:     "a: Update Target 7",
			phase:    PhaseComplete,
		},
		"an outdated Cluster whose own change waits takes no slot either": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: canary(Wave{}).Waves}, state: State{Good: -1},
			clusters: []Cluster{fleetMember("a", 0, 6, ready),
				fleetMember("b", 1, 6, ready, func(c *Cluster) { c.Own = releaseOf(5) }, ownUnapproved)},
			want:       "a: Update Target 7",
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"a wave in which another Cluster is done passes": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, goalUnapproved), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a wave in which all Clusters wait does not pass": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, goalUnapproved), fleetMember("b", 1, 6, ready)},
			waitingFor: "the approval of changes in 1 Cluster of wave canary",
			promote:    "canary",
		},
		"the rollout is not complete while most Clusters wait": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, goalUnapproved), fleetMember("b", 0, 6, ready, goalUnapproved),
				fleetMember("c", 0, 7, ready)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 0 paused, " +
				"2 waiting for an approval",
		},
		"an unreachable Cluster that waits is unreachable": {
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable, goalUnapproved), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"a release is not replaced": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, renamed, goalUnapproved), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
			check:    wantUnapproved("a"),
		},
		"under the last known good revision, a change waits as well": {
			state: State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 6, ready, moved, goalUnapproved),
				fleetMember("b", 0, 7, ready, moved)},
			want:  "b: Update Good 6 returned",
			phase: PhaseAborted, waitingFor: "1 Cluster to be ready with HelmOp revision 6",
			check: wantUnapproved("a"),
		},
	} {
		t.Run(name, tc.run)
	}
}

// wantUnapproved checks that exactly these Clusters wait for an approval.
func wantUnapproved(names ...string) func(*testing.T, Result) {
	return func(t *testing.T, result Result) {
		t.Helper()
		waiting := map[string]bool{}
		for _, name := range names {
			waiting[name] = true
		}
		for _, s := range result.Steps {
			if s.Unapproved != waiting[s.Cluster] || s.Unapproved && (s.Action != ActionNone || s.Assigned) {
				t.Errorf("%s waits for an approval: %t, want %t: %+v", s.Cluster, s.Unapproved, waiting[s.Cluster], s)
			}
		}
	}
}
