// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// gate is the condition that HelmOps publish in this test.
const gate = "HelmOpReady"

// eventuallyCluster waits until all checks of a Cluster pass.
func (s *scenario) eventuallyCluster(name string,
	checks ...func(gomega.Gomega, *clusterv1.Cluster),
) *clusterv1.Cluster {
	s.Helper()
	cluster := &clusterv1.Cluster{}
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		*cluster = clusterv1.Cluster{}
		g.Expect(s.client.Get(ctx, s.key(name), cluster)).To(gomega.Succeed())
		for _, check := range checks {
			check(g, cluster)
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return cluster
}

func clusterCondition(conditionType string, status metav1.ConditionStatus) func(gomega.Gomega, *clusterv1.Cluster) {
	return func(g gomega.Gomega, cluster *clusterv1.Cluster) {
		c := conditions.Get(cluster, conditionType)
		g.Expect(c).NotTo(gomega.BeNil(), "condition %s of %s", conditionType, toJSON(cluster.Status.Conditions))
		g.Expect(c.Status).To(gomega.Equal(status), "%s: %s: %s", conditionType, c.Reason, c.Message)
	}
}

// TestClusterAvailableRequiresReadyReleases gates a Cluster's condition Available, which Cluster API's own manager
// computes, on two HelmOps.
func TestClusterAvailableRequiresReadyReleases(t *testing.T) {
	s := newScenario(t)
	s.clusters(testbed.ClusterOptions{Name: "one", Labels: map[string]string{"gated": "yes"},
		PodCIDRs: []string{"10.1.0.0/16"}})
	gated := func(helmOp *addonsv1.HelmOp) {
		helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"gated": "yes"}}
		helmOp.Spec.ClusterCondition = gate
		helmOp.Spec.Release.Name = helmOp.Name
	}
	cni, ccm := s.newHelmOp("cni", gated), s.newHelmOp("ccm", gated)
	available := func(status metav1.ConditionStatus) func(gomega.Gomega, *clusterv1.Cluster) {
		return clusterCondition(clusterv1.ClusterAvailableCondition, status)
	}
	invalid := helloValues(map[string]any{"greeting": 5})

	s.step("is not available without the condition", func(s *scenario) {
		update(s, s.cluster("one"), func(c *clusterv1.Cluster) {
			c.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: gate}}
		})
		s.eventuallyCluster("one", func(g gomega.Gomega, c *clusterv1.Cluster) {
			g.Expect(conditions.IsTrue(c, clusterv1.ClusterAvailableCondition)).To(gomega.BeFalse())
		})
	})
	s.step("is not available while one of two releases fails", func(s *scenario) {
		ccm.Spec.Values = invalid
		s.create(ccm)
		s.create(cni)
		s.child(cni, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
		cluster := s.eventuallyCluster("one", clusterCondition(gate, metav1.ConditionFalse), available(metav1.ConditionFalse),
			func(g gomega.Gomega, c *clusterv1.Cluster) {
				g.Expect(conditions.GetMessage(c, gate)).To(gomega.And(gomega.ContainSubstring("1 of 2"),
					gomega.ContainSubstring("ccm: "+addonsv1.ValuesInvalidReason)))
			})
		s.Expect(conditions.GetMessage(cluster, clusterv1.ClusterAvailableCondition)).To(gomega.ContainSubstring(gate))
	})
	s.step("is available when both are Ready, and needs no more writes", func(s *scenario) {
		update(s, ccm, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(nil) })
		cluster := s.eventuallyCluster("one", clusterCondition(gate, metav1.ConditionTrue), available(metav1.ConditionTrue))
		since := conditions.Get(cluster, gate).LastTransitionTime
		s.Consistently(func(g gomega.Gomega) {
			now := s.cluster("one")
			clusterCondition(gate, metav1.ConditionTrue)(g, now)
			g.Expect(conditions.Get(now, gate).LastTransitionTime).To(gomega.Equal(since))
		}).Should(gomega.Succeed())
	})
	s.step("is not available when a release breaks", func(s *scenario) {
		update(s, cni, func(h *addonsv1.HelmOp) { h.Spec.Values = invalid })
		s.eventuallyCluster("one", clusterCondition(gate, metav1.ConditionFalse), available(metav1.ConditionFalse))
	})
	s.step("ignores a HelmOp that no longer selects it, and does not change while it is paused", func(s *scenario) {
		s.pause("one", true)
		update(s, cni, func(h *addonsv1.HelmOp) { h.Spec.ClusterCondition = "" })
		s.Consistently(func(g gomega.Gomega) {
			clusterCondition(gate, metav1.ConditionFalse)(g, s.cluster("one"))
		}).Should(gomega.Succeed())
		s.pause("one", false)
		s.eventuallyCluster("one", clusterCondition(gate, metav1.ConditionTrue), available(metav1.ConditionTrue))
	})
	s.step("loses the condition with the last HelmOp that names it, and keeps other conditions", func(s *scenario) {
		s.remove(ccm)
		cluster := s.eventuallyCluster("one", func(g gomega.Gomega, c *clusterv1.Cluster) {
			g.Expect(conditions.Get(c, gate)).To(gomega.BeNil())
		})
		for _, other := range []string{clusterv1.ClusterInfrastructureReadyCondition,
			clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.PausedCondition} {
			s.Expect(conditions.Get(cluster, other)).NotTo(gomega.BeNil(), other)
		}
	})
}
