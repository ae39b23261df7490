// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestDecideSteps(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	const (
		begun = "v1.36.0 since 2026-11-21T22:30:00Z"
		waits = "v1.36.0 since 2026-11-21T22:20:00Z"
		long  = "v1.36.0 since 2026-11-21T22:00:00Z"
	)
	ready, unready := func(string) string { return "" }, func(string) string { return "Progressing" }
	for name, tc := range map[string]struct {
		specified, running, step, workers string
		unready                           func(string) string
		hold                              UpgradeDecision
		released, assigned                string
		held, inactive, pending           bool
		deferred                          string

		wantStep, wantWorkers, event, message string
		requeue                               time.Duration
		events                                int
	}{
		"ready without a wait": {specified: "v1.35.0", running: "v1.35.0", unready: ready},
		"the whole upgrade is held": {specified: "v1.35.0", running: "v1.35.0", unready: unready, held: true,
			hold: UpgradeDecision{Held: true}},
		"the whole upgrade waits": {specified: "v1.35.0", running: "v1.35.0", unready: unready, held: true,
			hold:     UpgradeDecision{Held: true, Value: "v1.37.0 since 2026-11-21T22:20:00Z used 1m0s"},
			wantStep: waits + " used 1m0s"},
		"a user removes the hold of the upgrade": {specified: "v1.35.0", running: "v1.35.0", unready: unready, step: waits,
			wantStep: "v1.36.0", event: addonsv1.ClusterUpgradeReleasedEvent, message: "was removed: Progressing"},
		"a user removes the hold of a ready release": {specified: "v1.35.0", running: "v1.35.0", unready: ready,
			step: waits, wantStep: "v1.36.0", event: addonsv1.ClusterUpgradeReleasedEvent, message: "is ready for it"},
		"a wait is ignored": {specified: "v1.36.0", running: "v1.35.0", unready: unready, step: waits, released: "v1.37.0",
			wantStep: "v1.36.0", event: addonsv1.ClusterUpgradeReleasedEvent, message: "check that the ExtensionConfig"},
		"a wait is ignored, and the step is done": {specified: "v1.36.0", running: "v1.36.0", unready: unready, step: waits,
			released: "v1.37.0", workers: "v1.36.0", wantStep: "v1.37.0 since 2026-11-21T22:30:00Z",
			event: addonsv1.ClusterUpgradeReleasedEvent, message: "check that the ExtensionConfig", events: 2,
			requeue: 30 * time.Minute},
		"a wait ended, and the release is prepared for the next step": {specified: "v1.36.0", running: "v1.35.0",
			unready: unready, step: waits, released: "v1.37.0", assigned: "v1.37.0", wantStep: "v1.36.0"},
		"the step begins as the release gets ready": {specified: "v1.36.0", running: "v1.35.0", unready: ready, step: waits,
			released: "v1.37.0", wantStep: "v1.36.0"},
		"the step begins at the timeout": {specified: "v1.36.0", running: "v1.35.0", unready: unready, step: long,
			released: "v1.37.0", wantStep: "v1.36.0"},
		"the hold of the first ends": {specified: "v1.35.0", running: "v1.35.0", unready: unready, held: true,
			wantStep: "v1.36.0"},
		"a wait begins": {specified: "v1.35.0", running: "v1.35.0", unready: unready, wantStep: begun,
			event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"a wait for another step begins": {specified: "v1.35.0", running: "v1.35.0", unready: unready, step: "v1.35.0",
			wantStep: begun, event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"a wait goes on": {released: "v1.37.0", specified: "v1.35.0", running: "v1.35.0", unready: unready, step: waits,
			wantStep: waits,
			requeue:  20 * time.Minute},
		"a wait ends": {specified: "v1.35.0", running: "v1.35.0", unready: ready, step: waits, released: "v1.37.0",
			wantStep: "v1.36.0",
			event:    addonsv1.ClusterUpgradeReleasedEvent},
		"a wait times out": {released: "v1.37.0", specified: "v1.35.0", running: "v1.35.0", unready: unready, step: long,
			wantStep: "v1.36.0", event: addonsv1.ClusterUpgradeReleasedEvent},
		"maintenance does not count": {released: "v1.37.0", specified: "v1.35.0", running: "v1.35.0", unready: unready,
			step:     long + " used 1m0s",
			deferred: "veto", wantStep: long + " used 1m0s"},
		"never waits again": {specified: "v1.35.0", running: "v1.35.0", unready: unready, step: "v1.36.0",
			wantStep: "v1.36.0"},
		"the step has begun":       {specified: "v1.36.0", running: "v1.35.0", unready: unready, wantStep: "v1.36.0"},
		"no upgrade":               {specified: "v1.37.0", running: "v1.37.0", unready: unready, step: "v1.37.0"},
		"no longer active":         {specified: "v1.35.0", running: "v1.35.0", unready: unready, step: waits, inactive: true},
		"the version is not known": {unready: unready, step: waits, workers: long, wantStep: waits, wantWorkers: long},
		"workers wait": {specified: "v1.37.0", running: "v1.37.0", unready: unready, pending: true,
			wantWorkers: "v1.37.0 since 2026-11-21T22:30:00Z", event: addonsv1.ClusterUpgradeHeldEvent,
			requeue: 30 * time.Minute},
		"workers are upgraded although they wait": {specified: "v1.37.0", running: "v1.37.0", unready: unready,
			workers: "v1.37.0 since 2026-11-21T22:20:00Z", event: addonsv1.ClusterUpgradeReleasedEvent,
			message: "check that the ExtensionConfig"},
		"workers are upgraded as the release gets ready": {specified: "v1.37.0", running: "v1.37.0", unready: ready,
			workers: "v1.37.0 since 2026-11-21T22:20:00Z"},
		"workers need not wait": {specified: "v1.37.0", running: "v1.37.0", unready: ready, pending: true},
		"workers time out": {specified: "v1.37.0", running: "v1.37.0", unready: unready, pending: true,
			workers: "v1.37.0 since 2026-11-21T22:00:00Z", wantWorkers: "v1.37.0",
			event: addonsv1.ClusterUpgradeReleasedEvent},
		"workers do not wait during a step": {specified: "v1.36.0", running: "v1.35.0", unready: unready, pending: true,
			wantStep: "v1.36.0"},
	} {
		cluster := &clusterv1.Cluster{}
		cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.37.0"}
		cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
			UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.36.0"}, {Version: "v1.37.0"}}}
		if tc.pending {
			cluster.Annotations = map[string]string{
				runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade,BeforeWorkersUpgrade"}
		}
		state := UpgradeState{Active: !tc.inactive, Running: tc.running, Specified: tc.specified, Held: tc.held, Now: now,
			Timeout: 30 * time.Minute, Deferred: tc.deferred, Unready: tc.unready, UnreadyWorkers: tc.unready,
			Released: tc.released, Assigned: tc.assigned}
		got := DecideSteps(cluster, state, tc.hold, tc.step, tc.workers)
		event, message, events := "", "", max(1, tc.events)
		if len(got.Decisions) > 0 {
			event, message = got.Decisions[0].Event, got.Decisions[0].Message
		}
		if got.Step != tc.wantStep || got.Workers != tc.wantWorkers || event != tc.event || len(got.Decisions) > events ||
			got.RequeueAfter != tc.requeue || !strings.Contains(message, tc.message) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestUnrecordedLimit checks for how long a wait may last that no controller records.
func TestUnrecordedLimit(t *testing.T) {
	t.Parallel()
	state := UpgradeState{Timeout: time.Hour, Now: time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)}
	for value, want := range map[string]time.Duration{
		"":                                   time.Hour,
		"v1.36.0":                            time.Hour,
		"v1.35.0 since 2026-11-21T22:20:00Z": time.Hour,
		"v1.36.0 since 2026-11-21T22:40:00Z": time.Hour,
		"v1.36.0 since 2026-11-21T22:20:00Z used 10m0s": 50 * time.Minute,
		"v1.36.0 since 2026-11-21T22:20:00Z":            0,
	} {
		got, recorded := state.UnrecordedLimit(value, "v1.36.0")
		if got != want || recorded != (want == 0) {
			t.Errorf("%q: %s, recorded %v", value, got, recorded)
		}
	}
}

func TestUnreadyForWorkers(t *testing.T) {
	t.Parallel()
	for version, ready := range map[string]bool{"v1.34.0": false, "v1.35.0": true, "v1.36.0": true, "": false} {
		release := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{KubernetesVersion: version}}
		if UnreadyForWorkers(release, "v1.35.0") == "" {
			t.Errorf("a release for %q without the condition Ready is ready", version)
		}
		conditions.Set(release, metav1.Condition{Type: addonsv1.ReadyCondition, Status: metav1.ConditionTrue,
			Reason: addonsv1.ReadyReason})
		if got := UnreadyForWorkers(release, "v1.35.0"); (got == "") != ready {
			t.Errorf("a release for %q: %q", version, got)
		}
	}
	if UnreadyForWorkers(nil, "v1.35.0") == "" {
		t.Error("a release that does not exist is ready")
	}
}
