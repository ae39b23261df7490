// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

// TestPlanAfterMove checks that a move or a restore in the middle of a rollout does not change the order of the rollout
// or its limits, although HelmOp can use some Clusters earlier than others.
func TestPlanAfterMove(t *testing.T) {
	t.Parallel()
	const lost = "; 1 Cluster became unreachable after its update"
	const unknownOfOne = "the desired release of 1 Cluster of wave canary, which is unknown"
	later := fleetMember("b", 1, 6, ready)
	for name, tc := range map[string]planTest{
		"an updated canary that is not initialized opens no later wave": {
			strategy: canary(Wave{}), clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, afterMove), later},
			promote: "canary", waitingFor: "a Cluster of wave canary to be ready" + lost, check: wantPassed(""),
		},
		"an updated canary that is paused opens no later wave": {
			strategy: canary(Wave{}), clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, pausedByMove), later},
			promote: "canary", waitingFor: "a Cluster of wave canary to be ready" + lost, check: wantPassed(""),
		},
		"an outdated canary that is not initialized opens no later wave": {
			strategy: canary(Wave{}), clusters: []Cluster{fleetMember("a", 0, 6, onItsWay, afterMove), later},
			promote: "canary", waitingFor: unknownOfOne, check: wantPassed(""),
		},
		"an outdated canary that is paused opens no later wave": {
			strategy: canary(Wave{}), clusters: []Cluster{fleetMember("a", 0, 6, onItsWay, pausedByMove), later},
			promote: "canary", waitingFor: unknownOfOne, check: wantPassed(""),
		},
		"a canary of the first revision that may have to adopt opens no later wave": {
			strategy: canary(Wave{}), state: State{Good: -1, First: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, onItsWay, joined, unread, pausedByMove, func(c *Cluster) { c.Child.Unobserved = true }),
				adopting("b", 1, onItsWay, awaits),
			},
			promote: "canary", waitingFor: unknownOfOne, check: wantPassed(""),
		},
		"a promotion opens the next wave": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, afterMove), later},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready" + lost,
		},
		"a done Cluster opens the next wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, afterMove), fleetMember("c", 0, 7, ready), later},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready" + lost,
		},
		"an updated Cluster keeps its slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, afterMove), fleetMember("b", 0, 6, ready)},
			waitingFor: "1 of 1 Cluster to be ready" + lost,
		},
		"more outdated than done Clusters hold completion": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, onItsWay, afterMove),
				fleetMember("c", 0, 6, onItsWay, pausedByMove)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 0 paused" +
				", 2 with an unknown desired release",
		},
		"Clusters of a later wave hold completion before a promotion": {
			strategy: canary(Wave{Manual: true}),
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, onItsWay, afterMove)},
			promote:  "canary", waitingFor: "the promotion of wave canary",
		},
		"a new Cluster holds no wave and takes no slot": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, joined, afterMove), later},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a pinned Cluster holds no wave": {
			strategy: canary(Wave{}), clusters: []Cluster{fleetMember("a", 0, 6, onItsWay, afterMove, pinTo(6)), later},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a Cluster that had to return does not change before it is initialized": {
			state:    State{Phase: PhaseRolledBack, Reason: "it failed"},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, afterMove)}, phase: PhaseRolledBack,
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestPlanAcknowledgedAfterMove checks that acknowledged failures stay acknowledged until HelmOp has read the releases
// again.
func TestPlanAcknowledgedAfterMove(t *testing.T) {
	t.Parallel()
	const ready, failed = HealthReady, HealthFailed
	strategy := Strategy{Budgeted: true, MaxFailures: Limit{Count: 1}, Soak: 2 * time.Hour}
	for name, tc := range map[string]struct {
		before, after Cluster
		acknowledged  int
	}{
		"not initialized": {before: fleetMember("a", 0, 7, "", unread, afterMove),
			after: fleetMember("a", 0, 7, failed), acknowledged: 1},
		"paused": {before: fleetMember("a", 0, 7, "", unread, pausedByMove),
			after: fleetMember("a", 0, 7, failed), acknowledged: 1},
		"not read": {before: fleetMember("a", 0, 7, "", unread), after: fleetMember("a", 0, 7, failed), acknowledged: 1},
		"not rendered": {before: fleetMember("a", 0, 6, "", unread, afterMove),
			after: fleetMember("a", 0, 6, ready, invalid), acknowledged: 1},
		"repaired": {before: fleetMember("a", 0, 7, "", unread, afterMove), after: fleetMember("a", 0, 7, ready)},
		"updated":  {before: fleetMember("a", 0, 7, "", unread), after: fleetMember("a", 0, 7, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := State{Revision: 7, Good: 6, Phase: PhaseProgressing, Acknowledged: 1}
			for i, a := range []Cluster{tc.before, tc.after} {
				want := []int{1, tc.acknowledged}[i]
				result := Plan(Input{Strategy: strategy, State: state, Now: testNow,
					Clusters: []Cluster{a, fleetMember("b", 0, 7, ready)}})
				if state = result.State; state.Acknowledged != want || state.Phase != PhaseProgressing {
					t.Fatalf("plan %d: %d failures are acknowledged, want %d: %+v", i, state.Acknowledged, want, state)
				}
			}
		})
	}
}
