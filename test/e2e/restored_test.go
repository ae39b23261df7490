// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestHelmOpReleaseIsRestored deletes a HelmOpRelease, or removes its owner, while the release is still desired. HelmOp
// restores the HelmOpRelease and does not touch the release.
func TestHelmOpReleaseIsRestored(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	helmOp := s.newHelmOp("hello", forAll)
	s.create(helmOp)
	child := one.eventuallyReleased(helmOp, releaseNamespace, "hello", 1)

	s.step("re-creates a HelmOpRelease that a user deleted", func(s *scenario) {
		s.remove(child)
		s.Eventually(func(g gomega.Gomega) {
			current := &addonsv1.HelmOpRelease{}
			g.Expect(s.client.Get(s.Context(), client.ObjectKeyFromObject(child), current)).To(gomega.Succeed())
			g.Expect(current.UID).NotTo(gomega.Equal(child.UID))
			expectCondition(g, current, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
		}).Should(gomega.Succeed())
		one.in(s).expectUntouched()
		one.in(s).eventuallyRevisions(releaseNamespace, "hello", "1 deployed")
	})
	s.step("adopts a HelmOpRelease without owner and labels", func(s *scenario) {
		s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(child), child))
		update(s, child, func(r *addonsv1.HelmOpRelease) { r.OwnerReferences, r.Labels = nil, nil })
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(map[string]any{"greeting": "still here"}) })
		one.in(s).eventuallyReleased(helmOp, releaseNamespace, "hello", 2)
		one.in(s).eventuallyRevisions(releaseNamespace, "hello", "1 superseded", "2 deployed")
	})
	s.step("uninstalls nothing if a HelmOpRelease is restored before its HelmOp", func(s *scenario) {
		one.in(s).restoreReleaseFirst(helmOp)
	})
}

// TestLostReleasesFollowRollout loses all HelmOpReleases and HelmOpRevisions of two HelmOps, and changes the HelmOps
// before HelmOp creates them again. The releases change in the order of the rollout, not all at once. One HelmOpRelease
// of the second HelmOp is still under deletion when HelmOp goes on, as after a restore with owner references. So the
// next HelmOp revision of this HelmOp is not number 1.
func TestLostReleasesFollowRollout(t *testing.T) {
	s := newScenario(t)
	s.push(s.env.Registry, "charts/note", "1.0.0")
	workloads := s.clusters(
		testbed.ClusterOptions{Name: "canary", Labels: map[string]string{tierLabel: "canary"}},
		testbed.ClusterOptions{Name: "two", Host: "canary"}, testbed.ClusterOptions{Name: "three", Host: "canary"})
	helmOps := map[string]*addonsv1.HelmOp{}
	for _, name := range []string{"lost", "left"} {
		helmOps[name] = s.newHelmOp(name, forAll, s.rolling(canaryFirst(manually, atMost(1))), func(h *addonsv1.HelmOp) {
			h.Spec.Release.Namespace = name + "-{{ .Cluster.metadata.name }}"
		})
		s.create(helmOps[name])
	}
	eventuallyRevisions := func(w *workload, name string, want ...string) {
		w.in(s).eventuallyRevisions(name+"-"+w.name, name, want...)
	}
	for name, helmOp := range helmOps {
		s.eventually(helmOp, ready(len(workloads)), inPhase(1, addonsv1.RolloutPhaseComplete))
		update(s, helmOp, annotatePaused[*addonsv1.HelmOp](true))
		for i, w := range workloads {
			if child := s.child(helmOp, w.name); name == "left" && i == len(workloads)-1 {
				s.eventuallyPaused(child)
				s.remove(child)
			} else {
				s.loseRelease(child)
			}
		}
	}
	s.must(s.client.DeleteAllOf(s.Context(), &addonsv1.HelmOpRevision{}, client.InNamespace(s.namespace)))
	// The times of Helm's records have whole seconds.
	lost := time.Now().Unix()
	s.Eventually(func() int64 { return time.Now().Unix() }).Should(gomega.BeNumerically(">", lost))
	for name, number := range map[string]int64{"lost": 1, "left": 2} {
		helmOp := helmOps[name]
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.Values = rawJSON(greeting("two"))
			annotatePaused[*addonsv1.HelmOp](false)(h)
		})
		eventuallyRevisions(workloads[0], name, "1 superseded", "2 deployed")
		s.eventually(helmOp, inPhase(number, addonsv1.RolloutPhaseProgressing), progress(1, 1, 0), waitsFor("wave canary"))
		for _, w := range workloads[1:] {
			s.child(helmOp, w.name,
				childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.AdoptionPendingReason))
			eventuallyRevisions(w, name, "1 deployed")
		}
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, addonsv1.RolloutPromoteAnnotation, fmt.Sprintf("%d/canary", number))
		})
		s.eventually(helmOp, ready(len(workloads)), inPhase(number, addonsv1.RolloutPhaseComplete))
		for _, w := range workloads {
			eventuallyRevisions(w, name, "1 superseded", "2 deployed")
		}
	}
}

// restoreReleaseFirst deletes a HelmOp and its HelmOpRelease, and restores them from a backup of another management
// cluster that keeps owner references, the HelmOpRelease first. Garbage collection deletes the HelmOpRelease, because
// its owner does not exist. The release stays, and the HelmOp takes it over when it is restored. The manager waits for
// the HelmOp or for a user.
func (w *workload) restoreReleaseFirst(helmOp *addonsv1.HelmOp) {
	s := w.scenario
	s.Helper()
	backup := w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 2).DeepCopy()
	s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(helmOp), helmOp))
	restored := &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: helmOp.Namespace, Name: helmOp.Name, Labels: helmOp.Labels,
			Annotations: maps.Clone(helmOp.Annotations)},
		Spec: *helmOp.Spec.DeepCopy(),
	}
	s.lose(helmOp, backup.DeepCopy())
	const former = "5d0c8e1a-3b0f-4a53-8d55-6f3a3c0a9f10"
	w.relabelRecords(addonsv1.ManagementClusterAnnotation, former)
	metav1.SetMetaDataAnnotation(&backup.ObjectMeta, addonsv1.ManagementClusterAnnotation, former)

	release := &addonsv1.HelmOpRelease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: backup.Namespace, Name: backup.Name, Labels: backup.Labels, Annotations: backup.Annotations,
			Finalizers: backup.Finalizers, OwnerReferences: backup.OwnerReferences,
		},
		Spec: backup.Spec,
	}
	// During the pause, the manager does not take over the release before garbage collection deletes the HelmOpRelease.
	metav1.SetMetaDataAnnotation(&release.ObjectMeta, clusterv1.PausedAnnotation, "true")
	s.create(release)
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.client.Get(s.Context(), client.ObjectKeyFromObject(release), release)).To(gomega.Succeed())
		g.Expect(release.DeletionTimestamp).NotTo(gomega.BeNil(), "garbage collection deletes the HelmOpRelease")
	}).Should(gomega.Succeed())
	update(s, release, func(r *addonsv1.HelmOpRelease) { delete(r.Annotations, clusterv1.PausedAnnotation) })
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.client.Get(s.Context(), client.ObjectKeyFromObject(release), release)).To(gomega.Succeed())
		expectCondition(g, release, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.OwnerNotFoundReason)
		g.Expect(conditions.GetMessage(release, addonsv1.ReadyCondition)).To(gomega.And(
			gomega.ContainSubstring(fmt.Sprintf("HelmOp %q with the UID %s", helmOp.Name, helmOp.UID)),
			gomega.ContainSubstring(fmt.Sprintf("%s=%s", addonsv1.DeletionAdmittedAnnotation, helmOp.UID)),
		))
	}).Should(gomega.Succeed())
	s.eventuallyEvent(release, addonsv1.OwnerNotFoundReason)
	w.expectUntouched()
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"greeting": "still here"})

	s.create(restored)
	s.child(restored, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(child.UID).NotTo(gomega.Equal(release.UID))
			g.Expect(metav1.IsControlledBy(child, restored)).To(gomega.BeTrue(), "the owner of the HelmOpRelease: %s",
				toJSON(child.OwnerReferences))
			g.Expect(child.Status.Release).To(gomega.HaveValue(gomega.HaveField("Revision", gomega.BeEquivalentTo(2))))
		})
	s.eventually(restored, ready(1))
	w.expectUntouched()
	w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 superseded", "2 deployed")
}

// lose removes a HelmOp and its HelmOpRelease as if the management cluster were lost, without an uninstallation.
func (s *scenario) lose(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease) {
	s.Helper()
	update(s, helmOp, annotatePaused[*addonsv1.HelmOp](true))
	s.loseRelease(release)
	s.remove(helmOp)
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Finalizers = nil })
	s.eventuallyGone(helmOp)
}

// loseRelease removes the HelmOpRelease of a paused HelmOp without an uninstallation.
func (s *scenario) loseRelease(release *addonsv1.HelmOpRelease) {
	s.Helper()
	s.eventuallyPaused(release)
	s.remove(release)
	update(s, release, func(r *addonsv1.HelmOpRelease) { r.Finalizers = nil })
	s.eventuallyGone(release)
}

// eventuallyPaused waits until a HelmOpRelease is paused.
func (s *scenario) eventuallyPaused(release *addonsv1.HelmOpRelease) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.client.Get(s.Context(), client.ObjectKeyFromObject(release), release)).To(gomega.Succeed())
		expectCondition(g, release, addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason)
	}).Should(gomega.Succeed())
}
