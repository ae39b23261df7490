// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestClusterDeleted deletes Clusters and keeps the HelmOp.
func TestClusterDeleted(t *testing.T) {
	s := newScenario(t)
	clusters := s.clusters(
		testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", PodCIDRs: []string{"10.2.0.0/16"}},
	)
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	s.eventually(helmOp, ready(2))

	s.step("its HelmOpRelease is removed", func(s *scenario) {
		two := clusters[1].in(s)
		child, cluster := s.child(helmOp, "one"), s.cluster("one")
		s.remove(cluster)
		s.eventuallyGone(cluster)
		s.eventuallyGone(child)
		s.eventually(helmOp, ready(1))
		two.eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
	})
	s.step("the HelmOpRelease of the last Cluster is removed, too", func(s *scenario) {
		child, cluster := s.child(helmOp, "two"), s.cluster("two")
		// The first Cluster shows a deletion while the control plane stops.
		s.must(s.skipDeletionDelay(s.Context()))
		s.remove(cluster)
		s.eventuallyGone(cluster)
		s.eventuallyGone(child)
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.NoClustersSelectedReason))
	})
	s.step("a new Cluster of the same name gets a release", func(s *scenario) {
		w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.3.0.0/16"}})[0]
		w.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
		w.eventuallyHello(releaseNamespace, "hello", map[string]string{"podCIDR": "10.3.0.0/16"})
		s.eventually(helmOp, ready(1))
	})
	s.step("the HelmOp and its Cluster can be deleted together", func(s *scenario) {
		cluster := s.cluster("one")
		s.remove(cluster)
		s.remove(helmOp)
		s.eventuallyGone(cluster)
		s.eventuallyGone(helmOp)
	})
}

// TestControlPlaneNotInitialized creates a Cluster whose API server answers long before its control plane is
// initialized.
func TestControlPlaneNotInitialized(t *testing.T) {
	s := newScenario(t)
	s.createCluster(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, HoldBack: true})
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.WaitingForClustersReason),
		condition(addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Clusters).To(gomega.HaveValue(gomega.Equal(addonsv1.ClusterCounts{Selected: 1, Waiting: 1})))
		})
	s.Eventually(func() any { return s.env.Management.Provider.Server(s.key("one")) }).ShouldNot(gomega.BeNil())
	one := s.running("one")
	one.expectUntouched()
	one.expectNothing(releaseNamespace, "hello")
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.children(ctx, g, helmOp)).To(gomega.BeEmpty())
	}).WithContext(s.Context()).Should(gomega.Succeed())

	s.must(s.env.Management.Release(s.Context(), s.key("one")))
	one.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
	one.eventuallyHello(releaseNamespace, "hello", map[string]string{"podCIDR": "10.1.0.0/16"})
	s.eventually(helmOp, ready(1))
}
