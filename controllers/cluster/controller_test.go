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

// TestDoubtEndsWithTheReads holds that a Cluster is not in doubt for ever which nobody reads any more.
func TestDoubtEndsWithTheReads(t *testing.T) {
	t.Parallel()
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	for name, tc := range map[string]struct {
		cluster  func(*clusterv1.Cluster)
		release  func(*addonsv1.HelmOpRelease)
		helmOp   func(*addonsv1.HelmOp)
		filter   string
		doubtful bool
	}{
		"it is read": {doubtful: true},
		"it is read for another namespace": {release: func(r *addonsv1.HelmOpRelease) {
			controllertest.OfNamespace("tenant", r)
		}, doubtful: true},
		"its release is gone":              {release: func(r *addonsv1.HelmOpRelease) { ofAnotherCluster(r) }},
		"its release is paused":            {release: func(r *addonsv1.HelmOpRelease) { r.Annotations = paused }},
		"its release is another manager's": {filter: "blue"},
		"the HelmOp is suspended":          {helmOp: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }},
		"the Cluster is paused":            {cluster: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }},
		"the HelmOp is made up, and it reads": {release: func(r *addonsv1.HelmOpRelease) { ofHelmOp("made-up", r) },
			doubtful: true},
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
		doubtful := true
		r.watchFilter = tc.filter
		r.forgetReads = func(cluster client.ObjectKey) { doubtful = cluster != key }
		r.pass(t)
		if doubtful != tc.doubtful {
			t.Errorf("%s: doubtful %t", name, doubtful)
		}
	}
}
