// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
	"time"
)

// In these tests, the current revision is the first one, as for a HelmOp that adopts the releases of a fleet.

// adopting returns a Cluster with a child for revision 7, without a revision before it. The child joined: the Cluster
// counts as new until the child reports a release of another owner.
func adopting(name string, wave int, health Health, changes ...func(*Cluster)) Cluster {
	return fleetMember(name, wave, 7, health, append([]func(*Cluster){joined, stranger, noGood}, changes...)...)
}

func unobserved(c *Cluster) { c.Child.Unobserved = true }
func awaits(c *Cluster)     { c.Child.AwaitsAdoption = true }

// adopts is a Cluster that the plan has permitted to adopt.
func adopts(c *Cluster) { c.Child.Joined, c.Known = false, true }

func held(c *Cluster) { adopts(c); c.Child.AdoptionHeld = true }

// heldAsNew is a Cluster whose release cannot be adopted without a change, as its Helm record already shows. So the
// Cluster does not wait for the rollout.
func heldAsNew(c *Cluster) { c.Child.AdoptionHeld = true }

func TestPlanAdoptions(t *testing.T) {
	t.Parallel()
	first := State{Revision: 7, Good: -1, First: true}
	one := Strategy{MaxUnavailable: Limit{Count: 1}}
	for name, tc := range map[string]planTest{
		"without a strategy all are adopted at once": {
			clusters:   []Cluster{adopting("a", 0, onItsWay, awaits), adopting("b", 0, onItsWay, awaits)},
			want:       "a: Update Target 7, b: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts("a", "b"),
		},
		"maxUnavailable holds": {
			strategy:   one,
			clusters:   []Cluster{adopting("a", 0, onItsWay, awaits), adopting("b", 0, onItsWay, awaits)},
			want:       "a: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
			check: func(t *testing.T, result Result) {
				t.Helper()
				wantAdopts("a")(t, result)
				wantProgress(1, 0, 1, 0)(t, result)
			},
		},
		"an adoption in flight takes a slot": {
			strategy:   one,
			clusters:   []Cluster{adopting("a", 0, onItsWay, adopts), adopting("b", 0, onItsWay, awaits)},
			waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts(),
		},
		"the next follows when it is done": {
			strategy:   one,
			clusters:   []Cluster{adopting("a", 0, ready, adopts), adopting("b", 0, onItsWay, awaits)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 2 Clusters to be ready", check: wantAdopts("b"),
		},
		"an adoption is done after its soak time": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Soak: 5 * time.Minute},
			clusters: []Cluster{adopting("a", 0, ready, adopts, readyFor(time.Minute)),
				adopting("b", 0, onItsWay, awaits)},
			waitingFor: "2 of 2 Clusters to be ready for 5m0s", requeue: 4 * time.Minute, check: wantAdopts(),
		},
		"new installations take no slot": {
			strategy:   one,
			clusters:   []Cluster{adopting("a", 0, onItsWay), adopting("b", 0, onItsWay), adopting("c", 0, onItsWay, awaits)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready", check: wantAdopts("c"),
		},
		"a later wave waits": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{adopting("a", 0, onItsWay, awaits), adopting("b", 1, onItsWay, awaits)},
			want:       "a: Update Target 7",
			waitingFor: "1 of 1 Cluster of wave canary to be ready", check: wantAdopts("a"),
		},
		"a later wave waits for Clusters that were not observed yet": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{adopting("a", 0, onItsWay, unobserved), adopting("b", 1, onItsWay, awaits)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready", check: wantAdopts(),
		},
		"Clusters that were not observed yet take no slot": {
			strategy:   one,
			clusters:   []Cluster{adopting("a", 0, onItsWay, unobserved), adopting("b", 0, onItsWay, awaits)},
			want:       "b: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts("b"),
		},
		"a later wave does not wait for unreachable Clusters": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{adopting("a", 0, unreachable, unobserved), adopting("b", 1, onItsWay, awaits)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster in no wave to be ready", check: wantAdopts("b"),
		},
		"a manual wave needs a promotion": {
			strategy:   canary(Wave{Manual: true}),
			clusters:   []Cluster{adopting("a", 0, ready, adopts), adopting("b", 1, onItsWay, awaits)},
			waitingFor: "the promotion of wave canary", promote: "canary", check: wantAdopts(),
		},
		"a failed adoption spends the budget": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}},
			clusters:   []Cluster{adopting("a", 0, failed, adopts), adopting("b", 0, onItsWay, awaits)},
			phase:      PhasePaused,
			waitingFor: "the annotation rollout-continue, or for a change of the spec", check: wantAdopts(),
		},
		"a paused rollout adopts nothing": {
			strategy:   Strategy{Paused: true},
			clusters:   []Cluster{adopting("a", 0, onItsWay, awaits)},
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated", check: wantAdopts(),
		},
		"a release that would change takes no slot and spends no budget": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}},
			clusters:   []Cluster{adopting("a", 0, failed, held), adopting("b", 0, onItsWay, awaits)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready", check: wantAdopts("b"),
		},
		"a wave of releases that would change does not pass": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{adopting("a", 0, failed, held), adopting("b", 1, onItsWay, awaits)},
			waitingFor: "1 Cluster of wave canary, whose adoption would change releases", promote: "canary",
			check: wantAdopts(),
		},
		"nor does one of new Clusters with such releases": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{adopting("a", 0, failed, heldAsNew), adopting("b", 1, onItsWay, awaits)},
			waitingFor: "1 Cluster of wave canary, whose adoption would change releases", promote: "canary",
			check: wantAdopts(),
		},
		"a blocked Cluster adopts nothing": {
			clusters:   []Cluster{adopting("a", 0, onItsWay, awaits, blocked)},
			waitingFor: "Clusters that cannot be updated now: 0 unreachable, 1 waiting for dependencies, 0 paused",
			check:      wantAdopts(),
		},
		"a change of the Cluster itself does not start the adoption": {
			strategy: one,
			clusters: []Cluster{adopting("a", 0, onItsWay, adopts), adopting("b", 0, onItsWay, awaits, moved)},
			want:     "b: Update Target 7 joined", waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts(),
		},
	} {
		if tc.state.Revision == 0 {
			tc.state = first
		}
		t.Run(name, tc.run)
	}
}

// TestPlanAdoptionsOfLaterRevisions checks a Cluster whose release waits for its adoption. It gets another revision
// within the limits. An identical revision or a return does not allow the adoption earlier.
func TestPlanAdoptionsOfLaterRevisions(t *testing.T) {
	t.Parallel()
	one := Strategy{MaxUnavailable: Limit{Count: 1}}
	old := func(name string, changes ...func(*Cluster)) Cluster {
		return fleetMember(name, 0, 6, onItsWay, append([]func(*Cluster){joined, awaits}, changes...)...)
	}
	for name, tc := range map[string]planTest{
		"another revision": {
			strategy: one, clusters: []Cluster{old("a"), old("b")},
			want: "a: Update Target 7", waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts("a"),
		},
		"an identical revision": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), old("b", sameAsOwn)},
			want:     "b: Update Target 7 joined", waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts(),
		},
		"a return": {
			strategy: one, state: State{Revision: 7, Good: 6, Phase: PhaseAborted},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay),
				fleetMember("b", 0, 7, onItsWay, joined, awaits)},
			want:       "a: Update Good 6 returned, b: Update Good 6 joined",
			waitingFor: "2 Clusters to be ready with HelmOp revision 6", phase: PhaseAborted, check: wantAdopts(),
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestPlanLostReleases checks Clusters that are not new, whose child was lost and created again. A release that differs
// is changed only in the turn of its Cluster.
func TestPlanLostReleases(t *testing.T) {
	t.Parallel()
	one := Strategy{MaxUnavailable: Limit{Count: 1}}
	lost := func(name string, wave int, revision int64, changes ...func(*Cluster)) Cluster {
		return fleetMember(name, wave, revision, onItsWay, append([]func(*Cluster){awaits}, changes...)...)
	}
	for name, tc := range map[string]planTest{
		"maxUnavailable holds": {
			strategy: one, clusters: []Cluster{lost("a", 0, 7), lost("b", 0, 7)},
			want: "a: Update Target 7", waitingFor: "2 of 2 Clusters to be ready",
			check: func(t *testing.T, result Result) {
				t.Helper()
				wantAdopts("a")(t, result)
				wantProgress(1, 0, 1, 0)(t, result)
			},
		},
		"a later wave waits": {
			strategy: canary(Wave{}), clusters: []Cluster{lost("a", 0, 7), lost("b", 1, 7), lost("c", 1, 6)},
			want: "a: Update Target 7", waitingFor: "1 of 1 Cluster of wave canary to be ready", check: wantAdopts("a"),
		},
		"a paused rollout changes nothing": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{lost("a", 0, 7)},
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated", check: wantAdopts(),
		},
		"after the completion, maxUnavailable holds": {
			strategy: one, state: State{Phase: PhaseComplete}, clusters: []Cluster{lost("a", 0, 7), lost("b", 0, 7)},
			want: "a: Update Target 7", phase: PhaseComplete, waitingFor: "1 Cluster that could not be updated before",
			check: wantAdopts("a"),
		},
		"a change of the Cluster itself is not a turn": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), lost("b", 0, 7, moved)},
			want: "b: Update Target 7", waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts(),
		},
		"an identical revision is not a turn": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), lost("b", 0, 6, sameAsOwn)},
			want: "b: Update Target 7 joined", waitingFor: "2 of 2 Clusters to be ready", check: wantAdopts(),
		},
		"a return is not a turn": {
			state:    State{Revision: 7, Good: 6, Phase: PhaseAborted},
			clusters: []Cluster{lost("a", 0, 7)}, want: "a: Update Good 6 joined",
			waitingFor: "1 Cluster to be ready with HelmOp revision 6", phase: PhaseAborted, check: wantAdopts(),
		},
	} {
		t.Run(name, tc.run)
	}
}

// conflicting is a Cluster with the release of another owner, which HelmOp may not adopt.
func conflicting(c *Cluster) { c.Child.Foreign = true }

// several returns several Clusters with the names a1, a2 and so on.
func several(n int, as func(name string) Cluster) (clusters []Cluster) {
	for i := range n {
		clusters = append(clusters, as(fmt.Sprintf("a%d", i+1)))
	}
	return clusters
}

// TestPlanFirstRevisionOfRestoredFleet checks that the first revision is not complete before HelmOp has looked at
// enough releases, and that a later wave does not begin before an earlier one.
func TestPlanFirstRevisionOfRestoredFleet(t *testing.T) {
	t.Parallel()
	with := func(n int, as func(name string) Cluster) []Cluster {
		return append([]Cluster{adopting("z", 0, ready)}, several(n, as)...)
	}
	conflict := func(name string) Cluster { return adopting(name, 0, failed, conflicting) }
	dark := func(name string) Cluster { return adopting(name, 0, unreachable, unread) }
	absent := func(name string) Cluster { return fleetMember(name, 0, -1, onItsWay, noGood, paused) }
	young := func(c *Cluster) { c.Initialized = false }
	const cannot = "Clusters that cannot be updated now: 0 unreachable, 0 waiting for dependencies, 0 paused"
	for name, tc := range map[string]planTest{
		"one of ten releases is taken over": {
			clusters: with(9, conflict), waitingFor: cannot + ", 9 with the release of another owner",
		},
		"half of the releases are taken over": {clusters: with(1, conflict), phase: PhaseComplete},
		"one Cluster of three answers": {
			clusters: with(2, dark), waitingFor: cannot + ", 2 in which HelmOp has not looked for a release yet",
		},
		"one Cluster does not answer": {clusters: with(1, dark), phase: PhaseComplete},
		"Clusters that answered before": {
			clusters: with(2, func(name string) Cluster { return adopting(name, 0, unreachable, unread, wasDone) }),
			phase:    PhaseComplete,
		},
		"one Cluster of three is not paused": {
			clusters: with(2, absent), waitingFor: cannot + ", 2 in which HelmOp has not looked for a release yet",
		},
		"paused Clusters may not be initialized": {
			clusters:   with(2, func(name string) Cluster { return fleetMember(name, 0, -1, onItsWay, noGood, paused, young) }),
			waitingFor: cannot + ", 2 in which HelmOp has not looked for a release yet",
		},
		"Clusters have just been resumed": {
			clusters:   with(2, func(name string) Cluster { return fleetMember(name, 0, -1, onItsWay, noGood) }),
			want:       "a1: Create Target 7 joined, a2: Create Target 7 joined",
			waitingFor: "2 Clusters to be ready",
		},
		"new Clusters are not initialized yet": {
			clusters: with(9, func(name string) Cluster { return fleetMember(name, 0, -1, onItsWay, noGood, young) }),
			phase:    PhaseComplete,
		},
		"the revision cannot be rendered for new Clusters": {
			clusters: with(9, func(name string) Cluster { return fleetMember(name, 0, -1, onItsWay, noGood, invalid) }),
			phase:    PhaseComplete,
		},
		"installations in new Clusters fail": {
			clusters: with(9, func(name string) Cluster { return adopting(name, 0, failed) }), phase: PhaseComplete,
		},
		"another revision is known": {
			clusters: with(9, conflict), state: State{Revision: 7, Good: 6}, phase: PhaseComplete,
		},
		"the takeover begins in a later wave": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{conflict("a"), adopting("b", 1, onItsWay, awaits)},
			waitingFor: "1 Cluster of wave canary with the release of another owner", promote: "canary", check: wantAdopts(),
		},
		"the wave is promoted": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{conflict("a"), adopting("b", 1, onItsWay, awaits)}, want: "b: Update Target 7",
			waitingFor: "1 of 1 Cluster in no wave to be ready", check: wantAdopts("b"),
		},
		"a release of the wave is done": {
			strategy: canary(Wave{}),
			clusters: []Cluster{conflict("a"), adopting("c", 0, ready, adopts), adopting("b", 1, onItsWay, awaits)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready", check: wantAdopts("b"),
		},
	} {
		if tc.state.Revision == 0 {
			tc.state = State{Revision: 7, Good: -1, First: true}
		}
		t.Run(name, tc.run)
	}
}

// wantAdopts checks which Clusters may adopt releases of other owners from this plan on.
func wantAdopts(names ...string) func(*testing.T, Result) {
	return func(t *testing.T, result Result) {
		t.Helper()
		var got []string
		for _, s := range result.Steps {
			if s.Adopts {
				got = append(got, s.Cluster)
				if s.Joined || s.Returned {
					t.Errorf("%s adopts as a new Cluster: %+v", s.Cluster, s)
				}
			}
		}
		if len(got) != len(names) {
			t.Fatalf("adoptions in %v, want %v", got, names)
		}
		for i := range got {
			if got[i] != names[i] {
				t.Errorf("adoptions in %v, want %v", got, names)
			}
		}
	}
}
