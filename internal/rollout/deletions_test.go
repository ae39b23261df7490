// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

func unselected(c *Cluster) { c.Selected, c.Target, c.Good, c.Own = false, nil, nil, nil }
func away(c *Cluster)       { c.Child.Deleting, c.Child.UnreachableAtDeletion = true, true }

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
		"without limits all are deleted": {clusters: []Cluster{leaving("a"), leaving("b")}, want: "a: Delete, b: Delete"},
		"a limit paces deletions": {strategy: one, clusters: []Cluster{leaving("a"), leaving("b")},
			want: "a: Delete", waiting: 1},
		"a running deletion takes the slot": {strategy: one, clusters: []Cluster{leaving("a", ending), leaving("b")},
			waiting: 1},
		"a failing deletion takes the slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, failed, ending, unselected), leaving("b")}, waiting: 1,
		},
		"a Cluster that became unreachable takes the slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, ending, unselected), leaving("b")}, waiting: 1,
		},
		"a Cluster that was unreachable before takes no slot": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, away, unselected), leaving("b")},
			want: "b: Delete",
		},
		"a deletion without a replacement takes no slot while its selected Cluster is unreachable": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, ending), leaving("b")}, want: "b: Delete",
		},
		"a replacement takes the slot while its Cluster is unreachable": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, replaced), leaving("b")}, waiting: 1,
		},
		"unreachable Clusters come last": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, silent, unselected), leaving("b")}, want: "b: Delete",
			waiting: 1,
		},
		"a paused rollout holds deletions": {
			strategy: Strategy{Paused: true}, clusters: []Cluster{leaving("a"), leaving("b")}, waiting: 2,
		},
		"a missing confirmation holds deletions": {held: true, clusters: []Cluster{leaving("a"), leaving("b")}, waiting: 2},
		"a Cluster that does not exist does not wait": {
			strategy: Strategy{Paused: true, MaxUnavailable: Limit{Count: 1}}, held: true,
			clusters: []Cluster{leaving("a", func(c *Cluster) { c.Gone = true }), leaving("b", ending),
				leaving("c", func(c *Cluster) { c.Gone = true })},
			want: "a: Delete, c: Delete",
		},
		"a Cluster under deletion takes its release along": {
			strategy: one, clusters: []Cluster{leaving("a", ending, func(c *Cluster) { c.Deleting = true }), leaving("b")},
			want: "b: Delete",
		},
		"a paused Cluster keeps its release and takes no slot": {
			strategy: one, clusters: []Cluster{leaving("a", ending, paused), leaving("b"), leaving("c", paused)},
			want: "b: Delete",
		},
		"the first wave is first, within its own limit": {
			strategy: Strategy{Waves: []Wave{{Name: "canary", MaxUnavailable: Limit{Count: 1}}},
				MaxUnavailable: Limit{Count: 2}},
			clusters: []Cluster{
				leaving("a", func(c *Cluster) { c.Wave = 1 }), leaving("b", func(c *Cluster) { c.Wave = 1 }), leaving("c"),
				leaving("d"),
			},
			want: "a: Delete, c: Delete", waiting: 2,
		},
		"a different release name of changed Clusters is paced": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, ready, renamed), fleetMember("b", 0, 7, ready, renamed),
				fleetMember("c", 0, 7, ready)},
			want: "a: Replace",
		},
		"a different release name of new Clusters is paced": {
			strategy: one,
			clusters: []Cluster{fleetMember("a", 0, 7, ready, joined, renamed), fleetMember("b", 0, 7, ready, joined, renamed),
				fleetMember("c", 0, 7, ready)},
			want: "a: Replace",
		},
		"a replacement waits for a Cluster in flight": {
			strategy: one, clusters: []Cluster{fleetMember("a", 0, 7, ready, renamed),
				fleetMember("b", 0, 7, HealthProgressing)},
		},
		"a replacement waits for an unreachable Cluster": {clusters: []Cluster{fleetMember("a", 0, 7, silent, renamed),
			fleetMember("b", 0, 7, ready)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := Plan(Input{
				Strategy: tc.strategy, State: State{Revision: 7, Good: 6}, Clusters: tc.clusters, Now: testNow,
				DeletionsHeld: tc.held,
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
