// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestReleaseChanges changes the options, the identity and the owner of a release.
func TestReleaseChanges(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Labels: map[string]string{
		"orphan-unlabel": "yes",
	}})[0]

	s.part("options change", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("options", forAll)
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "options", 1)
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": "again"}) })
		one.eventuallyReleased(helmOp, releaseNamespace, "options", 2)
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.Upgrade = &addonsv1.UpgradeOptions{MaxHistory: ptr.To[int32](2)}
		})
		child := one.eventuallyReleased(helmOp, releaseNamespace, "options", 3)
		s.Expect(child.Status.History[0].Reason).To(gomega.Equal("OptionsChanged"))
		one.eventuallyRevisions(releaseNamespace, "options", "2 superseded", "3 deployed")

		// A changed timeout does not change what Helm writes.
		update(s, helmOp,
			func(h *addonsv1.HelmOp) {
				h.Spec.Upgrade.Timeout = &metav1.Duration{Duration: sourceInterval.Duration * 77}
			})
		s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.Spec.Upgrade.Timeout).NotTo(gomega.BeNil())
			g.Expect(child.Status.ObservedGeneration).To(gomega.Equal(child.Generation))
		})
		s.eventually(helmOp, ready(1))
		one.eventuallyRevisions(releaseNamespace, "options", "2 superseded", "3 deployed")
	})
	s.part("name and namespace change", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("identity", forAll)
		s.create(helmOp)
		before := one.eventuallyReleased(helmOp, releaseNamespace, "identity", 1)
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "renamed-{{ .Cluster.metadata.name }}" })
		after := one.eventuallyReleased(helmOp, releaseNamespace, "renamed-one", 1)
		s.Expect(after.Name).To(gomega.Equal(before.Name), "the name of the HelmOpRelease is computed")
		s.Expect(after.UID).NotTo(gomega.Equal(before.UID))
		one.eventuallyRevisions(releaseNamespace, "identity")

		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Release.Namespace = "other-namespace" })
		one.eventuallyReleased(helmOp, "other-namespace", "renamed-one", 1)
		one.eventuallyHello("other-namespace", "renamed-one", map[string]string{"cluster": "one"})
		one.eventuallyRevisions(releaseNamespace, "renamed-one")
		s.eventually(helmOp, ready(1))
	})
	s.part("orphaned when unlabelled", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("unlabel", selecting("orphan-unlabel"), orphan)
		s.create(helmOp)
		child := one.eventuallyReleased(helmOp, releaseNamespace, "unlabel", 1)
		s.label("one", "orphan-unlabel", "")
		s.eventuallyGone(child)
		one.eventuallyHello(releaseNamespace, "unlabel", map[string]string{"cluster": "one"})
		one.eventuallyRevisions(releaseNamespace, "unlabel", "1 deployed")
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.NoClustersSelectedReason))
	})
	s.part("orphaned when deleted", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("delete", forAll)
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "delete", 1)
		// The deletion follows at once, before the HelmOpReleases have the new policy.
		update(s, helmOp, orphan)
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
		one.eventuallyHello(releaseNamespace, "delete", map[string]string{"cluster": "one"})
		one.eventuallyRevisions(releaseNamespace, "delete", "1 deployed")
	})
	s.part("two HelmOps with one release name", func(s *scenario) { testConflict(s, one.in(s)) })
}

// testConflict has two HelmOps with the same release name.
func testConflict(s *scenario, one *workload) {
	const name = "shared"
	named := func(h *addonsv1.HelmOp) { h.Spec.Release.Name = name }
	first := s.newHelmOp("first", forAll, named)
	s.create(first)
	one.eventuallyReleased(first, releaseNamespace, name, 1)

	greeting := func(text string) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": text}) }
	}
	second := s.newHelmOp("second", forAll, named, greeting("mine"))
	s.create(second)
	s.expectConflict(second)
	one.eventuallyRevisions(releaseNamespace, name, "1 deployed")
	s.eventually(first, ready(1))

	// The deletion of the HelmOp in conflict must not touch the release of the other one.
	s.remove(second)
	s.eventuallyGone(second)
	one.eventuallyRevisions(releaseNamespace, name, "1 deployed")
	one.eventuallyHello(releaseNamespace, name, map[string]string{"greeting": "hello"})

	third := s.newHelmOp("third", forAll, named, greeting("mine"))
	s.create(third)
	s.expectConflict(third)
	s.remove(first)
	s.eventuallyGone(first)
	one.eventuallyReleased(third, releaseNamespace, name, 1)
	one.eventuallyHello(releaseNamespace, name, map[string]string{"greeting": "mine"})
	s.eventually(third, ready(1))
}

func (s *scenario) expectConflict(helmOp *addonsv1.HelmOp) {
	s.Helper()
	s.child(helmOp, "one",
		childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleaseConflictReason),
		childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse, addonsv1.ReleaseConflictReason))
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Clusters.Failed).To(gomega.BeEquivalentTo(1))
			g.Expect(h.Status.Failures).To(gomega.HaveLen(1))
			g.Expect(h.Status.Failures[0].Reason).To(gomega.Equal(addonsv1.ReleaseConflictReason))
		})
}

func orphan(helmOp *addonsv1.HelmOp) { helmOp.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }

// selecting selects the Clusters with a label of any value.
func selecting(label string) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: label, Operator: metav1.LabelSelectorOpExists},
		}}
	}
}
