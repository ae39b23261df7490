// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

func TestUpgradeIsHeldOnce(t *testing.T) {
	t.Parallel()
	release := controllertest.HoldingRelease(0)
	release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	name := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "h"})
	stale := clusterlife.UpgradeHoldPrefix + "gone-12345678"
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
		Annotations: map[string]string{name: "v1.35.0", stale: "v1.35.0",
			addonsv1.DeletionHoldAnnotation: controllertest.HeldSince, "other": "x"}}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.0"}
	r := lifeReconciler(t, cluster, release)
	got, result := r.pass(t)
	// Without a control plane, the last known version applies.
	want := "v1.36.0 since " + controllertest.LifeNow.Format(time.RFC3339)
	if got.Annotations[name] != want || len(got.Annotations) != 2 || got.Annotations["other"] != "x" {
		t.Errorf("annotations %v", got.Annotations)
	}
	expectEvent(t, r, "Normal "+addonsv1.ClusterUpgradeHeldEvent)
	if result.RequeueAfter == 0 || result.RequeueAfter > clusterlife.DefaultUpgradeTimeout {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
	r.now = func() time.Time { return controllertest.LifeNow.Add(clusterlife.DefaultUpgradeTimeout) }
	for _, about := range []string{"held beyond its time", "held twice"} {
		got, _ = r.pass(t)
		if _, held := got.Annotations[name]; held || got.Annotations[clusterlife.UpgradeReleasedName(name)] != "v1.36.0" ||
			len(got.Annotations) != 2 {
			t.Errorf("%s: %v", about, got.Annotations)
		}
	}
}

// upgradingCluster returns an initialized Cluster with a requested upgrade to v1.36.0, and annotations.
func upgradingCluster(annotations map[string]string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Annotations: annotations}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.0"}
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	return cluster
}

func TestReleaseOfOtherNamespaceHoldsNoUpgrade(t *testing.T) {
	t.Parallel()
	tenants := map[string]*addonsv1.HelmOpRelease{
		"tenant": controllertest.OfNamespace("tenant", controllertest.HoldingRelease(0)),
		"ns":     ofHelmOp("made-up", controllertest.HoldingRelease(0)),
	}
	for namespace, release := range tenants {
		release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		release.Spec.ClusterCondition = "TenantReady"
		name := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: namespace, Name: "h"})
		got, _ := lifeReconciler(t, upgradingCluster(map[string]string{name: "v1.35.0"}), release).pass(t)
		if len(got.Annotations) != 0 || len(got.Status.Conditions) != 0 {
			t.Errorf("annotations %v, conditions %v", got.Annotations, got.Status.Conditions)
		}
	}
}

func TestUpgradeHoldStaysWhileReleaseIsReplaced(t *testing.T) {
	t.Parallel()
	name := clusterlife.UpgradeHoldName(client.ObjectKey{Namespace: "ns", Name: "h"})
	held := "v1.36.0 since " + controllertest.HeldSince
	release := controllertest.HoldingRelease(0)
	release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	release.DeletionTimestamp = &metav1.Time{Time: controllertest.LifeNow}
	tests := map[string]struct {
		before string
		change func(*addonsv1.HelmOp)
		want   string
	}{
		"requested":                        {before: held, change: func(*addonsv1.HelmOp) {}, want: held},
		"no hold begins without a release": {change: func(*addonsv1.HelmOp) {}},
		"beforeClusterUpgrade removed": {before: held, change: func(h *addonsv1.HelmOp) {
			h.Spec.BeforeClusterUpgrade = nil
		}},
		"Cluster no longer selected": {before: held, change: func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
	}
	for what, tc := range tests {
		annotations := map[string]string{}
		if tc.before != "" {
			annotations[name] = tc.before
		}
		r := lifeReconciler(t, upgradingCluster(annotations), release.DeepCopy())
		helmOp := &addonsv1.HelmOp{}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(controllertest.HoldingHelmOp()), helmOp); err != nil {
			t.Fatal(err)
		}
		helmOp.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		tc.change(helmOp)
		if err := r.client.Update(t.Context(), helmOp); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.pass(t); got.Annotations[name] != tc.want {
			t.Errorf("%s: annotations %v", what, got.Annotations)
		}
	}
}

func TestForeignUpgradeHooksStay(t *testing.T) {
	t.Parallel()
	foreign := map[string]string{
		clusterlife.UpgradeHoldPrefix + "migration": "", clusterlife.UpgradeHoldPrefix + "gone-1234567z": "v1.35.0",
		clusterlife.UpgradeHoldPrefix + "mine-12345678": "until friday",
		clusterlife.UpgradeHoldPrefix + "x-12345678":    "v1.35.0 since ever",
	}
	if got, _ := lifeReconciler(t, upgradingCluster(foreign)).pass(t); len(got.Annotations) != len(foreign) {
		t.Errorf("annotations %v", got.Annotations)
	}
}
