// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestPause pauses each action in each possible way. HelmOp does nothing until the pause ends, and then does
// everything.
func TestPause(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"},
		Labels: map[string]string{addonsLabel: "paused"}})[0]
	helmOp := s.newHelmOp("paused")

	s.step("installation, by the Cluster", func(s *scenario) {
		one := one.in(s)
		s.pause("one", true)
		s.create(helmOp)
		s.eventually(helmOp, pausedClusters(1))
		one.expectUntouched()
		one.expectNothing(releaseNamespace, "paused")
		s.pause("one", false)
		one.eventuallyReleased(helmOp, releaseNamespace, "paused", 1)
		s.eventually(helmOp, ready(1))
	})
	s.step("upgrade, by the Cluster", func(s *scenario) {
		one := one.in(s)
		s.pause("one", true)
		s.eventually(helmOp, pausedClusters(1))
		s.child(helmOp, "one", childCondition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
		s.setGreeting(helmOp, "by the Cluster")
		s.eventually(helmOp, pausedClusters(1))
		one.expectUntouched()
		s.pause("one", false)
		one.expectGreeting(helmOp, 2, "by the Cluster")
		s.child(helmOp, "one", childCondition(addonsv1.PausedCondition, metav1.ConditionFalse, addonsv1.NotPausedReason))
	})
	s.step("upgrade, by spec.paused", func(s *scenario) {
		one := one.in(s)
		update(s, helmOp, pauseHelmOp(true))
		s.setGreeting(helmOp, "by spec.paused")
		s.eventually(helmOp, condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
		one.expectUntouched()
		update(s, helmOp, pauseHelmOp(false))
		one.expectGreeting(helmOp, 3, "by spec.paused")
		s.eventually(helmOp, condition(addonsv1.PausedCondition, metav1.ConditionFalse, addonsv1.NotPausedReason))
	})
	s.step("upgrade, by the annotation of the HelmOp", func(s *scenario) {
		one := one.in(s)
		update(s, helmOp, annotatePaused[*addonsv1.HelmOp](true))
		s.setGreeting(helmOp, "by annotation")
		s.eventually(helmOp, condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
		one.expectUntouched()
		update(s, helmOp, annotatePaused[*addonsv1.HelmOp](false))
		one.expectGreeting(helmOp, 4, "by annotation")
	})
	s.step("upgrade, by the annotation of the HelmOpRelease", func(s *scenario) {
		one := one.in(s)
		child := s.child(helmOp, "one")
		update(s, child, annotatePaused[*addonsv1.HelmOpRelease](true))
		s.setGreeting(helmOp, "by the child")
		s.eventually(helmOp, pausedClusters(1))
		one.expectUntouched()
		update(s, child, annotatePaused[*addonsv1.HelmOpRelease](false))
		one.expectGreeting(helmOp, 5, "by the child")
	})
	s.step("upgrade, by a mark that a move has left", func(s *scenario) {
		one := one.in(s)
		child := s.child(helmOp, "one")
		update(s, child, markMoved[*addonsv1.HelmOpRelease](true))
		s.child(helmOp, "one", childCondition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.BeingMovedReason))
		update(s, helmOp, markMoved[*addonsv1.HelmOp](true))
		s.eventually(helmOp, condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.BeingMovedReason))
		one.expectUntouched()
		update(s, helmOp, markMoved[*addonsv1.HelmOp](false))
		s.setGreeting(helmOp, "by a move")
		s.eventually(helmOp, pausedClusters(1))
		one.expectUntouched()
		update(s, child, markMoved[*addonsv1.HelmOpRelease](false))
		one.expectGreeting(helmOp, 6, "by a move")
		s.child(helmOp, "one", childCondition(addonsv1.PausedCondition, metav1.ConditionFalse, addonsv1.NotPausedReason))
	})
	s.step("upgrade, with a mark that a move has left on the Cluster", func(s *scenario) {
		one := one.in(s)
		message := "annotate clusters.cluster.x-k8s.io one " + clusterctlv1.DeleteForMoveAnnotation + "-"
		update(s, s.cluster("one"), markMoved[*clusterv1.Cluster](true))
		s.child(helmOp, "one",
			childCondition(addonsv1.ClusterBeingMovedCondition, metav1.ConditionTrue, addonsv1.BeingMovedReason),
			func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				g.Expect(conditions.GetMessage(child, addonsv1.ClusterBeingMovedCondition)).To(gomega.HaveSuffix(message))
			})
		s.eventually(helmOp, condition(addonsv1.ClusterBeingMovedCondition, metav1.ConditionTrue, addonsv1.BeingMovedReason))
		s.setGreeting(helmOp, "with a marked Cluster")
		one.expectGreeting(helmOp, 7, "with a marked Cluster")
		update(s, s.cluster("one"), markMoved[*clusterv1.Cluster](false))
		s.child(helmOp, "one", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(conditions.Has(child, addonsv1.ClusterBeingMovedCondition)).To(gomega.BeFalse())
		})
		s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(conditions.Has(h, addonsv1.ClusterBeingMovedCondition)).To(gomega.BeFalse())
		})
	})
	s.step("uninstallation of a Cluster that is unlabelled", func(s *scenario) {
		one := one.in(s)
		child := s.child(helmOp, "one")
		s.pause("one", true)
		s.label("one", addonsLabel, "")
		s.eventually(helmOp, func(g gomega.Gomega,
			h *addonsv1.HelmOp) {
			g.Expect(h.Status.Clusters.Selected).To(gomega.BeZero())
		})
		one.expectUntouched()
		one.eventuallyHello(releaseNamespace, "paused", map[string]string{"greeting": "with a marked Cluster"})
		s.pause("one", false)
		s.eventuallyGone(child)
		one.expectNothing(releaseNamespace, "paused")
	})
	s.step("uninstallation of a HelmOp that is deleted, by the Cluster", func(s *scenario) {
		one := one.in(s)
		s.label("one", addonsLabel, "paused")
		one.eventuallyReleased(helmOp, releaseNamespace, "paused", 1)
		s.pause("one", true)
		s.eventually(helmOp, pausedClusters(1))
		s.expectHeld(helmOp, one)
		s.pause("one", false)
		s.eventuallyGone(helmOp)
		one.expectNothing(releaseNamespace, "paused")
	})
	s.step("uninstallation of a HelmOp that is deleted, by spec.paused", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("paused")
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "paused", 1)
		update(s, helmOp, pauseHelmOp(true))
		s.expectHeld(helmOp, one)
		update(s, helmOp, pauseHelmOp(false))
		s.eventuallyGone(helmOp)
		one.expectNothing(releaseNamespace, "paused")
	})
}

// expectHeld deletes a paused HelmOp, and fails if HelmOp uninstalls a release.
func (s *scenario) expectHeld(helmOp *addonsv1.HelmOp, w *workload) {
	s.Helper()
	s.remove(helmOp)
	w.expectUntouched()
	w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")
	s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(helmOp), helmOp))
	s.Expect(helmOp.DeletionTimestamp.IsZero()).To(gomega.BeFalse())
	s.Expect(helmOp.Finalizers).To(gomega.ContainElement(addonsv1.HelmOpFinalizer))
}

func (w *workload) expectGreeting(helmOp *addonsv1.HelmOp, revision int, greeting string) {
	w.scenario.Helper()
	w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, revision)
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"greeting": greeting})
}

func pauseHelmOp(paused bool) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) { h.Spec.Paused = paused }
}

func annotatePaused[T client.Object](paused bool) func(T) {
	return annotate[T](clusterv1.PausedAnnotation, paused)
}

// markMoved sets the annotation of objects that clusterctl move is about to delete, or removes it.
func markMoved[T client.Object](marked bool) func(T) {
	return annotate[T](clusterctlv1.DeleteForMoveAnnotation, marked)
}

// annotate sets an annotation without a value, or removes it.
func annotate[T client.Object](key string, isSet bool) func(T) {
	return func(obj T) {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		delete(annotations, key)
		if isSet {
			annotations[key] = ""
		}
		obj.SetAnnotations(annotations)
	}
}

// pausedClusters checks that a HelmOp counts this number of paused Clusters.
func pausedClusters(count int) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Clusters).NotTo(gomega.BeNil())
		g.Expect(h.Status.Clusters.Paused).To(gomega.BeEquivalentTo(count))
	}
}
