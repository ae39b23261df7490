// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

// TestPlanLost checks that Clusters that became unreachable after their update count. A broken CNI may be the reason.
func TestPlanLost(t *testing.T) {
	t.Parallel()
	one := Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}}
	const suffix = "; 1 Cluster became unreachable after its update"
	for name, tc := range map[string]planTest{
		"a canary that becomes unreachable opens no later wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, unreachable),
				fleetMember("c", 1, 6, ready)},
			promote: "canary", waitingFor: "a Cluster of wave canary to be ready" + suffix, check: wantPassed(""),
		},
		"a canary that becomes unreachable while its release is replaced opens no later wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable, renamed, replaced), fleetMember("c", 1, 6, ready, renamed)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready" + suffix,
		},
		"acknowledged failures do not open the next wave while a Cluster is unreachable": {
			strategy: canary(Wave{}), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 7, failed),
				fleetMember("c", 1, 6, ready)},
			promote: "canary", waitingFor: "a Cluster of wave canary to be ready: 1 Cluster failed" + suffix,
		},
		"a promotion opens the next wave": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready" + suffix,
			check: wantPassed("canary"),
		},
		"a done Cluster opens the next wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want: "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready" + suffix,
		},
		"a Cluster that became unreachable takes a slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, ready),
				fleetMember("c", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready" + suffix, check: wantProgress(1, 0, 0, 0),
		},
		"a Cluster that became unreachable during a replacement takes a slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 6, unreachable, renamed, replaced),
				fleetMember("b", 0, 6, ready, renamed)},
			waitingFor: "1 of 1 Cluster to be ready" + suffix,
		},
		"a Cluster whose release is deleted without a replacement takes no slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 6, unreachable, ending), fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"a Cluster that became unreachable takes a slot of its wave": {
			strategy: canary(Wave{MaxUnavailable: Limit{Count: 1}}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, ready),
				fleetMember("c", 1, 6, ready)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready" + suffix,
		},
		"a paused Cluster takes no slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, paused), fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"a new Cluster takes no slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, joined), fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"a Cluster with identical content under the good revision takes no slot": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, func(c *Cluster) { c.Good = c.Target }),
				fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"no slot is taken after the rollout completed": {
			strategy: one, state: State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", phase: PhaseComplete,
		},
		"no slot is taken after the revision was given up": {
			strategy: one, state: State{Phase: PhaseRolledBack, Reason: "it failed"},
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable), fleetMember("b", 0, 5, ready)},
			want:     "b: Update Good 6", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"unreachable after done takes no slot while another Cluster is done": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("b", 0, 7, ready),
				fleetMember("c", 0, 6, ready), fleetMember("d", 0, 6, ready)},
			want: "c: Update Target 7", waitingFor: "2 of 3 Clusters to be ready" + suffix,
		},
		"unreachable after done takes a slot while no Cluster is done": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("b", 0, 6, ready)},
			waitingFor: "1 of 1 Cluster to be ready" + suffix,
		},
		"each Cluster beyond the number of done ones takes a slot": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}},
			clusters: []Cluster{
				fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("b", 0, 7, unreachable, wasDone),
				fleetMember("c", 0, 7, ready),
				fleetMember("d", 0, 6, ready), fleetMember("e", 0, 6, ready),
			},
			want:       "d: Update Target 7",
			waitingFor: "2 of 3 Clusters to be ready; 2 Clusters became unreachable after their update",
		},
		"ready for less than the soak time was not done": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Soak: time.Minute},
			clusters: []Cluster{
				fleetMember("a", 0, 7, unreachable, wasDone, func(c *Cluster) { c.ReadyFor = 59 * time.Second }),
				fleetMember("b", 0, 7, ready), fleetMember("c", 0, 6, ready),
			},
			waitingFor: "1 of 2 Clusters to be ready for 1m0s" + suffix,
		},
		"a canary that becomes unreachable after it was done opens no later wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready" + suffix, check: wantPassed(""),
		},
		"not complete if more Clusters became unreachable than are done": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, unreachable),
				fleetMember("c", 0, 7, unreachable)},
			waitingFor: "more ready Clusters: 1 ready, and 2 became unreachable after the update; 2 Clusters became " +
				"unreachable after their update",
		},
		"complete if as many Clusters are done as became unreachable": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, unreachable)}, phase: PhaseComplete,
		},
		"not complete if no Cluster is done": {
			clusters:   []Cluster{fleetMember("a", 0, 7, unreachable)},
			waitingFor: "a Cluster to be ready: 1 selected, 0 ready" + suffix,
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestPlanUnknown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"no wave passes while all desired releases are unknown": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 1, 6, ready, unknown)},
			waitingFor: "the desired release of 1 Cluster of wave canary, which is unknown",
		},
		"not complete while all desired releases are unknown": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, unknown), fleetMember("b", 0, 6, ready, unknown)},
			waitingFor: "the desired release of 1 Cluster, which is unknown",
		},
		"an unknown desired release holds a wave without a done Cluster": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 1, 6, ready)},
			promote:  "canary", waitingFor: "the desired release of 1 Cluster of wave canary, which is unknown",
		},
		"an unknown desired release does not hold a proven wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want: "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"an unknown desired release does not hold completion": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 0, 7, ready)}, phase: PhaseComplete,
		},
		"more unknown than done Clusters hold completion": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 0, 6, ready, unknown),
				fleetMember("c", 0, 7, ready)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 0 paused" +
				", 2 with an unknown desired release",
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestPlanReplacedReleaseDoesNotGetHeldRevision checks that a Cluster without a child that is not new does not get a
// revision that is held.
func TestPlanReplacedReleaseDoesNotGetHeldRevision(t *testing.T) {
	t.Parallel()
	inNoWave := []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 1, -1, onItsWay, noGood)}
	for name, tc := range map[string]planTest{
		"good revision before the turn of the wave": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay)},
			want: "a: Create Good 6", waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
		},
		"nothing while paused and the good release is unknown": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood)},
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
		},
		"nothing while the budget is spent and the good release is unknown": {
			state:    State{Phase: PhasePaused, Reason: "it failed"},
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood)},
			phase:    PhasePaused, waitingFor: toContinue,
		},
		"nothing before the turn of the wave if the good release is unknown": {
			strategy: canary(Wave{}), clusters: inNoWave, waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"current revision when the wave has its turn": {
			strategy: canary(Wave{}), state: State{Passed: "canary"}, clusters: inNoWave,
			want: "b: Create Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"current revision if there is no good one": {
			strategy: canary(Wave{}), state: State{Revision: 7, Good: -1}, clusters: inNoWave,
			want: "b: Create Target 7", waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"a new Cluster does not wait": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood, stranger)},
			want: "a: Create Target 7 joined", waitingFor: "1 Cluster to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestPlanLate checks that Clusters in flight to a superseded revision count as unavailable.
func TestPlanLate(t *testing.T) {
	t.Parallel()
	now8 := func(c *Cluster) { c.Target = releaseOf(8) }
	one, state := Strategy{MaxUnavailable: Limit{Count: 1}}, State{Revision: 8, Good: 6}
	const suffix = "; 1 Cluster is still being updated to an earlier HelmOp revision"
	for name, tc := range map[string]planTest{
		"a late Cluster is updated first": {
			strategy: one, state: state,
			clusters: []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("m", 0, 7, onItsWay, now8)},
			want:     "m: Update Target 8", waitingFor: "2 of 2 Clusters to be ready",
		},
		"failed Clusters are updated before ready ones": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}}, state: state,
			clusters: []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("b", 0, 6, failed, now8),
				fleetMember("m", 0, 7, onItsWay, now8)},
			want: "b: Update Target 8 failedBefore, m: Update Target 8", waitingFor: "3 of 3 Clusters to be ready",
		},
		"a late Cluster takes a slot before the turn of its wave": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: state,
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("m", 1, 7, onItsWay, now8)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready" + suffix,
		},
		"a failed Cluster in its next attempt is late": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: state,
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("m", 1, 7, failed, retrying, now8)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready" + suffix,
		},
		"a late Cluster is updated although the limit is exceeded": {
			strategy: one, state: state,
			clusters: []Cluster{fleetMember("m", 0, 7, onItsWay, now8), fleetMember("n", 0, 7, onItsWay, now8)},
			want:     "m: Update Target 8", waitingFor: "2 of 2 Clusters to be ready" + suffix,
		},
		"new or unhealthy Clusters with the good revision take no slot": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: state,
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready, now8), fleetMember("m", 1, 7, onItsWay, now8, joined),
				fleetMember("n", 1, 6, onItsWay, now8),
			},
			want: "a: Update Target 8", waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}
