// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// leftBehind gives a Cluster a target under revision 8. The revision of the Cluster was rolled back or aborted.
func leftBehind(c *Cluster) { c.Target, c.Child.GivenUp = releaseOf(8), true }

// TestPlanReturnsDuringLaterRollout has Clusters whose revision was rolled back or aborted, but which could not return
// before the rollout of the next revision began. The current revision is 8, revision 7 was given up.
func TestPlanReturnsDuringLaterRollout(t *testing.T) {
	t.Parallel()
	later := State{Revision: 8, Good: 6}
	of8 := func(c *Cluster) { c.Target = releaseOf(8) }
	of9 := func(c *Cluster) { c.Target, c.Good = releaseOf(9), releaseOf(8) }
	nothingStored := func(c *Cluster) { c.Child.Previous = 0 }
	for name, tc := range map[string]planTest{
		"it returns before its wave": {
			state: later, strategy: canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, of8), fleetMember("b", 1, 7, failed, leftBehind)},
			want:       "a: Update Target 8, b: Update Good 6 returned",
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"it returns with the release that its child stores": {
			state: later, strategy: canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, of8), fleetMember("b", 1, 7, failed, leftBehind, noGood)},
			want:       "a: Update Target 8, b: Update Previous 6 returned",
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"it returns although the rollout is paused": {
			state: later, strategy: Strategy{Paused: true},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, of8), fleetMember("b", 0, 7, ready, leftBehind)},
			want:       "b: Update Good 6 returned",
			waitingFor: "spec.rollout.paused to be unset: 2 Clusters are outdated",
		},
		"it returns while all slots are taken, and takes none": {
			state: later, strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 8, "", of8), fleetMember("b", 0, 7, "", leftBehind)},
			want:       "b: Update Good 6 returned",
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"it is updated instead if its turn has come": {
			state:      later,
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, leftBehind)},
			want:       "a: Update Target 8",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"it returns after the rollback of the later revision, too": {
			state:    State{Revision: 8, Good: 6, Phase: PhaseRolledBack},
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, leftBehind), fleetMember("b", 0, 7, ready, leftBehind)},
			want:     "a: Update Good 6 returned, b: Update Good 6 returned", phase: PhaseRolledBack,
			waitingFor: "2 Clusters to be ready with HelmOp revision 6",
		},
		"while it is paused, it keeps its release": {
			state: later, clusters: []Cluster{fleetMember("a", 0, 7, ready, leftBehind, paused)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 1 paused",
		},
		"while it is unreachable, it is assigned its return": {
			state: later, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, leftBehind)},
			want:       "a: Update Good 6 returned",
			waitingFor: "Clusters that cannot be updated now: 1 unreachable, 0 waiting for dependencies, 0 paused",
		},
		"if its release under the good revision is unknown, it waits for its wave": {
			state: later, strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 8, "", of8),
				fleetMember("b", 1, 7, failed, leftBehind, noGood, nothingStored)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"without a good revision, it waits for its wave": {
			state: State{Revision: 8}, strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 8, "", of8),
				fleetMember("b", 1, 7, failed, leftBehind, noGood, nothingStored)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"a return to another name waits for its wave": {
			state: later, strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 8, "", of8), fleetMember("b", 1, 7, failed, leftBehind,
				returnsToOtherName)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"once the later revision is complete, it is updated": {
			state:    State{Revision: 8, Good: 6, Phase: PhaseComplete},
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, leftBehind), fleetMember("b", 0, 7, ready, leftBehind)},
			want:     "a: Update Target 8", phase: PhaseComplete, waitingFor: "1 Cluster that could not be updated before",
		},
		"if a revision after its own is good, it waits for its wave": {
			state: State{Revision: 9, Good: 8}, strategy: canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 9, "", of9), fleetMember("b", 1, 7, ready, leftBehind, of9)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"after the rollback of the revision after that, it is updated within the limits": {
			state:    State{Revision: 9, Good: 8, Phase: PhaseRolledBack},
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, leftBehind, of9),
				fleetMember("b", 0, 7, ready, leftBehind, of9)},
			want: "a: Update Good 8", phase: PhaseRolledBack, waitingFor: "2 Clusters to be ready with HelmOp revision 8",
		},
		"its return may wait for maintenance": {
			state: later, strategy: Strategy{Paused: true},
			clusters: []Cluster{fleetMember("a", 0, 6, ready, of8), fleetMember("b", 0, 7, ready, leftBehind,
				func(c *Cluster) { c.Defers = Deferral{Changes: true, Returns: true} })},
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
			check: func(t *testing.T, result Result) {
				if !result.Steps[1].Deferred {
					t.Errorf("step %+v", result.Steps[1])
				}
			},
		},
	} {
		t.Run(name, tc.run)
	}
}
