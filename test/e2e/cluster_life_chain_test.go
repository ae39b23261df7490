// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// Further versions that control planes report in these tests.
const (
	kubernetes134 = "v1.34.7"
	kubernetes137 = "v1.37.1"
)

// chainWorkers is the class of the workers in the class "chain".
const chainWorkers = "workers"

// chainClass creates a ClusterClass whose Clusters are upgraded through several minor versions.
func (s *scenario) chainClass() {
	s.Helper()
	s.must(s.env.Management.CreateClass(s.Context(), testbed.ClassOptions{Namespace: s.namespace, Name: "chain",
		Workers: chainWorkers, KubernetesVersions: []string{kubernetes134, kubernetes135, kubernetes136, kubernetes137}}))
}

// chainCluster creates a Cluster of the class "chain", with workers of a class unless the class is empty. It also
// creates a HelmOp with another version of the add-on for each step. It waits until both are ready for an upgrade.
func (s *scenario) chainCluster(name, workers string, change ...func(*addonsv1.HelmOp)) (*workload, *addonsv1.HelmOp) {
	s.Helper()
	helmOp := s.newHelmOp(name, append([]func(*addonsv1.HelmOp){func(h *addonsv1.HelmOp) {
		h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{
			Timeout: metav1.Duration{Duration: 30 * time.Minute}}
		for _, ref := range [][2]string{{">=1.37", "2.0.0"}, {">=1.36", "1.2.0-rc.1"}, {">=1.35", "1.1.0"}} {
			h.Spec.RefsByKubernetesVersion = append(h.Spec.RefsByKubernetesVersion,
				addonsv1.KubernetesVersionReference{KubernetesVersion: ref[0],
					Ref: addonsv1.ArtifactReference{Tag: ref[1]}})
		}
	}}, change...)...)
	s.create(helmOp)
	_, err := s.env.Management.CreateClassCluster(s.Context(), "chain", testbed.ClusterOptions{
		Namespace: s.namespace, Name: name, Version: kubernetes134, Labels: map[string]string{addonsLabel: name},
		PodCIDRs: []string{"10.1.0.0/16"}, Workers: workers,
	})
	s.must(err)
	w := s.workload(name)
	w.eventuallyReleased(helmOp, releaseNamespace, name, 1)
	s.eventuallyCluster(name, upgradeHoldIs(name, gomega.Equal(kubernetes134)), created)
	return w, helmOp
}

// eventuallyAssigned waits until the release of a Cluster has the chart for a version of Kubernetes and is Ready.
func (s *scenario) eventuallyAssigned(helmOp *addonsv1.HelmOp, kubernetes, chart string) {
	s.Helper()
	s.child(helmOp, helmOp.Name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Spec.KubernetesVersion).To(gomega.Equal(kubernetes))
			g.Expect(child.Spec.Artifact.Version).To(gomega.Equal(chart))
		})
}

// expectNoWarnings checks that no Warning about the life of a Cluster was recorded.
func (s *scenario) expectNoWarnings(name string) {
	s.Helper()
	list := &eventsv1.EventList{}
	s.must(s.client.List(s.Context(), list, client.InNamespace(s.namespace)))
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Name == name && e.Regarding.Kind == "Cluster" {
			s.Expect(e.Type).To(gomega.Equal(corev1.EventTypeNormal), "%s: %s", e.Reason, e.Note)
		}
	}
}

// TestClusterUpgradeStepByStep upgrades a Cluster over three minor versions. For each step of Cluster API's plan, the
// release gets the version of the add-on for this step.
func TestClusterUpgradeStepByStep(t *testing.T) {
	s := newScenario(t)
	s.chainClass()
	w, helmOp := s.chainCluster("chained", "")
	key := s.key("chained")
	atStep := func(g gomega.Gomega, ctx context.Context, specified, running string) {
		controlPlane, err := s.env.Management.ControlPlane(ctx, key)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect([]string{controlPlane.Spec.Version, controlPlane.Status.Version}).To(
			gomega.Equal([]string{specified, running}))
	}
	s.step("is held until the release is ready for the first step", func(s *scenario) {
		s.must(s.env.Management.HoldUpgrade(s.Context(), key, true))
		s.must(s.env.Management.Upgrade(s.Context(), key, kubernetes137))
		note := s.eventuallyEventText("Cluster", "chained", corev1.EventTypeNormal, addonsv1.ClusterUpgradeReleasedEvent)
		s.Expect(note).To(gomega.ContainSubstring("The upgrade to %s, with the next step %s, can continue", kubernetes137,
			kubernetes135))
		s.eventuallyAssigned(helmOp, kubernetes135, "1.1.0")
	})
	previous := kubernetes134
	for _, step := range []struct{ version, chart string }{
		{kubernetes135, "1.1.0"}, {kubernetes136, "1.2.0-rc.1"}, {kubernetes137, "2.0.0"},
	} {
		s.step("has the version for the step to "+step.version, func(s *scenario) {
			s.Eventually(func(g gomega.Gomega, ctx context.Context) {
				atStep(g, ctx, step.version, previous)
			}).WithContext(s.Context()).Should(gomega.Succeed())
			s.eventuallyAssigned(helmOp, step.version, step.chart)
			s.Consistently(func(g gomega.Gomega) {
				child := s.children(s.Context(), g, helmOp)["chained"]
				g.Expect(child.Spec.KubernetesVersion).To(gomega.Equal(step.version))
				upgradeHoldIs("chained", gomega.BeEmpty())(g, s.cluster("chained"))
			}).Should(gomega.Succeed())
			s.must(s.env.Management.FinishStep(s.Context(), key))
		})
		previous = step.version
	}
	s.step("is held again for the next upgrade, after no Warning", func(s *scenario) {
		s.eventuallyCluster("chained", upgradeHoldIs("chained", gomega.Equal(kubernetes137)), created,
			func(g gomega.Gomega, cluster *clusterv1.Cluster) {
				g.Expect(cluster.Annotations).NotTo(gomega.HaveKey(clusterv1.ClusterTopologyUpgradeStepAnnotation))
			})
		w.in(s).eventuallyRevisions(releaseNamespace, "chained", "1 superseded", "2 superseded", "3 superseded",
			"4 deployed")
		s.expectNoWarnings("chained")
	})
}
