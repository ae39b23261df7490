// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestLifecycle is the main scenario: a HelmOp selects two of three Clusters, and users change the HelmOp and the
// Clusters.
func TestLifecycle(t *testing.T) {
	s := newScenario(t)
	matching := map[string]string{addonsLabel: "hello"}
	clusters := s.clusters(
		testbed.ClusterOptions{Name: "one", Labels: matching, PodCIDRs: []string{"10.1.0.0/16"}},
		testbed.ClusterOptions{Name: "two", Labels: matching, PodCIDRs: []string{"10.2.0.0/16"}},
		testbed.ClusterOptions{Name: "three", PodCIDRs: []string{"10.3.0.0/16"}},
	)
	one, two, three := clusters[0], clusters[1], clusters[2]
	helmOp := s.newHelmOp("hello")

	s.step("installs with the values of each Cluster", func(s *scenario) {
		s.create(helmOp)
		for _, w := range []*workload{one.in(s), two.in(s)} {
			w.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
		}
		one.in(s).eventuallyHello(releaseNamespace, "hello",
			map[string]string{"cluster": "one", "podCIDR": "10.1.0.0/16", "chartVersion": "1.0.0"})
		two.in(s).eventuallyHello(releaseNamespace, "hello", map[string]string{"cluster": "two", "podCIDR": "10.2.0.0/16"})
		s.expectDaemonSetCIDR(one, "10.1.0.0/16")
		three.in(s).expectNothing(releaseNamespace, "hello")
		current := s.eventually(helmOp, ready(2))
		s.Expect(current.Status.Artifact.Version).To(gomega.Equal("1.0.0"))
		s.Expect(current.Status.Artifact.Digest).To(gomega.HavePrefix("sha256:"))
	})
	s.step("upgrades when the values change", func(s *scenario) {
		update(s, helmOp,
			func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": "good morning"}) })
		for _, w := range []*workload{one.in(s), two.in(s)} {
			child := w.eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
			w.eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
			w.eventuallyHello(releaseNamespace, "hello", map[string]string{"cluster": w.name, "greeting": "good morning"})
			s.Expect(child.Status.History[0].Reason).To(gomega.Equal("ValuesChanged"))
		}
		s.eventually(helmOp, ready(2))
	})
	s.step("installs in a Cluster that is labelled later", func(s *scenario) {
		s.label("three", addonsLabel, "hello")
		w := three.in(s)
		w.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)
		w.eventuallyHello(releaseNamespace, "hello",
			map[string]string{"cluster": "three", "podCIDR": "10.3.0.0/16", "greeting": "good morning"})
		s.eventually(helmOp, ready(3))
		one.in(s).eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
	})
	s.step("uninstalls from a Cluster that is no longer labelled", func(s *scenario) {
		child := s.child(helmOp, "two")
		s.label("two", addonsLabel, "")
		s.eventuallyGone(child)
		two.in(s).expectNothing(releaseNamespace, "hello")
		s.eventually(helmOp, ready(2))
		one.in(s).eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
	})
	s.step("uninstalls from all Clusters when it is deleted", func(s *scenario) {
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
		s.Expect(s.children(s.Context(), s, helmOp)).To(gomega.BeEmpty())
		for _, w := range []*workload{one.in(s), two.in(s), three.in(s)} {
			w.expectNothing(releaseNamespace, "hello")
		}
	})
}

func (s *scenario) expectDaemonSetCIDR(w *workload, cidr string) {
	s.Helper()
	daemonSet := &appsv1.DaemonSet{}
	s.must(w.Get(s.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "hello"}, daemonSet))
	s.Expect(daemonSet.Spec.Template.Spec.Containers[0].Env[0].Value).To(gomega.Equal(cidr))
}
