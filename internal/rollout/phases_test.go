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
		if result.State.Acknowledged != acknowledged || !strings.Contains(result.State.Reason, reason) ||
			(reason == "") != (result.State.Reason == "") {
			t.Errorf("state %+v, want %d acknowledged and %q", result.State, acknowledged, reason)
		}
	}
}

const toContinue = "the annotation rollout-continue, or for a change of the spec"

func TestPlanBudget(t *testing.T) {
	t.Parallel()
	paused := State{Phase: PhasePaused, Reason: "as it was"}
	for name, tc := range map[string]planTest{
		"failures below the budget do not end the rollout": {
			strategy: budget(2),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 2 Clusters to be ready",
			check: wantProgress(2, 0, 1, 1),
		},
		"failures without a budget do not end the rollout": {
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 3 Clusters to be ready",
		},
		"an unknown phase counts as progressing": {
			state: State{Phase: "Superseded"}, clusters: []Cluster{fleetMember("a", 0, 6, ready)},
			want: "a: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"the budget is spent": {
			strategy: budget(2),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue,
			check: wantState(0, "the failure budget is spent: 2 Clusters failed, maxFailures is 2"),
		},
		"a percentage refers to the selected Clusters, rounded down, at least one": {
			strategy: Strategy{Budgeted: true, MaxFailures: Limit{Percent: 40}},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, unreachable),
				fleetMember("c", 0, 6, ready)},
			phase: PhasePaused, waitingFor: toContinue, check: wantState(0, "1 Cluster failed, maxFailures is 1"),
		},
		"a Cluster that cannot be rendered counts as failed before any update": {
			strategy: budget(1),
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, unreachable, invalid)},
			phase:    PhasePaused, waitingFor: toContinue,
		},
		"Clusters that failed before are not failures of the revision": {
			strategy: budget(1),
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed, excused), fleetMember("b", 0, 6, failed, invalid), fleetMember("c", 0, 6, failed),
				fleetMember("d", 0, 0, failed), fleetMember("e", 0, 5, failed), fleetMember("f", 0, 5, onItsWay, excused),
				fleetMember("g", 0, 5, ready, excused), fleetMember("h", 0, 6, onItsWay),
			},
			want: "c: Update Target 7 failedBefore, d: Update Target 7 failedBefore, e: Update Target 7, f: Update Target 7 " +
				"failedBefore, " +
				"g: Update Target 7, h: Update Target 7",
			waitingFor: "6 of 8 Clusters to be ready",
		},
		"new Clusters are not failures": {
			strategy: budget(1),
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed, joined), fleetMember("b", 0, -1, onItsWay, stranger, invalid, noGood),
				fleetMember("c", 0, 6, ready),
				fleetMember("d", 0, 6, ready, stranger, invalid),
			},
			want: "c: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"unreachable, paused and deleted Clusters are not failures": {
			strategy: budget(1),
			clusters: []Cluster{
				fleetMember("a", 0, 7, unreachable), fleetMember("b", 0, 7, failed, func(c *Cluster) { c.Paused = true }),
				fleetMember("c", 0, 7, failed, func(c *Cluster) { c.Deleting = true }), fleetMember("d", 0, 6, ready),
			},
			want: "d: Update Target 7", waitingFor: "1 of 1 Cluster to be ready; 1 Cluster became unreachable after its update",
			check: wantProgress(3, 0, 1, 0),
		},
		"a Cluster that is about to be changed is not a failure": {
			strategy: budget(1), clusters: []Cluster{fleetMember("a", 0, 7, failed, moved)},
			want: "a: Update Target 7", waitingFor: "1 of 1 Cluster to be ready",
		},
		"the pause stays after the failure was repaired": {
			strategy: budget(1), state: paused,
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue, check: wantState(0, "as it was"),
		},
		"the pause stays although nothing is left to do": {
			strategy: budget(1), state: paused, clusters: []Cluster{fleetMember("a", 0, 7, ready)},
			phase: PhasePaused, waitingFor: toContinue,
		},
		"a changed Cluster is updated under its own revision while paused": {
			strategy: budget(1), state: paused,
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, moved), fleetMember("b", 0, 6, ready, moved, joined, excused),
				fleetMember("c", 0, 5, ready, moved),
			},
			want:  "a: Update Target 7, b: Update Own 6 joined failedBefore, c: Update Own 5",
			phase: PhasePaused, waitingFor: toContinue,
		},
		"a new Cluster gets the good revision or nothing while paused": {
			strategy: budget(1), state: paused,
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger),
				fleetMember("b", 0, -1, onItsWay, stranger, noGood)},
			want:  "a: Create Good 6 joined",
			phase: PhasePaused, waitingFor: toContinue,
		},
		"a request to continue": {
			strategy: budget(1), state: paused, requests: Requests{Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 2 Clusters to be ready",
			check: wantState(1, ""),
		},
		"a request to continue completes the rollout": {
			strategy: budget(1), state: paused, requests: Requests{Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete, check: wantProgress(2, 1, 0, 0),
		},
		"one more failure than acknowledged": {
			strategy: budget(1), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 0, 6, ready)},
			phase:    PhasePaused, waitingFor: toContinue, check: wantState(1, "1 Cluster failed"),
		},
		"a repaired failure is no longer acknowledged": {
			strategy: budget(5), state: State{Acknowledged: 3},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready),
				fleetMember("c", 0, 7, onItsWay)},
			waitingFor: "1 of 3 Clusters to be ready",
			check:      wantState(1, ""),
		},
		"a Cluster that the revision does not change keeps no failure acknowledged": {
			strategy: budget(5), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, unreachable, func(c *Cluster) {
				c.Good = c.Target
			}), fleetMember("c", 0, 7, onItsWay)},
			waitingFor: "1 of 2 Clusters to be ready",
			check:      wantState(0, ""),
		},
		"a failure stays acknowledged while the Cluster cannot be repaired": {
			strategy: budget(1), state: State{Acknowledged: 4},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable),
				fleetMember("b", 0, 7, failed, func(c *Cluster) { c.Paused = true }),
				fleetMember("c", 0, 7, onItsWay, hasFailures), fleetMember("d", 0, 7, onItsWay)},
			waitingFor: "2 of 2 Clusters to be ready; 1 Cluster became unreachable after its update",
			check:      wantState(3, ""),
		},
		"a pause becomes a rollback if the strategy changes": {
			strategy: rollback(1), state: paused,
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Good 6 returned", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with HelmOp " +
				"revision 6",
		},
		"no rollback once the failures are repaired": {
			strategy: rollback(1), state: paused, clusters: []Cluster{fleetMember("a", 0, 7, ready)},
			phase: PhasePaused, waitingFor: toContinue,
		},
		"there is no revision to return to": {
			strategy: rollback(1), state: State{Revision: 7, Good: -1},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 5, ready)},
			phase:    PhasePaused, waitingFor: toContinue,
			check: wantState(0, "maxFailures is 1; there is no last known good revision to return to"),
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
		"all updated Clusters return at once, also unreachable ones": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, Rollback: true, Paused: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready), fleetMember("c", 0, 7, unreachable),
				fleetMember("d", 0, 7, onItsWay, blocked),
				fleetMember("e", 0, 7, ready, joined), fleetMember("f", 0, 6, ready), fleetMember("g", 0, 7, failed, excused),
			},
			want: "a: Update Good 6 returned, b: Update Good 6 returned, " +
				"c: Update Good 6 returned, d: Update Good 6 returned, " +
				"e: Update Good 6 returned, g: Update Good 6 failedBefore returned",
			state: State{Phase: PhaseRolledBack, Reason: "it failed"},
			phase: PhaseRolledBack, waitingFor: "5 Clusters to be ready with HelmOp revision 6",
			check: wantProgress(0, 1, 5, 0),
		},
		"a request to abort": {
			requests: Requests{Abort: true, Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Good 6 returned", phase: PhaseAborted, waitingFor: "1 Cluster to be ready with HelmOp " +
				"revision 6",
			check: wantState(0, "rollout-abort is set"),
		},
		"a request to abort while paused": {
			state: State{Phase: PhasePaused}, requests: Requests{Abort: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready)},
			want:     "a: Update Good 6 returned", phase: PhaseAborted, waitingFor: "1 Cluster to be ready with HelmOp " +
				"revision 6",
		},
		"a request to abort without a revision to return to": {
			state: State{Revision: 7, Good: -1}, requests: Requests{Abort: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 5, ready)},
			phase:    PhasePaused,
			waitingFor: "the annotation rollout-abort to be removed and then rollout-continue to be set, or for a change of " +
				"the spec",
			check: wantState(0, "no last known good revision to return to; remove it, and then set rollout-continue"),
		},
		"complete and rolled back rollouts cannot be aborted": {
			state: State{Phase: PhaseComplete}, requests: Requests{Abort: true, Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, ready)}, phase: PhaseComplete,
		},
		"a Cluster that returned stays": {
			state: back, requests: Requests{Abort: true, Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, failed)},
			phase:    PhaseRolledBack, check: wantState(0, "it failed"),
		},
		"a changed Cluster is updated under the good revision": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 6, ready, moved)},
			want: "a: Update Good 6", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"a Cluster that cannot be rendered returns to the release stored in its child": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 7, failed, previous)},
			want: "a: Update Previous 6 returned", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with HelmOp " +
				"revision 6",
		},
		"after that it has returned": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 6, ready, noGood)}, phase: PhaseRolledBack,
			check: func(t *testing.T, result Result) {
				if !result.Steps[0].Assigned {
					t.Error("Assigned is false")
				}
			},
		},
		"without a stored release the Cluster stays": {
			state: back,
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, previous, func(c *Cluster) { c.Child.Previous = 5 }),
				fleetMember("b", 0, 7, onItsWay),
			},
			want: "b: Update Good 6 returned", phase: PhaseRolledBack,
			waitingFor: "1 Cluster to be ready with HelmOp revision 6; a change of the spec: HelmOp revision 6 can no " +
				"longer be rendered " +
				"for 1 Cluster",
			check: func(t *testing.T, result Result) {
				if result.Steps[0].Assigned {
					t.Error("Assigned is true although the release stays")
				}
				wantProgress(1, 0, 1, 0)(t, result)
			},
		},
		"a different release name is a different release": {
			state: back, clusters: []Cluster{fleetMember("a", 0, 7, failed, returnsToOtherName)},
			want: "a: Replace", phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"a different release name returns ready Clusters within the limits": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}}, state: State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, returnsToOtherName),
				fleetMember("b", 0, 7, ready, returnsToOtherName)},
			want: "a: Replace", phase: PhaseAborted, waitingFor: "2 Clusters to be ready with HelmOp revision 6",
		},
		"a different release name returns within the limits also during the soak time": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Soak: time.Hour}, state: State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 6, onItsWay),
				fleetMember("b", 0, 7, ready, readyFor(0), returnsToOtherName)},
			phase: PhaseAborted, waitingFor: "2 Clusters to be ready with HelmOp revision 6",
		},
		"a different release name returns Clusters that are not ready at once, and first": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}}, state: State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, returnsToOtherName),
				fleetMember("b", 0, 7, failed, returnsToOtherName), fleetMember("c", 0, 7, unreachable, returnsToOtherName),
				fleetMember("d", 0, 7, onItsWay, returnsToOtherName)},
			want: "b: Replace, c: Replace, d: Replace", phase: PhaseAborted,
			waitingFor: "3 Clusters to be ready with HelmOp revision 6",
		},
		"Clusters with older revisions move to the good one within the limits": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}, Waves: []Wave{{Name: "canary"}}}, state: back,
			clusters: []Cluster{
				fleetMember("a", 1, 5, ready), fleetMember("b", 0, 6, onItsWay), fleetMember("c", 1, 5, ready),
				fleetMember("d", 1, 5, unreachable),
			},
			want: "a: Update Good 6", phase: PhaseRolledBack, waitingFor: "3 Clusters to be ready with HelmOp revision 6",
		},
		"they do not move while paused": {
			strategy: Strategy{Paused: true}, state: back, clusters: []Cluster{fleetMember("a", 0, 5, ready)},
			phase: PhaseRolledBack, waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"a new Cluster gets the good revision or nothing": {
			state: back,
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger),
				fleetMember("b", 0, -1, onItsWay, stranger, noGood)},
			want: "a: Create Good 6 joined", phase: PhaseRolledBack, check: wantProgress(0, 0, 1, 0),
		},
		"a revision that was given up is never assigned, even if it is identical": {
			state: back, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger,
				func(c *Cluster) { c.Target = c.Good })},
			want: "a: Create Good 6 joined", phase: PhaseRolledBack,
		},
		"a revision that was given up stays if there is no good one": {
			state:    State{Revision: 7, Good: -1, Phase: PhaseRolledBack},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			phase:    PhaseRolledBack,
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestPlanCompletes(t *testing.T) {
	t.Parallel()
	manual := canary(Wave{Manual: true})
	for name, tc := range map[string]planTest{
		"all Clusters that count are done or failed": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, failed),
				fleetMember("c", 0, 6, unreachable)},
			phase: PhaseComplete, check: wantProgress(2, 1, 0, 1),
		},
		"not complete if no Cluster is done": {
			clusters: []Cluster{fleetMember("a", 0, 7, failed)}, waitingFor: "a Cluster to be ready: 1 selected, 0 ready",
		},
		"not complete without Clusters": {waitingFor: "a Cluster to be selected"},
		"not complete if fewer are done than unreachable or blocked": {
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, unreachable), fleetMember("c", 0, 6, ready, blocked),
				fleetMember("d", 0, 7, unreachable),
			},
			waitingFor: "Clusters that cannot be updated now: 1 unreachable, 1 waiting for dependencies, 0 paused" +
				"; 1 Cluster became unreachable after its update",
		},
		"not complete if more are paused than done": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready, paused),
				fleetMember("c", 0, 6, ready, paused)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 2 paused",
		},
		"complete if as many are done as paused": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, ready, paused)}, phase: PhaseComplete,
		},
		"not complete while paused Clusters are behind a promotion": {
			strategy: manual, clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready, paused)},
			waitingFor: "the promotion of wave canary", promote: "canary",
		},
		"not complete while a Cluster is being replaced": {
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 6, onItsWay, ending)},
			waitingFor: "1 of 2 Clusters to be ready",
		},
		"complete without the promotion of the last Clusters": {
			strategy: manual, clusters: []Cluster{fleetMember("a", 0, 7, ready)}, phase: PhaseComplete,
		},
		"complete without the new Clusters": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, onItsWay, joined)}, phase: PhaseComplete,
		},
		"new Clusters are waited for if all are new": {
			state: State{Revision: 1, First: true},
			clusters: []Cluster{fleetMember("a", 0, 1, ready, joined, targetIs1),
				fleetMember("b", 0, 1, onItsWay, joined, targetIs1)}, waitingFor: "1 Cluster to be ready",
		},
		"all Clusters are new for the first revision": {
			state:    State{Revision: 1, First: true},
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay), fleetMember("b", 1, -1, onItsWay)},
			want:     "a: Create Target 1 joined, b: Create Target 1 joined", waitingFor: "2 Clusters to be ready",
		},
		"the first known revision may have a higher number": {
			state:    State{Revision: 7, Good: -1, First: true},
			strategy: Strategy{Paused: true, MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, noGood), fleetMember("b", 0, -1, onItsWay, noGood)},
			want:     "a: Create Target 7 joined, b: Create Target 7 joined", waitingFor: "2 Clusters to be ready",
		},
		"new Clusters prove a revision": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, joined)}, phase: PhaseComplete, check: wantProgress(1, 1, 0, 0),
		},
		"Clusters that respond later are updated within the limits, whatever fails": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, Rollback: true, Waves: []Wave{{Name: "canary"}}},
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed), fleetMember("b", 1, 6, ready), fleetMember("c", 0, 6, unreachable),
				fleetMember("d", 1, 6, ready),
			},
			want: "b: Update Target 7", phase: PhaseComplete, waitingFor: "1 Cluster that could not be updated before",
			check: wantPassed(""),
		},
		"a new Cluster gets the completed revision": {
			strategy: Strategy{Paused: true}, state: State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger), fleetMember("b", 0, 6, ready)},
			want:     "a: Create Target 7 joined", phase: PhaseComplete,
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
		},
	} {
		t.Run(name, tc.run)
	}
}

// returnsToOtherName gives the release another name under the last known good revision.
func returnsToOtherName(c *Cluster) { c.Good = &Release{Identity: "ns/b", Content: "6"} }

func targetIs1(c *Cluster) { c.Target, c.Good = releaseOf(1), nil }

func TestPlanServesNewClusters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"good revision before the turn of the wave, then the current one": {
			strategy: Strategy{Waves: []Wave{{Name: "canary"}, {Name: "early"}}},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready), fleetMember("c", 0, -1, onItsWay, stranger),
				fleetMember("d", 1, -1, onItsWay, stranger), fleetMember("e", 2, -1, onItsWay, stranger),
			},
			want:       "b: Update Target 7, c: Create Target 7 joined, d: Create Target 7 joined, e: Create Good 6 joined",
			waitingFor: "1 of 1 Cluster of wave early to be ready",
		},
		"good revision while paused": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger)},
			want: "a: Create Good 6 joined", waitingFor: "a Cluster to be ready: 1 selected, 0 ready",
		},
		"nothing before the turn of the wave, while the release under the good revision is pending": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, -1, onItsWay, stranger, goodPending),
				fleetMember("c", 1, -1, onItsWay, stranger, goodPending),
				fleetMember("d", 1, -1, onItsWay, stranger, noGood)},
			want:       "a: Update Target 7, b: Create Target 7 joined, d: Create Target 7 joined",
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"current revision if there is no good one": {
			strategy: canary(Wave{}), state: State{Revision: 7, Good: -1},
			clusters: []Cluster{fleetMember("a", 0, 5, onItsWay), fleetMember("b", 1, -1, onItsWay, stranger)},
			want:     "a: Update Target 7, b: Create Target 7 joined", waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"good revision if the current one cannot be rendered": {
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, invalid),
				fleetMember("b", 0, -1, onItsWay, stranger, invalid, noGood)},
			want: "a: Create Good 6 joined", waitingFor: "a Cluster to be ready: 2 selected, 0 ready",
		},
		"nothing while the release under a complete revision is unknown": {
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, -1, onItsWay, stranger, unknown)},
			phase:    PhaseComplete,
		},
		"good revision if a complete one cannot be rendered": {
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 0, -1, onItsWay, stranger, invalid)},
			want:     "b: Create Good 6 joined", phase: PhaseComplete,
		},
		"current revision if both are identical": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, func(c *Cluster) { c.Target = c.Good })},
			want:     "a: Create Target 7 joined", waitingFor: "1 Cluster to be ready",
		},
		"even if unreachable or waiting for dependencies": {
			clusters: []Cluster{fleetMember("a", 0, -1, unreachable, stranger),
				fleetMember("b", 0, -1, onItsWay, stranger, blocked)},
			want: "a: Create Target 7 joined, b: Create Target 7 joined", waitingFor: "2 Clusters to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestPlanWaitingForContainsNoTimes checks that the texts for users do not change while nothing happens.
func TestPlanWaitingForContainsNoTimes(t *testing.T) {
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

// TestPlanAcknowledgedFailureStays has a Cluster whose failure a user acknowledged, and which is then unreachable for a
// while. Its failure must not pause the rollout again.
func TestPlanAcknowledgedFailureStays(t *testing.T) {
	t.Parallel()
	state := State{Revision: 7, Good: 6, Phase: PhasePaused}
	for i, health := range []Health{failed, unreachable, failed} {
		result := Plan(Input{Strategy: budget(1), State: state, Requests: Requests{Continue: i == 0}, Now: testNow,
			Clusters: []Cluster{fleetMember("a", 0, 7, health), fleetMember("b", 0, 7, onItsWay)}})
		if state = result.State; state.Phase != PhaseProgressing {
			t.Fatalf("plan %d: %+v", i, state)
		}
	}
}
