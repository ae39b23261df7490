// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

func TestUpgradeHoldNamesAreValidAndDistinct(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a-very-long-name.", 12) + "x"
	names := map[string]bool{}
	for _, key := range []client.ObjectKey{
		{Namespace: "a", Name: "cni"}, {Namespace: "b", Name: "cni"}, {Namespace: "a", Name: long + "y"},
		{Namespace: "a", Name: long + "z"},
		{Namespace: "a", Name: strings.Repeat("b", 47) + "."},
	} {
		name := clusterlife.UpgradeHoldName(key)
		prefix, suffix, _ := strings.Cut(name, "/")
		if prefix != clusterv1.BeforeClusterUpgradeHookAnnotationPrefix || len(suffix) > 63 ||
			!strings.HasPrefix(name, clusterlife.UpgradeHoldPrefix) {
			t.Errorf("%s: %s", key, name)
		}
		if strings.Contains(suffix, ".-") {
			t.Errorf("%s is cut badly: %s", key, name)
		}
		names[name] = true
	}
	if len(names) != 5 {
		t.Errorf("some share a name: %v", names)
	}
}

func TestDecideUpgrade(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	const (
		old      = "v1.35.0"
		newer    = "v1.36.0"
		held     = "v1.36.0 since 2026-11-21T22:20:00Z"
		heldLong = "v1.36.0 since 2026-11-21T22:00:00Z"
		begun    = "v1.36.0 since 2026-11-21T22:30:00Z"
	)
	ready := func(string) string { return "" }
	unready := func(string) string { return "Progressing" }
	tests := map[string]struct {
		target    string
		state     clusterlife.UpgradeState
		want      string // of the annotation; "" is none
		released  string // of the other one
		event     string
		warning   bool
		requeue   time.Duration
		unmanaged bool
		served    bool // since a while
	}{
		"set before any upgrade": {target: old,
			state: clusterlife.UpgradeState{Active: true, Running: old}, want: old},
		"follows the version of a new control plane": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: newer, Held: true, Value: old}, want: newer},
		"no upgrade": {target: old,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: old}, want: old},
		"Cluster without a class": {target: newer, unmanaged: true,
			state: clusterlife.UpgradeState{Active: true, Running: old}},
		"no longer active": {target: old,
			state: clusterlife.UpgradeState{Running: old, Held: true, Value: old}},
		"no longer active during a hold": {target: newer,
			state: clusterlife.UpgradeState{Running: old, Held: true, Value: held}, event: addonsv1.ClusterUpgradeReleasedEvent},
		"hold begins": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: old, Unready: unready}, want: begun,
			event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"hold continues": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: held, Unready: unready}, want: held,
			requeue: 20 * time.Minute},
		"hold ends when the release is ready": {target: newer,
			state:    clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: held, Unready: ready},
			released: newer, event: addonsv1.ClusterUpgradeReleasedEvent},
		"ready at once": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: old, Unready: ready}, released: newer,
			event: addonsv1.ClusterUpgradeReleasedEvent},
		"hold times out": {target: newer,
			state:    clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong, Unready: unready},
			released: newer, event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"time of a pause does not count": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong, Unready: unready,
				Resumed: now.Add(-10 * time.Minute)}, want: heldLong, requeue: 20 * time.Minute},
		"pause before the hold": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: held, Unready: unready,
				Resumed: now.Add(-time.Hour)}, want: held, requeue: 20 * time.Minute},
		"hold times out after a pause": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong, Unready: unready,
				Resumed: now.Add(-30 * time.Minute)}, released: newer, event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"released upgrade is not held again": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Released: newer, Unready: unready}, released: newer},
		"upgrade after a released upgrade": {target: "v1.36.1",
			state: clusterlife.UpgradeState{Active: true, Running: old, Released: newer, Unready: unready}, released: "v1.36.1",
			event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"too late to hold, not ready": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Unready: unready}, released: newer,
			event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"too late to hold, ready": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Unready: ready}, released: newer},
		"released upgrade, no longer active": {target: newer,
			state: clusterlife.UpgradeState{Running: old, Released: newer}},
		"released upgrade, unknown version": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Released: newer, Unready: unready}, released: newer},
		"set again after a released upgrade": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: newer, Released: newer}, want: newer},
		"new version before initialization": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: newer, Held: true, Value: held}, want: newer},
		"ignored hold": {target: newer, served: true,
			state: clusterlife.UpgradeState{Active: true, Running: newer, Held: true, Value: held}, want: newer,
			event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"upgrade before the hold began": {target: newer, served: true,
			state: clusterlife.UpgradeState{Active: true, Running: newer, Held: true, Value: old}, want: newer,
			event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"set again after the upgrade": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: newer}, want: newer},
		"being moved, no upgrade": {target: old,
			state: clusterlife.UpgradeState{Active: true, Running: old, BeingMoved: true}},
		"being moved after a released upgrade": {target: newer, released: newer,
			state: clusterlife.UpgradeState{Active: true, Running: newer, Released: newer, BeingMoved: true}},
		"being moved, no hold begins": {target: newer, state: clusterlife.UpgradeState{Active: true, Running: old, Held: true,
			Value: old, Unready: unready, BeingMoved: true}, released: newer, event: addonsv1.ClusterUpgradeReleasedEvent,
			warning: true},
		"being moved, ready": {target: newer, state: clusterlife.UpgradeState{Active: true, Running: old, Held: true,
			Value: old, Unready: ready, BeingMoved: true}, released: newer, event: addonsv1.ClusterUpgradeReleasedEvent},
		"being moved, hold continues": {target: newer, state: clusterlife.UpgradeState{Active: true, Running: old, Held: true,
			Value: held, Unready: unready, BeingMoved: true}, want: held, requeue: 20 * time.Minute},
		"being moved, hold times out": {target: newer, state: clusterlife.UpgradeState{Active: true, Running: old, Held: true,
			Value: heldLong, Unready: unready, BeingMoved: true}, released: newer,
			event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"upgrade no longer requested": {target: old,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: held, Unready: unready}, want: old,
			event: addonsv1.ClusterUpgradeReleasedEvent},
		"another version is requested": {target: "v1.36.1",
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong, Unready: unready},
			want:  "v1.36.1 since 2026-11-21T22:30:00Z", event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"malformed value": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: "yes", Unready: unready}, want: begun,
			event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"hold with a future time": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: "v1.36.0 since 2036-11-21T22:00:00Z",
				Unready: unready}, want: begun, event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"clocks differ": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: "v1.36.0 since 2026-11-21T22:30:30Z",
				Unready: unready}, want: "v1.36.0 since 2026-11-21T22:30:30Z", requeue: 30*time.Minute + 30*time.Second},
		"outside of maintenance, the time stops": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: held, Unready: unready,
				Deferred: "closed", Opens: now.Add(time.Hour)}, want: begun + " used 10m0s", requeue: time.Hour},
		"outside of maintenance, the time does not count": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong + " used 29m0s",
				Unready: unready, Deferred: "closed", Opens: now.Add(time.Hour)}, want: heldLong + " used 29m0s",
			requeue: time.Hour},
		"with a veto, the upgrade waits for its end": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong + " used 0s",
				Unready: unready, Deferred: "veto"}, want: heldLong + " used 0s"},
		"after a veto, the time goes on": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: heldLong + " used 10m0s",
				Unready: unready}, want: held, requeue: 20 * time.Minute},
		"outside of maintenance, a hold begins": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: old, Unready: unready,
				Deferred: "closed", Opens: now.Add(time.Hour)}, want: begun + " used 0s",
			event: addonsv1.ClusterUpgradeHeldEvent, requeue: time.Hour},
		"a ready release is released outside of maintenance, too": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Running: old, Held: true, Value: held + " used 1m0s", Unready: ready,
				Deferred: "closed", Opens: now.Add(time.Hour)}, released: newer, event: addonsv1.ClusterUpgradeReleasedEvent},
		"unknown version, no hold": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Unready: unready}},
		"unknown version, hold begins": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Held: true, Value: old, Unready: unready}, want: begun,
			event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
		"unknown version, no upgrade": {target: old,
			state: clusterlife.UpgradeState{Active: true, Held: true, Value: old}, want: old},
		"unknown version, hold times out": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Held: true, Value: heldLong, Unready: unready}, released: newer,
			event: addonsv1.ClusterUpgradeReleasedEvent, warning: true},
		"unknown version, malformed value": {target: newer,
			state: clusterlife.UpgradeState{Active: true, Held: true, Value: "yes", Unready: unready}, want: begun,
			event: addonsv1.ClusterUpgradeHeldEvent, requeue: 30 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &clusterv1.Cluster{}
			if !tc.unmanaged {
				cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: tc.target}
			}
			cluster.Status.Initialization.ControlPlaneInitialized = &tc.served
			tc.state.Timeout, tc.state.Now = 30*time.Minute, now
			got := clusterlife.DecideUpgrade(cluster, tc.state)
			if got.Value != tc.want || got.Released != tc.released || got.Held != (tc.want != "") || got.Event != tc.event ||
				got.Warning != tc.warning || got.RequeueAfter != tc.requeue {
				t.Errorf("got %+v", got)
			}
			if (got.Event == "") != (got.Message == "") {
				t.Errorf("event %q with message %q", got.Event, got.Message)
			}
		})
	}
}

// TestClusterAlwaysHasUpgradeAnnotation checks the annotations in all phases of a Cluster. The Cluster must always have
// one of them: see UpgradeReleasedName.
func TestClusterAlwaysHasUpgradeAnnotation(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	const first, second, third = "v1.35.0", "v1.36.0", "v1.37.0"
	hold := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "h"})
	released := clusterlife.UpgradeReleasedName(hold)
	annotations := map[string]string{}
	for _, step := range []struct {
		about, topology, running string
		unready                  string
		after                    time.Duration
		want                     map[string]string
	}{
		{"new Cluster", first, first, "none", 0, map[string]string{hold: first}},
		{"upgrade requested", second, first, "none", 0,
			map[string]string{hold: second + " since 2026-11-21T22:30:00Z"}},
		{"timed out", second, first, "none", time.Hour, map[string]string{released: second}},
		{"still requested", second, first, "none", time.Hour, map[string]string{released: second}},
		{"control plane unreadable", second, "", "none", time.Hour, map[string]string{released: second}},
		{"upgraded", second, second, "none", time.Hour, map[string]string{hold: second}},
		{"next upgrade requested", third, second, "", time.Hour, map[string]string{released: third}},
		{"next upgrade done", third, third, "", time.Hour, map[string]string{hold: third}},
	} {
		cluster := upgradingCluster(nil)
		cluster.Spec.Topology.Version = step.topology
		state := clusterlife.UpgradeState{Active: true, Running: step.running, Timeout: 30 * time.Minute,
			Now:      now.Add(step.after),
			Released: annotations[released], Unready: func(string) string { return step.unready }}
		state.Value, state.Held = annotations[hold]
		setUpgradeAnnotations(annotations, hold, clusterlife.DecideUpgrade(cluster, state), clusterlife.StepsDecision{})
		if !maps.Equal(annotations, step.want) {
			t.Fatalf("%s: %v, want %v", step.about, annotations, step.want)
		}
	}
}

// TestUpgradeHoldSurvivesRemovalOfClusterAPIAnnotation does the same as the topology controller of Cluster API when the
// control plane of a new Cluster is initialized. The controller removes its annotation with a merge patch that is based
// on its cached Cluster. If this annotation was the only annotation in the cache, the patch removes all annotations.
func TestUpgradeHoldSurvivesRemovalOfClusterAPIAnnotation(t *testing.T) {
	t.Parallel()
	cluster := upgradingCluster(nil)
	cluster.Status.Initialization.ControlPlaneInitialized = nil
	helmOp := controllertest.HoldingHelmOp()
	helmOp.Name, helmOp.UID, helmOp.Spec.BeforeClusterUpgrade = "early", "early", &addonsv1.BeforeClusterUpgrade{}
	name := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp))
	r := lifeReconciler(t, cluster, helmOp)
	first, _ := r.pass(t)
	if first.Annotations[name] != "v1.36.0" {
		t.Fatalf("a new Cluster has no annotation: %v", first.Annotations)
	}
	expectEvent(t, r, "")

	write := func(change func(*clusterv1.Cluster)) {
		t.Helper()
		after := &clusterv1.Cluster{}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), after); err != nil {
			t.Fatal(err)
		}
		before := after.DeepCopy()
		change(after)
		if err := r.client.Patch(t.Context(), after, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	write(func(c *clusterv1.Cluster) {
		c.Annotations[runtimev1.PendingHooksAnnotation] = "AfterControlPlaneInitialized"
	})
	write(func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = ptr.To(true) })
	known := &clusterv1.Cluster{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), known); err != nil {
		t.Fatal(err)
	}
	r.pass(t)
	after := known.DeepCopy()
	delete(after.Annotations, runtimev1.PendingHooksAnnotation)
	if err := r.client.Patch(t.Context(), after, client.MergeFrom(known)); err != nil {
		t.Fatal(err)
	}
	if last, _ := r.pass(t); last.Annotations[name] != "v1.36.0" || len(last.Annotations) != 1 {
		t.Errorf("annotations %v", last.Annotations)
	}
}

func TestResumedAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		paused metav1.ConditionStatus
		want   time.Time
	}{
		"no condition":                      {"", time.Time{}},
		"not paused for a minute":           {metav1.ConditionFalse, now.Add(-time.Minute)},
		"end of the pause not observed yet": {metav1.ConditionTrue, now},
		"unknown":                           {metav1.ConditionUnknown, now.Add(-time.Minute)},
	} {
		cluster := &clusterv1.Cluster{}
		if tc.paused != "" {
			conditions.Set(cluster, metav1.Condition{
				Type: clusterv1.PausedCondition, Status: tc.paused, Reason: "Some",
				LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
			})
		}
		if got := clusterlife.ResumedAt(cluster, now); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestUnreadyFor(t *testing.T) {
	t.Parallel()
	release := func(version string, generation int64, status metav1.ConditionStatus) *addonsv1.HelmOpRelease {
		r := &addonsv1.HelmOpRelease{}
		r.Generation = 2
		r.Spec.KubernetesVersion = version
		conditions.Set(r, metav1.Condition{Type: addonsv1.ReadyCondition, Status: status, Reason: "Some"})
		r.Status.Conditions[0].ObservedGeneration = generation
		return r
	}
	tests := map[string]struct {
		release *addonsv1.HelmOpRelease
		ready   bool
	}{
		"ready for the version":                 {release("v1.36.0", 2, metav1.ConditionTrue), true},
		"ready for another version":             {release("v1.35.0", 2, metav1.ConditionTrue), false},
		"ready before the version was assigned": {release("v1.36.0", 1, metav1.ConditionTrue), false},
		"not ready":                             {release("v1.36.0", 2, metav1.ConditionFalse), false},
		"ready for another build":               {release("v1.36.0+rke2r1", 2, metav1.ConditionTrue), true},
		"without a version":                     {release("", 2, metav1.ConditionTrue), false},
		"without the condition Ready": {&addonsv1.HelmOpRelease{
			Spec: addonsv1.HelmOpReleaseSpec{KubernetesVersion: "v1.36.0"}}, false},
	}
	for name, tc := range tests {
		if got := clusterlife.UnreadyFor(tc.release, "v1.36.0"); (got == "") != tc.ready {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestUpgradeHoldNamesExcludeForeign checks that an annotation of another program is never treated as an upgrade hold
// of HelmOp.
func TestUpgradeHoldNamesExcludeForeign(t *testing.T) {
	own, foreign := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "default", Name: "cni"}),
		clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/backup"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"held":     {map[string]string{own: "v1.34.0"}, []string{own}},
		"released": {map[string]string{clusterlife.UpgradeReleasedName(own): "v1.35.0"}, []string{own}},
		"held again": {map[string]string{own: "v1.35.0", clusterlife.UpgradeReleasedName(own): "v1.35.0"},
			[]string{own}},
		"foreign": {map[string]string{foreign: "wait"}, nil},
		"foreign, with a released annotation": {map[string]string{foreign: "wait",
			clusterlife.UpgradeReleasedName(foreign): "v1.35.0"}, nil},
	} {
		if got := upgradeHoldNames(nil, tc.annotations); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// topologyObserved sets what Cluster API reports when it has processed the topology of a Cluster.
func topologyObserved(cluster *clusterv1.Cluster) {
	conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterTopologyReconciledCondition,
		Status: metav1.ConditionFalse, Reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason})
}

// TestUpgradeToAnotherBuild checks that the hold ends for an upgrade that only changes the build part of the version.
func TestUpgradeToAnotherBuild(t *testing.T) {
	t.Parallel()
	cluster := upgradingCluster(nil)
	cluster.Spec.Topology.Version = "v1.36.1+rke2r2"
	state := clusterlife.UpgradeState{Active: true, Running: "v1.36.1+rke2r1", Specified: "v1.36.1+rke2r1", Held: true,
		Value: "v1.36.1+rke2r1", Unready: func(string) string { return "" }}
	if got := clusterlife.DecideUpgrade(cluster, state); got.Held || got.Released != "v1.36.1+rke2r2" {
		t.Errorf("before the upgrade: %+v", got)
	}
	state.Held, state.Value, state.Released = false, "", "v1.36.1+rke2r2"
	if got := clusterlife.DecideUpgrade(cluster, state); got.Held || got.Event != "" {
		t.Errorf("before Cluster API begins: %+v", got)
	}
	state.Specified = "v1.36.1+rke2r2"
	if got := clusterlife.DecideUpgrade(cluster, state); !got.Held || got.Value != "v1.36.1+rke2r1" || got.Event != "" {
		t.Errorf("during the upgrade: %+v", got)
	}
}

// TestChangedTargetOfAChain expects no Event before the plan for the new target is known.
func TestChangedTargetOfAChain(t *testing.T) {
	t.Parallel()
	cluster := upgradingCluster(nil)
	cluster.Spec.Topology.Version = "v1.37.0"
	topologyObserved(cluster)
	cluster.Spec.Topology.Version = "v1.38.0"
	cluster.Generation++
	state := clusterlife.UpgradeState{Active: true, Running: "v1.35.0", Specified: "v1.35.0", Released: "v1.37.0",
		Assigned: "v1.36.0", Unready: func(version string) string { return "not ready for " + version }}
	if got := clusterlife.DecideUpgrade(cluster, state); got != (clusterlife.UpgradeDecision{Released: "v1.37.0"}) {
		t.Errorf("before the plan: %+v", got)
	}
	topologyObserved(cluster)
	cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: []clusterv1.StatusUpgradePlanVersion{
		{Version: "v1.36.0"}, {Version: "v1.37.0"}, {Version: "v1.38.0"}}}
	got := clusterlife.DecideUpgrade(cluster, state)
	if got.Released != "v1.38.0" || !got.Warning || !strings.Contains(got.Message, "not ready for v1.36.0") {
		t.Errorf("with the plan: %+v", got)
	}
}

// TestChainIsHeldOnlyAtItsBeginning follows an upgrade over three minor versions. The upgrade is held until the release
// is ready for the first step. In the middle of the upgrade, the annotation is not set again and no Event is recorded,
// even if the release never becomes ready for a later step.
func TestChainIsHeldOnlyAtItsBeginning(t *testing.T) {
	t.Parallel()
	const target = "v1.37.0"
	plan := []string{"v1.35.0", "v1.36.0", target}
	hold := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "h"})
	released := clusterlife.UpgradeReleasedName(hold)
	held := map[string]string{hold: target + " since 2026-11-21T22:30:00Z"}
	for name, tc := range map[string]struct {
		// readyFor is the only version for which the release becomes ready; "" means no version.
		readyFor string
		warning  bool
		says     []string
	}{
		"ready for the first step": {readyFor: "v1.35.0",
			says: []string{"has not planned the steps", "with the next step v1.35.0, can continue"}},
		"ready for the last step only": {readyFor: target, warning: true,
			says: []string{"has not planned the steps", "with the next step v1.35.0, was held for 30m0s"}},
	} {
		cluster := upgradingCluster(nil)
		cluster.Spec.Topology.Version = "v1.34.0"
		topologyObserved(cluster)
		annotations, now := map[string]string{}, time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
		var said []string
		warned := false
		observe := func(about, specified, running string, want map[string]string) {
			t.Helper()
			state := clusterlife.UpgradeState{Active: true, Running: running, Specified: specified, Now: now,
				Timeout: 30 * time.Minute, Released: annotations[released],
				Unready: func(version string) string {
					if version == tc.readyFor {
						return ""
					}
					return "not ready for " + version
				}}
			state.Value, state.Held = annotations[hold]
			decision := clusterlife.DecideUpgrade(cluster, state)
			if decision.Event != "" {
				said, warned = append(said, decision.Message), warned || decision.Warning
			}
			setUpgradeAnnotations(annotations, hold, decision, clusterlife.StepsDecision{})
			if !maps.Equal(annotations, want) {
				t.Errorf("%s: %s: %v, want %v", name, about, annotations, want)
			}
		}
		publish := func(steps []string) {
			topologyObserved(cluster)
			cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
			for _, step := range steps {
				cluster.Status.ControlPlane.UpgradePlan = append(cluster.Status.ControlPlane.UpgradePlan,
					clusterv1.StatusUpgradePlanVersion{Version: step})
			}
		}
		observe("before", "v1.34.0", "v1.34.0", map[string]string{hold: "v1.34.0"})
		cluster.Spec.Topology.Version = target
		cluster.Generation++
		observe("requested", "v1.34.0", "v1.34.0", held)
		publish(plan)
		if tc.warning {
			observe("the plan is published", "v1.34.0", "v1.34.0", held)
			now = now.Add(time.Hour)
		}
		going := map[string]string{released: target}
		observe("the first step is known", "v1.34.0", "v1.34.0", going)
		for i, step := range plan {
			before := append([]string{"v1.34.0"}, plan...)[i]
			publish(plan[i:])
			observe("a step begins", step, before, going)
			publish(plan[i+1:])
			observe("a step runs", step, before, going)
			if step != target {
				observe("a step is done", step, step, going)
			}
		}
		observe("done", target, target, map[string]string{hold: target})
		if warned != tc.warning || len(said) != len(tc.says) {
			t.Fatalf("%s: warned %t: %q", name, warned, said)
		}
		for i, want := range tc.says {
			if !strings.Contains(said[i], want) {
				t.Errorf("%s: %q, want %q", name, said[i], want)
			}
		}
	}
}

// TestUpgradeWithoutNewMinorNeedsNoCheck checks that a required check holds an upgrade to another minor version, but
// not an upgrade to another build or patch version.
func TestUpgradeWithoutNewMinorNeedsNoCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		running, target string
		isHeld          bool
	}{
		{"v1.36.1+rke2r1", "v1.36.1+rke2r2", false}, {"v1.36.1+rke2r1", "v1.36.2+rke2r1", false},
		{"v1.35.1+rke2r1", "v1.36.1+rke2r1", true},
	} {
		cluster := upgradingCluster(nil)
		cluster.Spec.Topology.Version = tc.target
		topologyObserved(cluster)
		release := controllertest.OfNamespace("ns", controllertest.HoldingRelease(0))
		release.Spec.KubernetesVersion = tc.target
		release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Preflight: addonsv1.UpgradePreflightRequired}
		conditions.Set(release, metav1.Condition{Type: addonsv1.ReadyCondition, Status: metav1.ConditionTrue,
			Reason: "Ready"})
		state := clusterlife.UpgradeState{Active: true, Running: tc.running, Specified: tc.running, Held: true,
			Value: tc.running, Assigned: tc.target, Timeout: time.Hour, Now: time.Now(),
			Unready: func(version string) string { return clusterlife.Unready(cluster, release, tc.running, version) }}
		got := clusterlife.DecideUpgrade(cluster, state)
		if got.Held != tc.isHeld || !tc.isHeld && got.Released != tc.target ||
			tc.isHeld && !strings.Contains(got.Message, "is not checked for "+tc.target) {
			t.Errorf("%s to %s: %+v", tc.running, tc.target, got)
		}
	}
}

// TestBlockedUpgradeNamesTheCheckFirst checks that a hold names the findings of the check, even while the next step is
// not known.
func TestBlockedUpgradeNamesTheCheckFirst(t *testing.T) {
	t.Parallel()
	cluster := upgradingCluster(nil)
	topologyObserved(cluster)
	cluster.Spec.Topology.Version = "v1.37.0"
	cluster.Generation++
	state := clusterlife.UpgradeState{Active: true, Running: "v1.35.0", Specified: "v1.35.0", Held: true,
		Value: "v1.35.0", Timeout: time.Hour, Now: time.Now(), Unready: func(string) string { return "" }}
	for blocked, want := range map[string]string{
		"": "has not planned the steps", "APIRemoved: raise it": "APIRemoved: raise it",
	} {
		state.Blocked = blocked
		if got := clusterlife.DecideUpgrade(cluster, state); !got.Held || !strings.Contains(got.Message, want) {
			t.Errorf("%q: %+v", blocked, got)
		}
	}
}

// TestUpgradeWithoutPlan checks what a hold waits for while a Cluster that Cluster API has processed has no plan. The
// wait has a limit, and its message names what is missing.
func TestUpgradeWithoutPlan(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		target, specified, value string
		publishesPlans           bool
		held                     bool
		step, message            string
	}{
		"a plan follows": {target: "v1.37.0", specified: "v1.35.0", value: "v1.35.0", publishesPlans: true, held: true,
			message: clusterlife.PlanPending},
		"a plan follows, one minor version": {target: "v1.36.0", specified: "v1.35.0", value: "v1.35.0",
			publishesPlans: true, held: true, message: clusterlife.PlanPending},
		"no plan in time": {target: "v1.37.0", specified: "v1.35.0", value: "v1.37.0 since 2026-11-21T21:00:00Z",
			publishesPlans: true, message: clusterlife.PlanPending},
		"the last step began": {target: "v1.36.0", specified: "v1.36.0", value: "v1.35.0", publishesPlans: true,
			step: "v1.36.0"},
		"Cluster API publishes no plans": {target: "v1.37.0", specified: "v1.35.0", value: "v1.35.0", step: "v1.37.0"},
	} {
		cluster := upgradingCluster(nil)
		topologyObserved(cluster)
		cluster.Spec.Topology.Version = tc.target
		asked := ""
		state := clusterlife.UpgradeState{Active: true, Running: "v1.35.0", Specified: tc.specified, Held: true,
			Value: tc.value, Timeout: time.Hour, Now: now, PublishesPlans: tc.publishesPlans,
			Unready: func(version string) string { asked = version; return "" }}
		got := clusterlife.DecideUpgrade(cluster, state)
		if got.Held != tc.held || asked != tc.step || !strings.Contains(got.Message, tc.message) ||
			(got.Released == tc.target) == tc.held {
			t.Errorf("%s: asked for %q: %+v", name, asked, got)
		}
		state.Held, state.Unready = false, func(string) string { return "Progressing" }
		steps := clusterlife.DecideSteps(cluster, state, clusterlife.UpgradeDecision{}, "", "")
		if version, _, _ := strings.Cut(steps.Step, " "); version != tc.step {
			t.Errorf("%s: %+v", name, steps)
		}
	}
}
