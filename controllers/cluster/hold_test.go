// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// upgradingCluster returns an initialized Cluster with a requested upgrade to v1.36.0, and annotations.
func upgradingCluster(annotations map[string]string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Annotations: annotations}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.0"}
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	return cluster
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
