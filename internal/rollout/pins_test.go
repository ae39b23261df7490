// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// pinTo pins a Cluster to a revision under which its release is known.
func pinTo(revision int64) func(*Cluster) {
	return func(c *Cluster) { c.Pin = &Pin{Revision: revision, Release: releaseOf(revision)} }
}

// refusedPin pins a Cluster to a revision that it cannot have.
func refusedPin(c *Cluster) { c.Pin = &Pin{Revision: 3} }

func TestPlanPins(t *testing.T) {
	t.Parallel()
	one := Strategy{MaxUnavailable: Limit{Count: 1}}
	for name, tc := range map[string]planTest{
		"a pinned Cluster returns at once, and takes no slot": {
			strategy:   one,
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, pinTo(5)), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Pin 5 pinned, b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantProgress(1, 0, 1, 0),
		},
		"it does so although the rollout is paused": {
			strategy:   Strategy{Paused: true},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, pinTo(5)), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Pin 5 pinned",
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
		},
		"it does so although a dependency is not ready": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, pinTo(5), blocked), fleetMember("b", 0, 7, ready)},
			want:     "a: Update Pin 5 pinned", phase: PhaseComplete,
		},
		"it holds no rollout": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6)), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"its failure counts for no budget": {
			strategy: Strategy{Budgeted: true, MaxFailures: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, failed, pinTo(7)), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"a wave in which all Clusters are pinned passes": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6)), fleetMember("b", 1, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready", check: wantPassed("canary"),
		},
		"a rollout without another Cluster does not complete": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, pinTo(6))},
			waitingFor: "a Cluster that is not pinned",
		},
		"a rollback leaves it alone": {
			state:    State{Phase: PhaseRolledBack},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, pinTo(7)), fleetMember("b", 0, 7, ready)},
			want:     "b: Update Good 6 returned", phase: PhaseRolledBack,
			waitingFor: "1 Cluster to be ready with HelmOp revision 6",
		},
		"a change of the Cluster itself is applied under its revision": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6), moved), fleetMember("b", 0, 7, ready)},
			want:     "a: Update Own 6", phase: PhaseComplete,
		},
		"without an approval it is not": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6), moved, ownUnapproved),
				fleetMember("b", 0, 7, ready)},
			phase: PhaseComplete,
			check: func(t *testing.T, result Result) {
				if result.Steps[0].Unapproved {
					t.Error("the approval that the step waits for can be given to no digest")
				}
			},
		},
		"a pin that cannot be carried out keeps it where it is": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, refusedPin), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"a pin to a release of another name, too": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, func(c *Cluster) {
				c.Pin = &Pin{Revision: 5, Release: &Release{Identity: "ns/b", Content: "5"}}
			}), fleetMember("b", 0, 7, ready)},
			phase: PhaseComplete,
		},
		"a change of its name deletes no release": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6), func(c *Cluster) {
				c.Own = &Release{Identity: "ns/b", Content: "6"}
			}), fleetMember("b", 0, 7, ready)},
			phase: PhaseComplete,
		},
		"it stays while it is paused": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, pinTo(5), paused), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"it holds no rollout while it is paused": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6), paused),
				fleetMember("b", 0, 6, ready, pinTo(6), paused), fleetMember("c", 0, 7, ready)},
			phase: PhaseComplete,
		},
		"it is deleted when it is no longer selected": {
			clusters: []Cluster{fleetMember("a", 0, 6, ready, pinTo(6), func(c *Cluster) { c.Selected = false }),
				fleetMember("b", 0, 7, ready)},
			want: "a: Delete", phase: PhaseComplete,
		},
		"after the pin it is outdated like any other": {
			strategy:   one,
			clusters:   []Cluster{fleetMember("a", 0, 5, ready), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}
