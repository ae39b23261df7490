// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// checkedRelease returns a Cluster of a ClusterClass that is about to run v1.37.2, and a release in the Cluster.
// Upgrades wait for the check of this release. held is the value of the Cluster's annotation for the HelmOp.
func checkedRelease(held string) (*clusterv1.Cluster, *addonsv1.HelmOpRelease, string) {
	name := UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "cni"})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one",
		Annotations: map[string]string{}}}
	cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "class", "v1.37.2"
	if held != "" {
		cluster.Annotations[name] = held
	}
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cni-one", Generation: 2,
		OwnerReferences: []metav1.OwnerReference{{Kind: apiutil.HelmOpKind, Name: "cni", Controller: new(true)}}}}
	release.Spec.KubernetesVersion = "v1.37.2"
	release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Preflight: addonsv1.UpgradePreflightRequired}
	conditions.Set(release, metav1.Condition{Type: addonsv1.ReadyCondition, Status: metav1.ConditionTrue,
		Reason: addonsv1.ReadyReason})
	return cluster, release, name
}

const pending = "v1.37.2 since 2026-11-21T22:00:00Z"

// TestUpgradeToCheckOf checks for which upgrade a release is checked.
func TestUpgradeToCheckOf(t *testing.T) {
	t.Parallel()
	planned := func(versions ...string) func(*clusterv1.Cluster, *addonsv1.HelmOpRelease) {
		return func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
			for _, version := range versions {
				c.Status.ControlPlane.UpgradePlan = append(c.Status.ControlPlane.UpgradePlan,
					clusterv1.StatusUpgradePlanVersion{Version: version})
			}
		}
	}
	annotated := func(value string) func(*clusterv1.Cluster, *addonsv1.HelmOpRelease) {
		return func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.Annotations[addonsv1.CheckUpgradeAnnotation] = value
		}
	}
	for name, tc := range map[string]struct {
		held, want, plan string
		isPending        bool
		change           func(*clusterv1.Cluster, *addonsv1.HelmOpRelease)
	}{
		"no upgrade":        {held: "v1.36.1"},
		"no hold":           {},
		"a pending upgrade": {held: pending, want: "v1.37.2", isPending: true},
		"with its plan":     {held: pending, want: "v1.37.2", isPending: true, plan: "v1.36.4 v1.37.2", change: planned("v1.36.4", "v1.37.2")},
		"a plan with a version without v": {held: pending, want: "v1.37.2", isPending: true, plan: "1.36.4 1.37.2",
			change: planned("1.36.4", "1.37.2")},
		"a plan for another one": {held: pending, want: "v1.37.2", isPending: true, change: planned("v1.36.4")},
		"the annotation":         {held: "v1.36.1", want: "v1.38", change: annotated("v1.38")},
		"an upgrade comes first": {held: pending, want: "v1.37.2", isPending: true, change: annotated("v1.38")},
		"a very long annotation": {want: strings.Repeat("x", maxCheckVersion-len("…")) + "…", change: annotated(strings.Repeat("x", 300))},
		"the check is not required": {held: pending, change: func(_ *clusterv1.Cluster, r *addonsv1.HelmOpRelease) {
			r.Spec.BeforeClusterUpgrade.Preflight = ""
		}},
		"another namespace": {held: pending, change: func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.Namespace = "other"
		}},
		"no longer held": {want: "v1.37.2", isPending: true, change: func(c *clusterv1.Cluster, _ *addonsv1.HelmOpRelease) {
			c.Annotations[UpgradeReleasedName(UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "cni"}))] = "v1.37.2"
		}},
	} {
		cluster, release, _ := checkedRelease(tc.held)
		if tc.change != nil {
			tc.change(cluster, release)
		}
		got, ok := UpgradeToCheckOf(cluster, release)
		if ok != (tc.want != "") || got.Version != tc.want || got.IsPending != tc.isPending ||
			!slices.Equal(got.Plan, strings.Fields(tc.plan)) {
			t.Errorf("%s: got %+v, %t", name, got, ok)
		}
	}
	if _, ok := UpgradeToCheckOf(nil, &addonsv1.HelmOpRelease{}); ok {
		t.Error("a check without a Cluster")
	}
}

// TestUnready checks what an upgrade waits for, if it waits for the check of a release.
func TestUnready(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version    string // that the result is about
		status     metav1.ConditionStatus
		generation int64
		want       string
	}{
		"not checked":                 {want: "the release is not checked for v1.37.2 yet"},
		"checked for another version": {"v1.36.0", metav1.ConditionTrue, 2, "the release is not checked for v1.37.2 yet"},
		"checked before a change":     {"v1.37.2", metav1.ConditionTrue, 1, "the release is not checked for v1.37.2 yet"},
		"something to do":             {"v1.37.2", metav1.ConditionFalse, 2, "APIRemoved: raise it"},
		"something to do, so far":     {"v1.37.2", metav1.ConditionFalse, 1, "APIRemoved: raise it"},
		"cannot be checked":           {"v1.37.2", metav1.ConditionUnknown, 2, "APIRemoved: raise it"},
		"nothing to do":               {"v1.37.2", metav1.ConditionTrue, 2, ""},
	} {
		cluster, release, _ := checkedRelease(pending)
		if tc.version != "" {
			release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: tc.version}
			release.Status.Conditions = append(release.Status.Conditions, metav1.Condition{
				Type: addonsv1.KubernetesUpgradeReadyCondition, Status: tc.status, ObservedGeneration: tc.generation,
				Reason: addonsv1.APIRemovedReason, Message: "raise it"})
		}
		if got := Unready(cluster, release, "v1.36.4", "v1.37.2"); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		for _, running := range []string{"v1.37.1", "v1.37.2+rke2r1", "1.37"} {
			if got := Unready(cluster, release, running, "v1.37.2"); got != "" || Blocked(cluster, release, running) != "" {
				t.Errorf("%s, from %s: got %q", name, running, got)
			}
		}
		if got := Unready(cluster, release, "", "v1.37.2"); got != tc.want {
			t.Errorf("%s, the running version is not known: got %q, want %q", name, got, tc.want)
		}
		if got := Blocked(cluster, release, "v1.36.4"); (got != "") != (tc.status == metav1.ConditionFalse) {
			t.Errorf("%s: blocked by %q", name, got)
		}
		release.Spec.BeforeClusterUpgrade.Preflight = addonsv1.UpgradePreflightIgnored
		if got := Unready(cluster, release, "v1.36.4", "v1.37.2"); got != "" {
			t.Errorf("%s, ignored: got %q", name, got)
		}
	}
	cluster, release, _ := checkedRelease(pending)
	if Unready(cluster, nil, "v1.36.4", "v1.37.2") == "" {
		t.Error("ready without a release")
	}
	if got := Unready(cluster, release, "v1.35.1", "v1.36.4"); !strings.Contains(got, "not rendered for that version") {
		t.Errorf("for another step: got %q", got)
	}
}

// TestUpgradeTrigger checks that only the changes during an upgrade cause another pass over releases.
func TestUpgradeTrigger(t *testing.T) {
	t.Parallel()
	cluster, _, name := checkedRelease("")
	if got := UpgradeTrigger(cluster); got != "" {
		t.Errorf("without an annotation: %q", got)
	}
	seen := map[string]bool{}
	for _, change := range []func(){
		func() { cluster.Annotations[name] = "v1.36.1" },
		func() { cluster.Spec.Topology.Version = "v1.38.0" },
		func() { cluster.Annotations[name] = "v1.38.0 since 2026-11-21T22:00:00Z" },
		func() { delete(cluster.Annotations, name); cluster.Annotations[UpgradeReleasedName(name)] = "v1.38.0" },
		func() { cluster.Annotations[addonsv1.CheckUpgradeAnnotation] = "v1.39" },
	} {
		change()
		seen[UpgradeTrigger(cluster)] = true
	}
	cluster.Annotations["another.example.com/one"] = "x"
	seen[UpgradeTrigger(cluster)] = true
	if len(seen) != 5 {
		t.Errorf("got %v", seen)
	}
}
