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
		"without a strategy all Clusters are updated at once": {
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, failed)},
			want:       "a: Update Target 7, b: Update Target 7 failedBefore",
			waitingFor: "2 of 2 Clusters to be ready",
			check:      wantProgress(2, 0, 2, 0),
		},
		"maxUnavailable limits the Clusters in flight": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 2}},
			clusters: []Cluster{
				fleetMember("a", 0, 7, onItsWay), fleetMember("b", 0, 6, ready), fleetMember("c", 0, 6, ready),
				fleetMember("d", 0, 7, ready),
			},
			want:       "b: Update Target 7",
			waitingFor: "3 of 4 Clusters to be ready",
			check:      wantProgress(3, 1, 2, 0),
		},
		"a percentage refers to the selected Clusters, rounded down": {
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
		"a lowered limit updates none until enough are done": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 0, 7, onItsWay),
				fleetMember("c", 0, 6, ready)},
			waitingFor: "3 of 3 Clusters to be ready",
		},
		"failed Clusters take no slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 6, ready)},
			want:       "b: Update Target 7",
			waitingFor: "1 of 2 Clusters to be ready",
			check:      wantProgress(2, 0, 1, 1),
		},
		"a failed Cluster takes a slot during its next attempt": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, failed, retrying), fleetMember("b", 0, 7, failed, excused),
				fleetMember("c", 0, 6, ready)},
			waitingFor: "1 of 3 Clusters to be ready",
			check:      wantProgress(2, 0, 0, 1),
		},
		"a failed Cluster in its next attempt does not delay its wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, failed, retrying), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"unreachable Clusters take no slot and are not updated": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, unreachable, joined), fleetMember("b", 0, 6, unreachable),
				fleetMember("c", 0, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantProgress(2, 0, 1, 0),
		},
		"blocked Clusters take no slot and are not updated": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, blocked, awaiting), fleetMember("b", 0, 6, ready, blocked),
				fleetMember("c", 0, 6, ready)},
			want:       "c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"an update goes on and takes a slot when a dependency becomes unready": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, blocked), fleetMember("b", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"it takes a slot when the Cluster itself changes, too": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, blocked, moved), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"a changed Cluster that waits for a dependency takes no slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, blocked, moved), fleetMember("b", 0, 6, ready)},
			want:       "a: Update Target 7, b: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
		},
		"when the dependency is ready, a release that still says that it waits is in flight": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay, awaiting), fleetMember("b", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready",
		},
		"a deletion for a replacement takes a slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, 6, onItsWay, renamed, replaced), fleetMember("b", 0, 6, ready, renamed)},
			waitingFor: "2 of 2 Clusters to be ready",
			check:      wantProgress(0, 0, 1, 0),
		},
		"a failing deletion takes no slot and is not a failure of the revision": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Budgeted: true, MaxFailures: Limit{Count: 1}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, failed, renamed, replaced), fleetMember("c", 0, 6, ready, renamed),
			},
			want:       "c: Replace",
			waitingFor: "1 of 2 Clusters to be ready",
		},
		"a replaced release is installed at once, counts and takes a slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters:   []Cluster{fleetMember("a", 0, -1, onItsWay, renamed), fleetMember("b", 0, 6, ready, renamed)},
			want:       "a: Create Target 7",
			waitingFor: "2 of 2 Clusters to be ready",
			check:      wantProgress(1, 0, 1, 0),
		},
		"a new Cluster is served at once and takes no slot": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{
				fleetMember("a", 0, -1, onItsWay, stranger), fleetMember("b", 0, 7, onItsWay, joined),
				fleetMember("c", 0, 6, ready),
			},
			want:       "a: Create Target 7 joined, c: Update Target 7",
			waitingFor: "1 of 1 Cluster to be ready",
			check:      wantProgress(3, 0, 3, 0),
		},
		"a Cluster within its soak time takes a slot": {
			strategy:   Strategy{MaxUnavailable: Limit{Count: 1}, Soak: 5 * time.Minute},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, readyFor(2*time.Minute)), fleetMember("b", 0, 6, ready)},
			waitingFor: "2 of 2 Clusters to be ready for 5m0s",
			requeue:    3 * time.Minute,
		},
		"the plan is repeated when the first soak time ends": {
			strategy: Strategy{Soak: 5 * time.Minute},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, readyFor(time.Minute)), fleetMember("b", 0, 7, ready, readyFor(3*time.Minute)),
				fleetMember("c", 0, 7, ready, readyFor(2*time.Minute)),
			},
			waitingFor: "3 of 3 Clusters to be ready for 5m0s",
			requeue:    2 * time.Minute,
		},
		"a soak time ends to the second": {
			strategy: Strategy{Soak: 5 * time.Minute},
			clusters: []Cluster{fleetMember("a", 0, 7, ready, readyFor(5*time.Minute))},
			phase:    PhaseComplete,
			check:    wantProgress(1, 1, 0, 0),
		},
		"an unknown ready time has not passed the soak time": {
			strategy:   Strategy{Soak: 5 * time.Minute},
			clusters:   []Cluster{fleetMember("a", 0, 7, ready, func(c *Cluster) { c.ReadySince = time.Time{} })},
			waitingFor: "1 of 1 Cluster to be ready for 5m0s",
			requeue:    5 * time.Minute,
		},
		"no Cluster is updated while paused": {
			strategy:   Strategy{Paused: true},
			clusters:   []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 7, ready)},
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
			check:      wantProgress(1, 1, 0, 0),
		},
		"an unknown wave counts as no wave": {
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
		"the first wave is updated first": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 1, 6, ready), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster of wave canary to be ready",
			check: wantPassed(""),
		},
		"a wave waits for the soak time of the wave before": {
			strategy: canary(Wave{Soak: time.Hour}),
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready), fleetMember("b", 0, 7, ready, readyFor(59*time.Minute)),
				fleetMember("c", 1, 6, ready),
			},
			waitingFor: "1 of 2 Clusters of wave canary to be ready for 1h0m0s", requeue: time.Minute,
		},
		"a wave begins when the one before is done, and that is stored": {
			strategy: canary(Wave{Soak: time.Hour}),
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 6, ready), fleetMember("c", 1, 6, ready)},
			want:     "b: Update Target 7, c: Update Target 7", waitingFor: "2 of 2 Clusters in no wave to be ready",
			check: wantPassed("canary"),
		},
		"a wave that was left behind holds no later wave": {
			strategy: canary(Wave{Soak: time.Hour}), state: State{Passed: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 0, 6, ready), fleetMember("c", 1, 6, ready)},
			want:     "b: Update Target 7, c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a stored wave that no longer exists restarts the waves": {
			strategy: canary(Wave{}), state: State{Passed: "pilots"},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 1, 6, ready)},
			waitingFor: "1 of 1 Cluster of wave canary to be ready",
		},
		"completion waits for the rest of earlier waves": {
			strategy: canary(Wave{Soak: time.Hour}), state: State{Passed: "canary"},
			clusters:   []Cluster{fleetMember("a", 0, 7, onItsWay), fleetMember("b", 1, 7, ready)},
			waitingFor: "1 Cluster of earlier waves to be ready",
		},
		"a wave has its own limit": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 3},
				Waves: []Wave{{Name: "canary", MaxUnavailable: Limit{Percent: 50}}}},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready), fleetMember("c", 1, 6, ready)},
			want:     "a: Update Target 7", waitingFor: "2 of 2 Clusters of wave canary to be ready",
		},
		"the total limit applies as well": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1},
				Waves: []Wave{{Name: "canary", MaxUnavailable: Limit{Count: 2}}}},
			clusters: []Cluster{fleetMember("a", 0, 6, ready), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Target 7", waitingFor: "2 of 2 Clusters of wave canary to be ready",
		},
		"the earlier wave gets the slots first": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}}, state: State{Passed: "canary"},
			clusters: []Cluster{fleetMember("a", 1, 6, ready), fleetMember("b", 0, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"unreachable Clusters do not hold a wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, unreachable), fleetMember("b", 0, 7, unreachable, joined),
				fleetMember("c", 1, 6, ready)},
			want: "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
			check: wantPassed("canary"),
		},
		"no wave is left behind before a Cluster of a later wave is updated": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, unreachable), fleetMember("b", 1, 6, unreachable)},
			waitingFor: "Clusters that cannot be updated now: 2 unreachable, 0 waiting for dependencies, 0 paused",
			check:      wantPassed(""),
		},
		"blocked Clusters hold their wave if no Cluster is done": {
			strategy:   canary(Wave{}),
			clusters:   []Cluster{fleetMember("a", 0, 6, ready, blocked), fleetMember("b", 1, 6, ready)},
			waitingFor: "the dependencies in 1 Cluster of wave canary", promote: "canary",
		},
		"an update goes on and holds its wave when a dependency becomes unready": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, blocked), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			waitingFor: "1 of 2 Clusters of wave canary to be ready",
		},
		"blocked Clusters do not hold a proven wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 6, ready, blocked), fleetMember("b", 0, 7, ready),
				fleetMember("c", 1, 6, ready)},
			want: "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a done Cluster stays done when a dependency becomes unready": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, ready, blocked), fleetMember("b", 1, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a wave of new Clusters only holds no later wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, onItsWay, joined), fleetMember("b", 1, 6, ready)},
			want:     "b: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a wave of failed Clusters only holds the next wave": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed, excused),
				fleetMember("c", 1, 6, ready)},
			promote: "canary", waitingFor: "a Cluster of wave canary to be ready: 2 Clusters failed",
		},
		"a promotion opens the next wave after failures": {
			strategy: canary(Wave{}), requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"acknowledged failures open the next wave": {
			strategy: canary(Wave{}), requests: Requests{Continue: true},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"a done Cluster opens the next wave despite failures": {
			strategy: canary(Wave{}),
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, ready), fleetMember("c", 1, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster in no wave to be ready",
		},
		"failures acknowledged in one wave open no other wave": {
			strategy: three, state: State{Acknowledged: 1}, requests: Requests{Promoted: "early"},
			clusters: []Cluster{
				fleetMember("a", 0, 7, failed), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 7, failed, excused),
				fleetMember("d", 3, 6, ready),
			},
			promote: "late", waitingFor: "a Cluster of wave late to be ready: 1 Cluster failed",
		},
		"more failures than acknowledged open no wave": {
			strategy: canary(Wave{}), state: State{Acknowledged: 1},
			clusters: []Cluster{fleetMember("a", 0, 7, failed), fleetMember("b", 0, 7, failed), fleetMember("c", 1, 6, ready)},
			promote:  "canary", waitingFor: "a Cluster of wave canary to be ready: 2 Clusters failed",
		},
		"a manual wave waits after it is done": {
			strategy: three,
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			promote:  "early", waitingFor: "the promotion of wave early",
			check: wantProgress(2, 2, 0, 0),
		},
		"a promotion opens a manual wave": {
			strategy: three, requests: Requests{Promoted: "early"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster of wave late to be ready",
		},
		"the promotion of a later wave opens it": {
			strategy: three, requests: Requests{Promoted: "late"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			want:     "c: Update Target 7", waitingFor: "1 of 1 Cluster of wave late to be ready",
		},
		"the promotion of an earlier wave does not open it": {
			strategy: three, requests: Requests{Promoted: "canary"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, ready), fleetMember("c", 2, 6, ready)},
			promote:  "early", waitingFor: "the promotion of wave early",
		},
		"a promotion does not open an unfinished wave": {
			strategy: three, requests: Requests{Promoted: "early"},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, onItsWay),
				fleetMember("c", 2, 6, ready)},
			waitingFor: "1 of 1 Cluster of wave early to be ready",
		},
		"identical content is updated at once, even if paused": {
			strategy: Strategy{Paused: true, Waves: []Wave{{Name: "canary"}}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready), fleetMember("b", 1, 6, ready, sameAsOwn),
				fleetMember("c", 1, 6, unreachable, sameAsOwn),
				fleetMember("d", 1, 6, failed, sameAsOwn),
			},
			want:       "b: Update Target 7, c: Update Target 7, d: Update Target 7 failedBefore",
			waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
			check:      wantProgress(3, 1, 0, 0),
		},
		"identical content of a changed Cluster is updated at once": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{fleetMember("a", 0, 6, ready, sameAsOwn, moved), fleetMember("b", 0, 6, ready)},
			want:     "a: Update Target 7", waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
		},
		"a different release name waits for its turn, even with identical content": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}},
			clusters: []Cluster{
				fleetMember("a", 0, 6, ready, func(c *Cluster) { c.Target = &Release{Identity: "ns/b", Content: "6"} }),
				fleetMember("b", 0, 6, ready, func(c *Cluster) { c.Target = &Release{Identity: "ns/b", Content: "6"} }),
			},
			want: "a: Replace", waitingFor: "2 of 2 Clusters to be ready",
		},
		"a different release name of a changed Cluster does not wait": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, renamed),
				fleetMember("b", 0, 6, ready, func(c *Cluster) { c.Own = &Release{Identity: "ns/b", Content: "6"} }),
			},
			want: "a: Replace, b: Replace", waitingFor: "2 of 2 Clusters to be ready",
		},
		"fields without effect are updated at once": {
			strategy: Strategy{Paused: true},
			clusters: []Cluster{
				fleetMember("a", 0, 7, ready, func(c *Cluster) { c.Target.Rest = "orphan" }),
				fleetMember("b", 0, 6, ready, func(c *Cluster) { c.Own.Rest = "orphan" }),
			},
			want: "a: Update Target 7, b: Update Own 6", waitingFor: "spec.rollout.paused to be unset: 1 Cluster is outdated",
			check: wantProgress(1, 1, 0, 0),
		},
		"a changed Cluster keeps Joined and FailedBefore": {
			clusters: []Cluster{fleetMember("a", 0, 7, ready, joined, excused, moved)},
			want:     "a: Update Target 7 joined failedBefore", waitingFor: "1 Cluster to be ready",
		},
		"no wave is left behind while the limit holds later waves": {
			strategy: Strategy{MaxUnavailable: Limit{Count: 1}, Waves: []Wave{{Name: "canary"}}},
			clusters: []Cluster{fleetMember("a", 0, 7, ready), fleetMember("b", 1, 7, onItsWay),
				fleetMember("c", 1, 6, ready)},
			waitingFor: "2 of 2 Clusters in no wave to be ready", check: wantPassed(""),
		},
	} {
		t.Run(name, tc.run)
	}
}
