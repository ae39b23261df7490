// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// recreated replaces a Cluster by a new Cluster with the same name, which still has the child of the former Cluster.
func recreated(c *Cluster) {
	c.Child.OfFormerCluster, c.Child.Joined, c.Known = true, true, false
}

func unread(c *Cluster) { c.Child.Unread = true }

// TestPlanRecreated checks that a re-created Cluster is treated like a new Cluster, although it has the child of the
// former Cluster.
func TestPlanRecreated(t *testing.T) {
	t.Parallel()
	one := Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}}
	for name, tc := range map[string]planTest{
		"it gets the current revision at once, and takes no slot": {
			strategy:   one,
			clusters:   []Cluster{fleetMember("a", 0, 6, "", recreated), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Target 7 joined, b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"its failure counts for no budget": {
			strategy:   one,
			clusters:   []Cluster{fleetMember("a", 0, 7, failed, recreated), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Target 7 joined, b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"with the last known good revision already, it joins before its wave": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 1, 6, "", recreated), fleetMember("b", 0, 7, "")},
			want:       "a: Update Good 6 joined",
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"after a rollback, it joins with the last known good revision": {
			state:    State{Phase: PhaseRolledBack},
			clusters: []Cluster{fleetMember("a", 0, 7, "", recreated)},
			want:     "a: Update Good 6 joined", phase: PhaseRolledBack,
		},
		"a release with another name is replaced": {
			clusters:   []Cluster{fleetMember("a", 0, 6, "", recreated, renamed)},
			want:       "a: Replace",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"a release with another name is kept until it is read": {
			clusters:   []Cluster{fleetMember("a", 0, 6, "", recreated, renamed, unread), fleetMember("b", 0, 7, "")},
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantProgress(1, 0, 1, 0),
		},
		"a change of the name by the Cluster itself waits until the release is read, too": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, unknown, noGood, unread, func(c *Cluster) {
				c.Own = &Release{Identity: "ns/b", Content: "6"}
			}), fleetMember("b", 0, 7, "")},
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"its replacement waits for maintenance": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, renamed, func(c *Cluster) {
				c.Defers = Deferral{Changes: true}
			}), fleetMember("b", 0, 7, "")},
			waitingFor: "1 of 1 Cluster to be ready",
			check: func(t *testing.T, result Result) {
				if !result.Steps[0].Deferred || result.Progress.InFlight != 1 {
					t.Errorf("step %+v, %d in flight", result.Steps[0], result.Progress.InFlight)
				}
			},
		},
		"its first installation does not wait for maintenance": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, func(c *Cluster) {
				c.Defers = Deferral{Changes: true}
			}), fleetMember("b", 0, 7, "")},
			want:       "a: Update Target 7 joined",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"while its release is unknown, it keeps its revision": {
			clusters:   []Cluster{fleetMember("a", 0, 6, "", recreated, unknown, noGood), fleetMember("b", 0, 7, "")},
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"while its release under a complete revision is unknown, it keeps its revision": {
			state:    State{Phase: PhaseComplete},
			clusters: []Cluster{fleetMember("a", 0, 7, "", recreated, unknown), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"a change of the Cluster itself makes it join, too": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, unknown, noGood, func(c *Cluster) {
				c.Own = &Release{Identity: "ns/a", Content: "6 moved"}
			}), fleetMember("b", 0, 7, "")},
			want:       "a: Update Own 6 joined",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"its installation may wait for maintenance": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, func(c *Cluster) {
				c.Defers = Deferral{Changes: true, Installations: true}
			}), fleetMember("b", 0, 7, "")},
			waitingFor: "1 of 1 Cluster to be ready",
			check: func(t *testing.T, result Result) {
				if !result.Steps[0].Deferred {
					t.Errorf("step %+v", result.Steps[0])
				}
			},
		},
		"while it is paused, it does not count as outdated": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, paused), fleetMember("b", 0, 7, ready)},
			phase:    PhaseComplete,
		},
		"a pin for the new Cluster comes first": {
			clusters: []Cluster{fleetMember("a", 0, 6, "", recreated, pinTo(5)), fleetMember("b", 0, 7, ready)},
			want:     "a: Update Pin 5 pinned", phase: PhaseComplete,
		},
	} {
		t.Run(name, tc.run)
	}
}
