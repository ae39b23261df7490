// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

const (
	ready       = HealthReady
	failed      = HealthFailed
	unreachable = HealthUnreachable
	onItsWay    = HealthProgressing
)

func TestPlanLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]planTest{
		"without a strategy all are told at once": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, failed)},
			want:       "a: Update Target 7, b: Update Target 7 failedBefore",
			waitingFor: "2 of 2 Clusters to be ready",
			check:      wantProgress(2, 0, 2, 0),
		},
		"a limit bounds those on their way": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}},
			clusters: []Cluster{
				fleetMember("a", 0, 7, onItsWay), fleetMember("b", 0, 6, ready), fleetMember("c", 0, 6, ready),
				fleetMember("d", 0, 7, ready),
			},
			want:       "b: Update Target 7",
			waitingFor: "3 of 4 Clusters to be ready",
			check:      wantProgress(3, 1, 2, 0),
		},
		"a percentage is one of the selected, rounded down": {
			strategy: Strategy{MaxUnavailable: Limit{Percent: 50}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready),
				fleetMember("c", 0, 6, unreachable), fleetMember("d", 0, 6, unreachable), fleetMember("e", 0, 6, unreachable),
			},
			want:       "a: Update Target 7, b: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"a percentage is at least one": {
			strategy:   Strategy{MaxUnavailable: Limit{Percent: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"a limit that was lowered tells nobody until enough are done": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 0, 7, onItsWay), fleetMember("c", 0, 6, ready)},
			waitingFor: "3 of 3 Clusters to be ready",
		},
		"the failed hold no place": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 2 Clusters to be ready",
			check:      wantProgress(2, 0, 1, 1),
		},
		"the unreachable hold no place and are not told": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, unreachable, joined), fleetMember("b", 0, 6, unreachable), fleetMember("c", 0, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantProgress(2, 0, 1, 0),
		},
		"the blocked hold no place and are not told": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, blocked), fleetMember("b", 0, 6, ready, blocked), fleetMember("c", 0, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"what is ending to be replaced holds a place": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 6, onItsWay, renamed, ending), fleetMember("b", 0, 6, ready, renamed)},
			waitingFor: "2 of 2 Clusters to be ready",
			check:      wantProgress(0, 0, 1, 0),
		},
		"what cannot end holds no place, and is no failure of the revision": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, failed, renamed, ending), fleetMember("c", 0, 6, ready, renamed),
			},
			want:       "c: Replace",
			waitingFor: "1 of 2 Clusters to be ready",
		},
		"what was replaced is served at once, counts and holds a place": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, -1, onItsWay, renamed), fleetMember("b", 0, 6, ready, renamed)},
			want:       "a: Create Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
			check:      wantProgress(1, 0, 1, 0),
		},
		"what is new is served at once and holds no place": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{
				fleetMember("a", 0, -1, onItsWay, stranger), fleetMember("b", 0, 7, onItsWay, joined), fleetMember("c", 0, 6, ready),
			},
			want:       "a: Create Target 7 joined, c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantProgress(3, 0, 3, 0),
		},
		"soaking holds a place": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}, Soak: 5 * time.Minute},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, readyFor(2*time.Minute)), fleetMember("b", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready for 5m0s",
			requeue:    3 * time.Minute,
		},
		"the first to have soaked wakes the plan": {
			strategy: Strategy{Soak: 5 * time.Minute},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, readyFor(time.Minute)), fleetMember("b", 0, 7, ready, readyFor(3*time.Minute)),
				fleetMember("c", 0, 7, ready, readyFor(2*time.Minute)),
			},
			waitingFor: "3 of 3 Clusters to be ready for 5m0s",
			requeue:    2 * time.Minute,
		},
		"soaked to the second": {
			strategy: Strategy{Soak: 5 * time.Minute},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, readyFor(5*time.Minute))},
			phase:    PhaseComplete,
			check:    wantProgress(1, 1, 0, 0),
		},
		"ready since nobody knows when has yet to soak": {
			strategy:   Strategy{Soak: 5 * time.Minute},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, func(c *Cluster) { c.ReadySince = time.Time{} })},
			waitingFor: "1 of 1 Cluster to be ready for 5m0s",
			requeue:    5 * time.Minute,
		},
		"nobody is told while it is paused": {
			strategy:   Strategy{Paused: true},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 7, ready)},
			waitingFor: "the end of the pause: 1 Cluster has another revision",
			check:      wantProgress(1, 1, 0, 0),
		},
		"a wave that is none is none": {
			clusters:   []Cluster{fleetMember("a", 9, 6, ready), fleetMember("b", -3, 6, ready)},
			want:       "a: Update Target 7, b: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestPlanWaves(t *testing.T) {
	t.Parallel()
	three := Strategy{Waves: []Wave{{Name: "canary"}, {Name: "early", Manual: true}, {Name: "late"}}}
	for name, tc := range map[string]planTest{
		"the first wave is first": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 1, 6, ready), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster of wave canary to be ready",
			check: wantPassed(""),
		},
		"a wave waits for all of the one before, for their soak time": {
			strategy: canary(Wave{Soak: time.Hour}),
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, ready, readyFor(59*time.Minute)), fleetMember("c", 1, 6, ready),
			},
			waitingFor: "1 of 2 Clusters of wave canary to be ready for 1h0m0s", requeue: time.Minute,
		},
		"a wave begins when the one before is done, which is remembered": {
			strategy: canary(Wave{Soak: time.Hour}),
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready), fleetMember("c", 1, 6, ready)},
			want:     "b: Update Target 7, c: Update Target 7", waitingFor: "2 of 2 Clusters in no wave to be ready",
			check: wantPassed("canary"),
		},
		"a wave that is left behind holds nobody": {
			strategy: canary(Wave{Soak: time.Hour}), state: State{Passed: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 0, 6, ready), fleetMember("c", 1, 6, ready)},
			want:     "b: Update Target 7, c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a wave that was left behind and is no wave any more begins anew": {
			strategy: canary(Wave{}), state: State{Passed: "pilots"},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 1, 6, ready)}, waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"what is left of earlier waves is waited for in the end": {
			strategy: canary(Wave{Soak: time.Hour}), state: State{Passed: "canary"},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 1, 7, ready)},
			waitingFor: "1 Cluster of earlier waves to be ready",
		},
		"a wave has its own limit": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 3}, Waves: []Wave{{Name: "canary", MaxUnavailable: Limit{Percent: 50}}}},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready), fleetMember("c", 1, 6, ready)},
			want:     "a: Update Target 7", waitingFor: "2 of 2 Clusters of wave canary to be ready",
		},
		"and cannot have more than all have": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary", MaxUnavailable: Limit{Count: 2}}}},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Target 7", waitingFor: "2 of 2 Clusters of wave canary to be ready",
		},
		"the earlier wave has the first call on the limit": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: State{Passed: "canary"},
			clusters: []Cluster{fleetMember("a", 1, 6, ready), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"the unreachable hold no wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable), fleetMember("b", 0, 7, unreachable, joined), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
			check: wantPassed("canary"),
		},
		"no wave is left behind while nobody of a later one is told": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, unreachable), fleetMember("b", 1, 6, unreachable)},
			waitingFor: "Clusters that cannot be told now: 2 do not answer, 0 wait for HelmOps that come first, 0 are paused",
			check:      wantPassed(""),
		},
		"the blocked hold their wave if nobody of it is done": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, blocked), fleetMember("b", 1, 6, ready)},
			waitingFor: "HelmOps that come first, in 1 Cluster of wave canary", promote: "canary",
		},
		"the blocked do not hold a wave that has proven itself": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, blocked), fleetMember("b", 0, 7, ready), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"what is done stays done though what comes first is not ready any more": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, ready, blocked), fleetMember("b", 1, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a wave of nobody but new ones holds nobody": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, joined), fleetMember("b", 1, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a wave of which all failed holds the next": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed, excused), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready: 2 Clusters failed",
		},
		"unless somebody promotes it": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"or has asked to continue": {
			strategy: canary(Wave{}), requests: Requests{Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"or some of it are done": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"what was acknowledged in one wave opens no other": {
			strategy: three, state: State{Acknowledged: 1}, requests: Requests{Promoted: "early"},
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 7, failed, excused), fleetMember("d", 3, 6, ready),
			},
			promote: "late", waitingFor: "a Cluster of wave late to be ready: 1 Cluster failed",
		},
		"nor does it once there are more": {
			strategy: canary(Wave{}), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready: 2 Clusters failed",
		},
		"a manual wave is done and waits": {
			strategy: three,
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			promote:  "early", waitingFor: "the promotion of wave early",
			check: wantProgress(2, 2, 0, 0),
		},
		"a promotion opens it": {
			strategy: three, requests: Requests{Promoted: "early"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster of wave late to be ready",
		},
		"that of a later wave opens it, too": {
			strategy: three, requests: Requests{Promoted: "late"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster of wave late to be ready",
		},
		"that of an earlier one does not": {
			strategy: three, requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			promote:  "early", waitingFor: "the promotion of wave early",
		},
		"that of a wave on its way waits for it": {
			strategy: three, requests: Requests{Promoted: "early"},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, onItsWay), fleetMember("c", 2, 6, ready)},
			waitingFor: "1 of 1 Cluster of wave early to be ready",
		},
		"what is the same under both revisions is told at once, whatever holds": {
			strategy: Strategy{Paused: true, Waves: []Wave{{Name: "canary"}}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready), fleetMember("b", 1, 6, ready, sameAsOwn), fleetMember("c", 1, 6, unreachable, sameAsOwn),
				fleetMember("d", 1, 6, failed, sameAsOwn),
			},
			want:       "b: Update Target 7, c: Update Target 7, d: Update Target 7 failedBefore",
			waitingFor: "the end of the pause: 1 Cluster has another revision",
			check:      wantProgress(3, 1, 0, 0),
		},
		"what is the same, of a Cluster that itself changed, is told at once": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{fleetMember("a", 0, 6, ready, sameAsOwn, moved), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Target 7", waitingFor: "the end of the pause: 1 Cluster has another revision",
		},
		"another name of the release waits its turn, whatever else is the same": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready, func(c *Cluster) { c.Target = &Release{Identity: "ns/b", Content: "6"} }),
				fleetMember("b", 0, 6, ready, func(c *Cluster) { c.Target = &Release{Identity: "ns/b", Content: "6"} }),
			},
			want: "a: Replace", waitingFor: "2 of 2 Clusters to be ready",
		},
		"another name of the release of a Cluster that itself changed does not": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, renamed),
				fleetMember("b", 0, 6, ready, func(c *Cluster) { c.Own = &Release{Identity: "ns/b", Content: "6"} }),
			},
			want: "a: Replace, b: Replace", waitingFor: "2 of 2 Clusters to be ready",
		},
		"what shapes nothing is told at once and disturbs nobody": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, func(c *Cluster) { c.Target.Rest = "orphan" }), fleetMember("b", 0, 6, ready, func(c *Cluster) { c.Own.Rest = "orphan" }),
			},
			want: "a: Update Target 7, b: Update Own 6", waitingFor: "the end of the pause: 1 Cluster has another revision",
			check: wantProgress(1, 1, 0, 0),
		},
		"a Cluster that itself changed keeps how it came to its revision": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, joined, excused, moved)},
			want:     "a: Update Target 7 joined failedBefore", waitingFor: "1 Cluster to be ready",
		},
		"no wave is left behind while the limit keeps the later ones": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, onItsWay), fleetMember("c", 1, 6, ready)},
			waitingFor: "2 of 2 Clusters in no wave to be ready", check: wantPassed(""),
		},
	} {
		t.Run(name, tc.run)
	}
}
