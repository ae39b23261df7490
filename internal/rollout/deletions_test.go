// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

func unselected(c *Cluster) { c.Selected, c.Target, c.Good, c.Own = false, nil, nil, nil }
func away(c *Cluster)       { c.Child.Deleting, c.Child.Away = true, true }

func TestPlanDeletions(t *testing.T) {
	t.Parallel()
	const ready, silent, failed = HealthReady, HealthUnreachable, HealthFailed
	one := Strategy{MaxUnavailable: Limit{Count: 1}}
	leaving := func(name string, changes ...func(*Cluster)) Cluster {
		return fleetMember(name, 0, 7, ready, append(changes, unselected)...)
	}
	for name, tc := range map[string]struct {
		strategy Strategy
		held     bool
		clusters []Cluster
		want     string
		waiting  int
	}{
		"without limits all go":         {clusters: []Cluster{leaving("a"), leaving("b")}, want: "a: Delete, b: Delete"},
		"a limit paces them":            {strategy: one, clusters: []Cluster{leaving("a"), leaving("b")}, want: "a: Delete", waiting: 1},
		"one under way holds the place": {strategy: one, clusters: []Cluster{leaving("a", ending), leaving("b")}, waiting: 1},
		"one that fails holds the place": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, failed, ending, unselected), leaving("b")}, waiting: 1,
		},
		"one that ceased to answer holds the place": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, ending, unselected), leaving("b")}, waiting: 1,
		},
		"one that did not answer before does not": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, away, unselected), leaving("b")}, want: "b: Delete",
		},
		"those that do not answer come last": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, unselected), leaving("b")}, want: "b: Delete", waiting: 1,
		},
		"a paused rollout holds them": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{leaving("a"), leaving("b")}, waiting: 2,
		},
		"a missing confirmation holds them": {held: true, clusters: []Cluster{leaving("a"), leaving("b")}, waiting: 2},
		"a Cluster that is gone waits for nothing": {
			strategy: Strategy{Paused: true, MaxUnavailable: Limit{Count: 1}}, held: true,
			clusters: []Cluster{leaving("a", func(c *Cluster) { c.Gone = true }), leaving("b", ending), leaving("c", func(c *Cluster) { c.Gone = true })},
			want:     "a: Delete, c: Delete",
		},
		"a Cluster under deletion takes its release along": {
			strategy: one, clusters: []Cluster{leaving("a", ending, func(c *Cluster) { c.Deleting = true }), leaving("b")}, want: "b: Delete",
		},
		"a paused Cluster keeps its release and holds no place": {
			strategy: one, clusters: []Cluster{leaving("a", ending, paused), leaving("b"), leaving("c", paused)}, want: "b: Delete",
		},
		"the first wave goes first, within its own limit": {
			strategy: Strategy{Waves: []Wave{{Name: "canary", MaxUnavailable: Limit{Count: 1}}}, MaxUnavailable: Limit{Count: 2}},
			clusters: []Cluster{
				leaving("a", func(c *Cluster) { c.Wave = 1 }), leaving("b", func(c *Cluster) { c.Wave = 1 }), leaving("c"), leaving("d"),
			},
			want: "a: Delete, c: Delete", waiting: 2,
		},
		"another name of the release of Clusters that changed themselves is paced": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, ready, renamed), fleetMember("b", 0, 7, ready, renamed), fleetMember("c", 0, 7, ready)},
			want:     "a: Replace",
		},
		"and of new Clusters": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, ready, joined, renamed), fleetMember("b", 0, 7, ready, joined, renamed), fleetMember("c", 0, 7, ready)},
			want:     "a: Replace",
		},
		"and waits for one that is on its way": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, ready, renamed), fleetMember("b", 0, 7, HealthProgressing)},
		},
		"and for one that does not answer": {clusters: []Cluster{fleetMember("a", 0, 7, silent, renamed), fleetMember("b", 0, 7, ready)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := Plan(Input{
				Strategy: tc.strategy, State: State{Revision: 7, Good: 6}, Clusters: tc.clusters, Now: testNow, DeletionsHeld: tc.held,
			})
			if got := stepsOf(result); got != tc.want {
				t.Errorf("steps %q, want %q", got, tc.want)
			}
			if got := result.Progress.DeletionsWaiting; got != tc.waiting {
				t.Errorf("%d deletions wait, want %d", got, tc.waiting)
			}
		})
	}
}
