// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestReadsOfUnreadClusterAreForgotten checks that a Cluster that is not read for any release does not stay
// unresponsive.
func TestReadsOfUnreadClusterAreForgotten(t *testing.T) {
	t.Parallel()
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	for name, tc := range map[string]struct {
		cluster func(*clusterv1.Cluster)
		release func(*addonsv1.HelmOpRelease)
		helmOp  func(*addonsv1.HelmOp)
		filter  string
		kept    bool
	}{
		"read": {kept: true},
		"read for another namespace": {release: func(r *addonsv1.HelmOpRelease) {
			controllertest.OfNamespace("tenant", r)
		}, kept: true},
		"release of another Cluster": {release: func(r *addonsv1.HelmOpRelease) { ofAnotherCluster(r) }},
		"release paused":             {release: func(r *addonsv1.HelmOpRelease) { r.Annotations = paused }},
		"other watch filter":         {filter: "blue"},
		"HelmOp paused":              {helmOp: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }},
		"Cluster paused":             {cluster: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }},
		"release of an unknown HelmOp": {release: func(r *addonsv1.HelmOpRelease) { ofHelmOp("made-up", r) },
			kept: true},
	} {
		cluster, release, helmOp := upgradingCluster(nil), controllertest.HoldingRelease(0), controllertest.HoldingHelmOp()
		if tc.cluster != nil {
			tc.cluster(cluster)
		}
		if tc.release != nil {
			tc.release(release)
		}
		r := lifeReconciler(t, cluster, release)
		if tc.helmOp != nil {
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
				t.Fatal(err)
			}
			tc.helmOp(helmOp)
			if err := r.client.Update(t.Context(), helmOp); err != nil {
				t.Fatal(err)
			}
		}
		kept := true
		r.watchFilter = tc.filter
		r.forgetReads = func(cluster client.ObjectKey) { kept = cluster != key }
		r.pass(t)
		if kept != tc.kept {
			t.Errorf("%s: kept %t", name, kept)
		}
	}
}
