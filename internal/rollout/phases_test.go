// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"
)

func budget(n int) Strategy { return Strategy{Budgeted: true, MaxFailures: Limit{Count: n}} }

func rollback(n int) Strategy {
	strategy := budget(n)
	strategy.Rollback = true
	return strategy
}

func wantState(acknowledged int, reason string) func(*testing.T, Result) {
	return func(t *testing.T, result Result) {
		t.Helper()
		if result.State.Acknowledged != acknowledged || !strings.Contains(result.State.Reason, reason) || (reason == "") != (result.State.Reason == "") {
			t.Errorf("state %+v, want %d acknowledged and %q", result.State, acknowledged, reason)
		}
	}
}

const toContinue = "a request to continue, or another revision"

func TestPlanBudget(t *testing.T) {
	t.Parallel()
	paused := State{Phase: PhasePaused, Reason: "as it was"}
	for name, tc := range map[string]planTest{
		"failures below the budget end nothing": {
			strategy: budget(2),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 2 Clusters to be ready",
			check: wantProgress(2, 0, 1, 1),
		},
		"failures without a budget end nothing": {
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 3 Clusters to be ready",
		},
		"a phase that is unknown goes on": {
			state: State{Phase: "Superseded"}, clusters: []Cluster{fleetMember("a", 0, 6, ready)},
			want: "a: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"the budget is reached": {
			strategy: budget(2),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue,
			check: wantState(0, "the failure budget is spent: 2 Clusters failed, maxFailures is 2"),
		},
		"a percentage is one of the selected, rounded down, at least one": {
			strategy: Strategy{Budgeted: true, MaxFailures: Limit{Percent: 40}},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, unreachable), fleetMember("c", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue, check: wantState(0, "1 Cluster failed, maxFailures is 1"),
		},
		"what cannot be rendered is a failure, before anybody is told": {
			strategy: budget(1),
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, unreachable, invalid)},
			phase:    PhasePaused, waitingFor: toContinue,
		},
		"what failed before is no failure of the revision": {
			strategy: budget(1),
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed, excused), fleetMember("b", 0, 6, failed, invalid), fleetMember("c", 0, 6, failed),
				fleetMember("d", 0, 0, failed), fleetMember("e", 0, 5, failed), fleetMember("f", 0, 5, onItsWay, excused),
				fleetMember("g", 0, 5, ready, excused), fleetMember("h", 0, 6, onItsWay),
			},
			want: "c: Update Target 7 failedBefore, d: Update Target 7 failedBefore, e: Update Target 7, f: Update Target 7 failedBefore, " +
				"g: Update Target 7, h: Update Target 7",
			waitingFor: "6 of 8 Clusters to be ready",
		},
		"what is new is no failure": {
			strategy: budget(1),
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed, joined), fleetMember("b", 0, -1, onItsWay, stranger, invalid, noGood), fleetMember("c", 0, 6, ready),
				fleetMember("d", 0, 6, ready, stranger, invalid),
			},
			want: "c: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"what does not answer, is paused or goes is no failure": {
			strategy: budget(1),
			clusters: []Cluster{
				fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 7, failed, func(c *Cluster) { c.Paused = true }),
				fleetMember("c", 0, 7, failed, func(c *Cluster) { c.Deleting = true }), fleetMember("d", 0, 6, ready),
			},
			want: "d: Update Target 7", waitingFor: "1 of 1 Cluster to be ready; 1 Cluster does not answer since it was told",
		},
		"what is about to be changed is no failure": {
			strategy: budget(1), clusters: []Cluster{fleetMember("a", 0, 7, failed, moved)},
			want: "a: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"the pause stays though the failure was mended": {
			strategy: budget(1), state: paused,
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue, check: wantState(0, "as it was"),
		},
		"and though nothing is left to do": {
			strategy: budget(1), state: paused, clusters: []Cluster{fleetMember("a", 0, 7, ready)},
			phase: PhasePaused, waitingFor: toContinue,
		},
		"what itself changed is told while it is paused, under the revision that it has": {
			strategy: budget(1), state: paused,
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, moved), fleetMember("b", 0, 6, ready, moved, joined, excused), fleetMember("c", 0, 5, ready, moved),
			},
			want:  "a: Update Target 7, b: Update Own 6 joined failedBefore, c: Update Own 5",
			phase: PhasePaused, waitingFor: toContinue,
		},
		"what is new gets the good revision while it is paused, or nothing": {
			strategy: budget(1), state: paused,
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger), fleetMember("b", 0, -1, onItsWay, stranger, noGood)},
			want:     "a: Create Good 6 joined",
			phase:    PhasePaused, waitingFor: toContinue,
		},
		"somebody asks to continue": {
			strategy: budget(1), state: paused, requests: Requests{Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 2 Clusters to be ready",
			check: wantState(1, ""),
		},
		"to continue can be all it takes": {
			strategy: budget(1), state: paused, requests: Requests{Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete, check: wantProgress(2, 1, 0, 0),
		},
		"one more failure than acknowledged": {
			strategy: budget(1), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue, check: wantState(1, "1 Cluster failed"),
		},
		"what was acknowledged and mended is acknowledged no more": {
			strategy: budget(5), state: State{Acknowledged: 3},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, onItsWay)}, waitingFor: "1 of 2 Clusters to be ready",
			check: wantState(1, ""),
		},
		"a pause becomes a return if that is what is wanted now": {
			strategy: rollback(1), state: paused,
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Good 6 returned", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"but not once the failures are mended": {
			strategy: rollback(1), state: paused, clusters: []Cluster{fleetMember("a", 0, 7, ready)},
			phase: PhasePaused, waitingFor: toContinue,
		},
		"there is nothing to return to": {
			strategy: rollback(1), state: State{Revision: 7, Good: -1},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 5, ready)},
			phase:    PhasePaused, waitingFor: toContinue, check: wantState(0, "maxFailures is 1; there is no good revision to return to"),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestPlanReturns(t *testing.T) {
	t.Parallel()
	back := State{Phase: PhaseRolledBack, Reason: "it failed"}
	previous := func(c *Cluster) { c.Good, c.Child.Previous = nil, 6 }
	for name, tc := range map[string]planTest{
		"all that took the revision return at once, whether they answer or not": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, Rollback: true, Paused: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready), fleetMember("c", 0, 7, unreachable), fleetMember("d", 0, 7, onItsWay, blocked),
				fleetMember("e", 0, 7, ready, joined), fleetMember("f", 0, 6, ready), fleetMember("g", 0, 7, failed, excused),
			},
			want: "a: Update Good 6 returned, b: Update Good 6 returned, c: Update Good 6 returned, d: Update Good 6 returned, " +
				"e: Update Good 6 returned, g: Update Good 6 failedBefore returned",
			state: State{Phase: PhaseRolledBack, Reason: "it failed"},
			phase: PhaseRolledBack, waitingFor: "4 Clusters to be ready with revision 6",
			check: wantProgress(0, 1, 4, 0),
		},
		"somebody asks to end it": {
			requests: Requests{Abort: true, Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Good 6 returned", phase: PhaseAborted, waitingFor: "1 Cluster to be ready with revision 6",
			check: wantState(0, "somebody asked"),
		},
		"somebody asks to end it while it is paused": {
			state: State{Phase: PhasePaused}, requests: Requests{Abort: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready)},
			want:     "a: Update Good 6 returned", phase: PhaseAborted, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"somebody asks to end it, but there is nothing to return to": {
			state: State{Revision: 7, Good: -1}, requests: Requests{Abort: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 5, ready)},
			phase:    PhasePaused, waitingFor: "the end of the request to end the rollout, and one to continue, or another revision",
			check: wantState(0, "no good revision to return to; no request to continue counts until the annotation that asks to end it is removed"),
		},
		"what is complete or has returned is not ended": {
			state: State{Phase: PhaseComplete}, requests: Requests{Abort: true, Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready)}, phase: PhaseComplete,
		},
		"what has returned stays": {
			state: back, requests: Requests{Abort: true, Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, failed)},
			phase:    PhaseRolledBack, check: wantState(0, "it failed"),
		},
		"what itself changed is told under the good revision": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 6, ready, moved)},
			want: "a: Update Good 6", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"what cannot be rendered returns to what the child remembers": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 7, failed, previous)},
			want: "a: Update Previous 6 returned", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"and has returned then": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 6, ready, noGood)}, phase: PhaseRolledBack,
			check: func(t *testing.T, result Result) {
				if !result.Steps[0].Told {
					t.Error("it is not told")
				}
			},
		},
		"what the child does not remember stays": {
			state: back,
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, previous, func(c *Cluster) { c.Child.Previous = 5 }), fleetMember("b", 0, 7, onItsWay),
			},
			want: "b: Update Good 6 returned", phase: PhaseRolledBack,
			waitingFor: "1 Cluster to be ready with revision 6; another revision: what 1 Cluster had under revision 6 cannot be told any more",
			check: func(t *testing.T, result Result) {
				if result.Steps[0].Told {
					t.Error("what stays is told")
				}
				wantProgress(1, 0, 1, 0)(t, result)
			},
		},
		"another name of the release is another release": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 7, failed, func(c *Cluster) { c.Good = &Release{Identity: "ns/b", Content: "6"} })},
			want: "a: Replace", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"older ones come to the good revision within the limits": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}, Waves: []Wave{{Name: "canary"}}}, state: back,
			clusters: []Cluster{
				fleetMember("a", 1, 5, ready), fleetMember("b", 0, 6, onItsWay), fleetMember("c", 1, 5, ready), fleetMember("d", 1, 5, unreachable),
			},
			want: "a: Update Good 6", phase: PhaseRolledBack, waitingFor: "3 Clusters to be ready with revision 6",
		},
		"but not while it is paused": {
			strategy: Strategy{Paused: true}, state: back, clusters: []Cluster{fleetMember("a", 0, 5, ready)},
			phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with revision 6",
		},
		"what is new gets the good revision, or nothing": {
			state:    back,
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger), fleetMember("b", 0, -1, onItsWay, stranger, noGood)},
			want:     "a: Create Good 6 joined", phase: PhaseRolledBack, check: wantProgress(0, 0, 1, 0),
		},
		"what was given up is told to nobody, be it the same": {
			state: back, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, func(c *Cluster) { c.Target = c.Good })},
			want: "a: Create Good 6 joined", phase: PhaseRolledBack,
		},
		"what was given up with nothing to return to is left as it is": {
			state: State{Revision: 7, Good: -1, Phase: PhaseRolledBack}, clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			phase: PhaseRolledBack,
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestPlanCompletes(t *testing.T) {
	t.Parallel()
	manual := canary(Wave{Manual: true})
	for name, tc := range map[string]planTest{
		"all that count are done or failed": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, unreachable)},
			phase:    PhaseComplete, check: wantProgress(2, 1, 0, 1),
		},
		"not if none is done": {
			clusters: []Cluster{fleetMember("a", 0, 7, failed)}, waitingFor: "a Cluster to be ready: none of 1 is",
		},
		"not if there is none": {waitingFor: "a Cluster: none is selected"},
		"not if fewer are done than do not answer or are blocked": {
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, unreachable), fleetMember("c", 0, 6, ready, blocked), fleetMember("d", 0, 7, unreachable),
			},
			waitingFor: "Clusters that cannot be told now: 1 do not answer, 1 wait for HelmOps that come first, 0 are paused" +
				"; 1 Cluster does not answer since it was told",
		},
		"not if more are paused than done": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready, paused), fleetMember("c", 0, 6, ready, paused)},
			waitingFor: "Clusters that cannot be told now: 0 do not answer, 0 wait for HelmOps that come first, 2 are paused",
		},
		"but if as many are": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready, paused)}, phase: PhaseComplete,
		},
		"not while those that are paused are behind a promotion": {
			strategy: manual, clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready, paused)},
			waitingFor: "the promotion of wave canary", promote: "canary",
		},
		"not if one is being replaced": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, onItsWay, ending)},
			waitingFor: "1 of 2 Clusters to be ready",
		},
		"the promotion of the last Clusters is not waited for": {
			strategy: manual, clusters: []Cluster{fleetMember("a", 0, 7, ready)}, phase: PhaseComplete,
		},
		"new ones are not waited for": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, onItsWay, joined)}, phase: PhaseComplete,
		},
		"unless all are new": {
			state:    State{Revision: 1},
			clusters: []Cluster{fleetMember("a", 0, 1, ready, joined, targetIs1), fleetMember("b", 0, 1, onItsWay, joined, targetIs1)}, waitingFor: "1 Cluster to be ready",
		},
		"with the first revision all are new": {
			state:    State{Revision: 1},
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay), fleetMember("b", 1, -1, onItsWay)},
			want:     "a: Create Target 1 joined, b: Create Target 1 joined", waitingFor: "2 Clusters to be ready",
		},
		"new ones can prove a revision": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, joined)}, phase: PhaseComplete, check: wantProgress(1, 1, 0, 0),
		},
		"what comes back later is told within the limits, and no failure ends that": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, Rollback: true, Waves: []Wave{{Name: "canary"}}},
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed), fleetMember("b", 1, 6, ready), fleetMember("c", 0, 6, unreachable), fleetMember("d", 1, 6, ready),
			},
			want: "b: Update Target 7", phase: PhaseComplete, waitingFor: "1 Cluster that could not be told before",
			check: wantPassed(""),
		},
		"what is new gets the revision though another is held": {
			strategy: Strategy{Paused: true}, state: State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger), fleetMember("b", 0, 6, ready)},
			want:     "a: Create Target 7 joined", phase: PhaseComplete, waitingFor: "the end of the pause: 1 Cluster has another revision",
		},
	} {
		t.Run(name, tc.run)
	}
}

func targetIs1(c *Cluster) { c.Target, c.Good = releaseOf(1), nil }

func TestPlanServesNewClusters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"with the good revision before the turn of their wave, with that which is wanted then": {
			strategy: Strategy{Waves: []Wave{{Name: "canary"}, {Name: "early"}}},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready), fleetMember("c", 0, -1, onItsWay, stranger),
				fleetMember("d", 1, -1, onItsWay, stranger), fleetMember("e", 2, -1, onItsWay, stranger),
			},
			want:       "b: Update Target 7, c: Create Target 7 joined, d: Create Target 7 joined, e: Create Good 6 joined",
			waitingFor: "1 of 1 Cluster of wave early to be ready",
		},
		"with the good revision while it is paused": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger)},
			want: "a: Create Good 6 joined", waitingFor: "a Cluster to be ready: none of 1 is",
		},
		"with that which is wanted if there is no good one": {
			strategy: canary(Wave{}), state: State{Revision: 7, Good: -1},
			clusters: []Cluster{fleetMember("a", 0, 5, onItsWay), fleetMember("b", 1, -1, onItsWay, stranger)},
			want:     "a: Update Target 7, b: Create Target 7 joined", waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"with the good revision if the other cannot be rendered": {
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, invalid), fleetMember("b", 0, -1, onItsWay, stranger, invalid, noGood)},
			want:     "a: Create Good 6 joined", waitingFor: "a Cluster to be ready: none of 2 is",
		},
		"with that which is wanted if both are the same": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, func(c *Cluster) { c.Target = c.Good })},
			want: "a: Create Target 7 joined", waitingFor: "1 Cluster to be ready",
		},
		"though they do not answer or wait for others": {
			clusters: []Cluster{fleetMember("a", 0, -1, unreachable, stranger), fleetMember("b", 0, -1, onItsWay, stranger, blocked)},
			want:     "a: Create Target 7 joined, b: Create Target 7 joined", waitingFor: "2 Clusters to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}

// A sentence that people read must not change while nothing happens.
func TestPlanSaysNothingOfTime(t *testing.T) {
	t.Parallel()
	in := Input{
		Strategy: Strategy{Soak: time.Hour}, State: State{Revision: 7, Good: 6}, Now: testNow,
		Clusters: []Cluster{fleetMember("a", 0, 7, ready, readyFor(time.Minute)), fleetMember("b", 0, 7, onItsWay)},
	}
	before := Plan(in).Progress
	in.Now = in.Now.Add(time.Minute)
	if after := Plan(in).Progress; after != before {
		t.Errorf("%+v became %+v", before, after)
	}
}
