// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"testing"
	"time"
)

// closed returns a change: a window opens in an hour. vetoed has no known time.
func closed(c *Cluster) { c.Defers.Changes, c.Defers.Opens = true, testNow.Add(time.Hour) }
func vetoed(c *Cluster) { c.Defers.Changes = true }

// withInstalls and withReturns also defer what is usually exempt. waitsInside sets a Cluster whose child has its spec
// and waits.
func withInstalls(c *Cluster) { c.Defers.Installations = true }
func withReturns(c *Cluster)  { c.Defers.Returns = true }
func waitsInside(c *Cluster)  { c.Child.Deferred = true }

const nextMaintenance = "maintenance (the next is at 2026-03-04T06:06:07Z) in "

func TestPlanMaintenance(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"a closed Cluster waits, the others do not": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, closed), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready", requeue: time.Hour,
			check: wantDeferred("a"),
		},
		"it takes no slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, closed), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready", requeue: time.Hour,
		},
		"the rollout is not complete before its window": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, closed), fleetMember("b", 0, 7, ready)},
			waitingFor: nextMaintenance + "1 Cluster", requeue: time.Hour,
			check: wantDeferred("a"),
		},
		"a veto does not hold the end of the rollout": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, vetoed), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete, check: wantDeferred("a"),
		},
		"vetoes in most Clusters do": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, vetoed), fleetMember("b", 0, 6, ready, vetoed),
				fleetMember("c", 0, 7, ready)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 0 paused, " +
				"2 waiting for maintenance without a known time",
		},
		"a closed Cluster holds its wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, closed), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			waitingFor: nextMaintenance + "1 Cluster of wave canary", promote: "canary", requeue: time.Hour,
		},
		"unless the wave is promoted": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 6, ready, closed), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster in no wave to be ready", requeue: time.Hour,
		},
		"a veto does not hold a wave in which another Cluster is done": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, vetoed), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"vetoes in all Clusters of a wave hold it": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, vetoed), fleetMember("b", 1, 6, ready)},
			waitingFor: "1 Cluster of wave canary whose limits for maintenance permit no change", promote: "canary",
		},
		"a closed Cluster that fails already does not spend the budget": {
			strategy: budget(1),
			clusters: []Cluster{fleetMember("a", 0, 6, failed, closed), fleetMember("b", 0, 7, ready)},
			// It failed under the revision before.
			waitingFor: nextMaintenance + "1 Cluster", requeue: time.Hour,
		},
		"a change of the Cluster itself waits": {
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, moved, closed), fleetMember("b", 0, 7, ready, moved)},
			want:     "b: Update Target 7", phase: PhaseComplete, requeue: time.Hour, check: wantDeferred("a"),
		},
		"a release that changes nothing is assigned": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, sameAsOwn, closed), fleetMember("b", 0, 7, ready)},
			want:     "a: Update Target 7", phase: PhaseComplete, check: wantDeferred(),
		},
		"a new Cluster does not wait": {
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, closed), fleetMember("b", 0, 7, ready)},
			want:     "a: Create Target 7 joined", phase: PhaseComplete,
		},
		"unless asked for": {
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, stranger, closed, withInstalls),
				fleetMember("b", 0, 7, ready)},
			phase: PhaseComplete, requeue: time.Hour, check: wantDeferred("a"),
		},
		"a return does not wait": {
			state:    State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, failed, closed)},
			want:     "a: Update Good 6 returned", phase: PhaseAborted,
			waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"a return waits if asked for": {
			state:    State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, failed, closed, withReturns)},
			phase:    PhaseAborted, waitingFor: nextMaintenance + "1 Cluster", requeue: time.Hour, check: wantDeferred("a"),
		},
		"a release is not replaced": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, renamed, closed), fleetMember("b", 0, 7, ready)},
			waitingFor: nextMaintenance + "1 Cluster", requeue: time.Hour, check: wantDeferred("a"),
		},
		"a release of a Cluster that is no longer selected is not deleted": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, unselected, closed), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete, requeue: time.Hour, check: wantDeferred("a"),
		},
		"a release without a Cluster is dropped": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, closed, func(c *Cluster) { c.Gone = true }),
				fleetMember("b", 0, 7, ready)},
			want: "a: Delete", phase: PhaseComplete,
		},
		"a pin by a user does not wait": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, closed, pinTo(6)), fleetMember("b", 0, 7, ready)},
			want:     "a: Update Pin 6 pinned", phase: PhaseComplete,
		},
		"a pin waits if returns do": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, closed, withReturns, pinTo(6)), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete, requeue: time.Hour, check: wantDeferred("a"),
		},
		"an assigned release that waits takes no slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, closed, waitsInside), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready", requeue: time.Hour,
		},
		"an update that began in the window goes on and takes one": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, closed), fleetMember("b", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"after the opening, a release that still says that it waits is in flight": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, waitsInside), fleetMember("b", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"after an abort, a release of a Cluster that is no longer selected is not deleted": {
			state:    State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, unselected, vetoed), fleetMember("b", 0, 6, ready)},
			phase:    PhaseAborted, check: wantDeferred("a"),
		},
		"a change of a pinned Cluster itself waits": {
			state:    State{Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, moved, vetoed, pinTo(7)), fleetMember("b", 0, 6, ready)},
			phase:    PhaseAborted, check: wantDeferred("a"),
		},
		"an installation after a replacement does not wait": {
			clusters: []Cluster{fleetMember("a", 0, -1, onItsWay, closed, withInstalls), fleetMember("b", 0, 7, ready)},
			want:     "a: Create Target 7", waitingFor: "1 of 2 Clusters to be ready",
		},
		"a Cluster whose wave has not begun does not wait for maintenance": {
			strategy:   canary(Wave{Manual: true}),
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready, closed)},
			waitingFor: "the promotion of wave canary", promote: "canary", requeue: time.Hour,
			check: func(t *testing.T, result Result) {
				wantDeferred()(t, result)
				if !result.Progress.Opens.IsZero() {
					t.Errorf("the next Cluster may be changed at %s", result.Progress.Opens)
				}
			},
		},
		"the time is that of the wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, closed), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready, func(c *Cluster) {
					c.Defers.Changes, c.Defers.Opens = true, testNow.Add(time.Minute)
				})},
			waitingFor: nextMaintenance + "1 Cluster of wave canary", promote: "canary", requeue: time.Minute,
			check: wantDeferred("a"),
		},
		"an unreachable Cluster is unreachable": {
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable, closed), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
	} {
		t.Run(name, tc.run)
	}
}

// wantDeferred checks that exactly these Clusters wait for maintenance.
func wantDeferred(names ...string) func(*testing.T, Result) {
	return func(t *testing.T, result Result) {
		t.Helper()
		for _, s := range result.Steps {
			if isWanted := slices.Contains(names, s.Cluster); s.Deferred != isWanted ||
				s.Deferred && s.Action != ActionNone {
				t.Errorf("%s waits for maintenance: %t, want %t: %+v", s.Cluster, s.Deferred, isWanted, s)
			}
		}
	}
}
