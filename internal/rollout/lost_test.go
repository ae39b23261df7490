// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

// What went dark when it was told, be it because of a broken CNI, must not pass for a Cluster that nobody counts.
func TestPlanLost(t *testing.T) {
	t.Parallel()
	one := Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}}
	const suffix = "; 1 Cluster does not answer since it was told"
	for name, tc := range map[string]planTest{
		"a canary that goes dark opens no later wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, unreachable), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready" + suffix, check: wantPassed(""),
		},
		"nor one that goes dark while its release is replaced": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable, renamed, ending), fleetMember("c", 1, 6, ready, renamed)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready" + suffix,
		},
		"nor if others of it failed and that was acknowledged": {
			strategy: canary(Wave{}), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready: 1 Cluster failed" + suffix,
		},
		"unless somebody promotes it": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready" + suffix, check: wantPassed("canary"),
		},
		"or one of it is done": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 7, ready), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready" + suffix,
		},
		"it holds a place": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, ready), fleetMember("c", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready" + suffix, check: wantProgress(1, 0, 0, 0),
		},
		"also one that goes dark while its release is replaced": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 6, unreachable, renamed, ending), fleetMember("b", 0, 6, ready, renamed)},
			waitingFor: "1 of 1 Cluster to be ready" + suffix,
		},
		"and one of its wave": {
			strategy:   canary(Wave{MaxUnavailable: Limit{Count: 1}}),
			clusters:   []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, ready), fleetMember("c", 1, 6, ready)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready" + suffix,
		},
		"unless it is paused": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, paused), fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"or was new": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, joined), fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"or has what was good, too": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, func(c *Cluster) { c.Good = c.Target }), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"or the rollout is over": {
			strategy: one, state: State{Phase: PhaseComplete}, clusters: []Cluster{fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 6, ready)},
			want: "b: Update Target 7", phase: PhaseComplete,
		},
		"or the revision was given up": {
			strategy: one, state: State{Phase: PhaseRolledBack, Reason: "it failed"},
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable), fleetMember("b", 0, 5, ready)},
			want:     "b: Update Good 6", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"one that was done before holds none while another one is": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("b", 0, 7, ready), fleetMember("c", 0, 6, ready), fleetMember("d", 0, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "2 of 3 Clusters to be ready" + suffix,
		},
		"but holds one while none is": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("b", 0, 6, ready)},
			waitingFor: "1 of 1 Cluster to be ready" + suffix,
		},
		"and each that is one too many holds one": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}},
			clusters: []Cluster{
				fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("b", 0, 7, unreachable, wasDone), fleetMember("c", 0, 7, ready),
				fleetMember("d", 0, 6, ready), fleetMember("e", 0, 6, ready),
			},
			want: "d: Update Target 7", waitingFor: "2 of 3 Clusters to be ready; 2 Clusters do not answer since they were told",
		},
		"one that was ready for less than its soak time was not done": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Soak: time.Minute},
			clusters: []Cluster{
				fleetMember("a", 0, 7, unreachable, wasDone, func(c *Cluster) { c.ReadyFor = 59 * time.Second }), fleetMember("b", 0, 7, ready), fleetMember("c", 0, 6, ready),
			},
			waitingFor: "1 of 2 Clusters to be ready for 1m0s" + suffix,
		},
		"a canary that was done and goes dark opens no later wave either": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, wasDone), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready" + suffix, check: wantPassed(""),
		},
		"the rollout is not complete if more are lost than done": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, unreachable), fleetMember("c", 0, 7, unreachable)},
			waitingFor: "as many Clusters to be ready as do not answer: 1 of 2; 2 Clusters do not answer since they were told",
		},
		"but if as many are": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, unreachable)}, phase: PhaseComplete,
		},
		"not if none is done": {
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable)}, waitingFor: "a Cluster to be ready: none of 1 is" + suffix,
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestPlanUnknown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"if nothing is known, nothing is passed": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 1, 6, ready, unknown)},
			waitingFor: "what the revision means for 1 Cluster of wave canary: it cannot be told now",
		},
		"nor complete": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, unknown), fleetMember("b", 0, 6, ready, unknown)},
			waitingFor: "what the revision means for 1 Cluster: it cannot be told now",
		},
		"one holds a wave of which nobody is done": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 1, 6, ready)},
			promote:  "canary", waitingFor: "what the revision means for 1 Cluster of wave canary: it cannot be told now",
		},
		"but not one that has proven itself": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 0, 7, ready), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"nor the end": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 0, 7, ready)}, phase: PhaseComplete,
		},
		"unless there are more than done": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, unknown), fleetMember("b", 0, 6, ready, unknown), fleetMember("c", 0, 7, ready)},
			waitingFor: "Clusters that cannot be told now: 0 do not answer, 0 wait for HelmOps that come first, 0 are paused" +
				", and what the revision means for 2 is not known",
		},
	} {
		t.Run(name, tc.run)
	}
}

// What has no child and is not new must not take the revision that is held.
func TestPlanServesTheReplaced(t *testing.T) {
	t.Parallel()
	inNoWave := []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 1, -1, onItsWay, noGood)}
	for name, tc := range map[string]planTest{
		"with the good revision before its turn": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay)},
			want: "a: Create Good 6", waitingFor: "the end of the pause: 1 Cluster has another revision",
		},
		"not if that cannot be told while it is paused": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood)},
			waitingFor: "the end of the pause: 1 Cluster has another revision",
		},
		"nor while the budget is spent": {
			state: State{Phase: PhasePaused, Reason: "it failed"}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood)},
			phase: PhasePaused, waitingFor: toContinue,
		},
		"nor before the turn of its wave": {
			strategy: canary(Wave{}), clusters: inNoWave, waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"but then": {
			strategy: canary(Wave{}), state: State{Passed: "canary"}, clusters: inNoWave,
			want: "b: Create Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"and if nothing was good": {
			strategy: canary(Wave{}), state: State{Revision: 7, Good: -1}, clusters: inNoWave,
			want: "b: Create Target 7", waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"a new one does not wait": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood, stranger)},
			want: "a: Create Target 7 joined", waitingFor: "1 Cluster to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}

// What is on its way to a revision that nobody wants any more is not available either.
func TestPlanLate(t *testing.T) {
	t.Parallel()
	now8 := func(c *Cluster) { c.Target = releaseOf(8) }
	one, state := Strategy{MaxUnavailable: Limit{Count: 1}}, State{Revision: 8, Good: 6}
	const suffix = "; still on their way to an earlier revision: 1 Cluster"
	for name, tc := range map[string]planTest{
		"it is told first": {
			strategy: one, state: state,
			clusters: []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("m", 0, 7, onItsWay, now8)},
			want:     "m: Update Target 8", waitingFor: "2 of 2 Clusters to be ready",
		},
		"then what failed, then what is ready": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}}, state: state,
			clusters: []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("b", 0, 6, failed, now8), fleetMember("m", 0, 7, onItsWay, now8)},
			want:     "b: Update Target 8 failedBefore, m: Update Target 8", waitingFor: "3 of 3 Clusters to be ready",
		},
		"it holds its place while its turn has not come": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: state,
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, now8), fleetMember("m", 1, 7, onItsWay, now8)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready" + suffix,
		},
		"it is told though there are too many": {
			strategy: one, state: state,
			clusters: []Cluster{fleetMember("m", 0, 7, onItsWay, now8), fleetMember("n", 0, 7, onItsWay, now8)},
			want:     "m: Update Target 8", waitingFor: "2 of 2 Clusters to be ready" + suffix,
		},
		"what is new or unwell with what was good holds no place": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: state,
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready, now8), fleetMember("m", 1, 7, onItsWay, now8, joined), fleetMember("n", 1, 6, onItsWay, now8),
			},
			want: "a: Update Target 8", waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}
