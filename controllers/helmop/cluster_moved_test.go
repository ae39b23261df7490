// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"testing"

	"github.com/onsi/gomega"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestClustersBeingMovedAreReported checks that a HelmOp reports its Clusters with the annotation of clusterctl move as
// long as they have the annotation. A paused HelmOp does not report them.
func TestClustersBeingMovedAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	for _, name := range []string{"one", "two", "three"} {
		f.cluster(name)
	}
	helmOp := f.helmOp(nil)
	reports := func(names string) {
		f.Helper()
		f.eventually(helmOp, func(g gomega.Gomega) {
			g.Expect(helmOp.Status.Clusters).To(gomega.HaveField("Selected", int32(3)))
			if names == "" {
				g.Expect(conditions.Has(helmOp, addonsv1.ClusterBeingMovedCondition)).To(gomega.BeFalse())
				return
			}
			g.Expect(conditions.GetReason(helmOp, addonsv1.ClusterBeingMovedCondition)).To(
				gomega.Equal(addonsv1.BeingMovedReason))
			g.Expect(conditions.GetMessage(helmOp, addonsv1.ClusterBeingMovedCondition)).To(gomega.HaveSuffix(
				" annotate clusters.cluster.x-k8s.io " + names + " " + clusterctlv1.DeleteForMoveAnnotation + "-"))
		})
	}
	reports("")
	f.limit("two", clusterctlv1.DeleteForMoveAnnotation, "yes")
	reports("two")
	f.limit("one", clusterctlv1.DeleteForMoveAnnotation, "yes")
	reports("one two")
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = true })
	reports("")
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = false })
	reports("one two")
	f.limit("one", clusterctlv1.DeleteForMoveAnnotation, "")
	f.limit("two", clusterctlv1.DeleteForMoveAnnotation, "")
	reports("")
}
