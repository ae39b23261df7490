// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// nearHelmOp returns a HelmOp that installs the chart hello in the management cluster.
func (s *scenario) nearHelmOp(name string, change ...func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	return s.newHelmOp(name, append([]func(*addonsv1.HelmOp){inManagementCluster, func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(map[string]any{"cluster": name, "podCIDR": "10.0.0.0/8"})
	}}, change...)...)
}

// expectNoHello fails if a release of the chart hello exists now or soon.
func (w *workload) expectNoHello(name string) {
	w.scenario.Helper()
	w.scenario.Consistently(func(g gomega.Gomega, ctx context.Context) {
		data, err := w.hello(ctx, releaseNamespace, name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(data).To(gomega.BeNil())
	}).WithContext(w.scenario.Context()).Should(gomega.Succeed())
}

// restsWhilePaused pauses a HelmOp before it installs and before it uninstalls, and pauses its release in between.
func (s *scenario) restsWhilePaused(w *workload) {
	helmOp := s.nearHelmOp("resting", func(h *addonsv1.HelmOp) { h.Spec.Paused = true })
	s.create(helmOp)
	s.eventually(helmOp, condition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
	w.expectNoHello("resting")
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = false })
	child := w.eventuallyReleased(helmOp, releaseNamespace, "resting", 1)

	update(s, child, func(r *addonsv1.HelmOpRelease) { r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	s.child(helmOp, w.name, childCondition(addonsv1.PausedCondition, metav1.ConditionTrue, addonsv1.PausedReason))
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(map[string]any{"cluster": "changed", "podCIDR": "10.0.0.0/8"})
	})
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = true })
	s.remove(helmOp)
	w.expectUntouched()
	w.eventuallyHello(releaseNamespace, "resting", map[string]string{"cluster": "resting"})
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = false })
	w.expectUntouched()
	update(s, child, func(r *addonsv1.HelmOpRelease) { delete(r.Annotations, clusterv1.PausedAnnotation) })
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "resting")
}

// waitsForOther has a HelmOp for the management cluster that depends on another such HelmOp, and on a HelmOp for
// Clusters.
func (s *scenario) waitsForOther(w *workload) {
	second := s.nearHelmOp("second",
		func(h *addonsv1.HelmOp) { h.Spec.DependsOn = []addonsv1.Dependency{{Name: "first"}} })
	s.create(second)
	waits := func(text string) {
		s.Helper()
		s.child(second, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse,
			addonsv1.WaitingForDependenciesReason),
			func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				g.Expect(conditions.GetMessage(child, addonsv1.ReadyCondition)).To(gomega.ContainSubstring(text))
			})
	}
	waits("HelmOp first does not exist")
	first := s.newHelmOp("first")
	s.create(first)
	waits("HelmOp first does not select the management cluster")
	s.remove(first)
	s.eventuallyGone(first)
	first = s.nearHelmOp("first")
	s.create(first)
	w.eventuallyReleased(first, releaseNamespace, "first", 1)
	w.eventuallyReleased(second, releaseNamespace, "second", 1)

	// The HelmOps that depend on it are uninstalled first.
	s.remove(first)
	s.child(first, w.name, func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(conditions.GetMessage(child, addonsv1.ReadyCondition)).To(gomega.ContainSubstring("second"))
	})
	w.eventuallyHello(releaseNamespace, "first", map[string]string{"cluster": "first"})
	s.remove(second)
	s.eventuallyGone(second)
	s.eventuallyGone(first)
	w.eventuallyRevisions(releaseNamespace, "first")
}

// waitsForApproval requires approvals of the installation and of a change.
func (s *scenario) waitsForApproval(w *workload) {
	helmOp := s.nearHelmOp("approved", func(h *addonsv1.HelmOp) {
		h.Spec.Rollout = &addonsv1.Rollout{Approval: addonsv1.ApprovalPolicyRequired}
	})
	s.create(helmOp)
	digest := s.awaitsApproval(helmOp, 1, 1)
	w.expectNoHello(helmOp.Name)
	s.approve(helmOp, digest)
	w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)

	s.setValues(helmOp, map[string]any{"cluster": "changed", "podCIDR": "10.0.0.0/8"})
	digest = s.awaitsApproval(helmOp, 2, 1, condition(addonsv1.ReadyCondition, metav1.ConditionFalse,
		addonsv1.WaitingForApprovalReason))
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"cluster": helmOp.Name})
	s.approve(helmOp, digest)
	w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 2)
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"cluster": "changed"})
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
}

// lacksRights installs as a ServiceAccount that gets its rights one after the other. Each time, the message names the
// missing right.
func (s *scenario) lacksRights(w *workload) {
	s.account("limited")
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limited"}})
	helmOp := s.nearHelmOp("limited", func(h *addonsv1.HelmOp) {
		h.Spec.ManagementCluster.ImpersonateServiceAccountName, h.Spec.Release.Namespace, h.Spec.Install = "limited",
			"limited", nil
	})
	lacks := func(texts ...string) {
		s.Helper()
		s.child(helmOp, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse,
			addonsv1.ClusterForbiddenReason),
			func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
				for _, text := range texts {
					g.Expect(conditions.GetMessage(child, addonsv1.ReadyCondition)).To(gomega.ContainSubstring(text))
				}
			})
	}
	s.create(helmOp)
	lacks("system:serviceaccount:"+environment.Namespace+":limited", "secrets")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "limited"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"},
	}}}
	s.create(role)
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "limited"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "limited"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: environment.Namespace, Name: "limited"}},
	})
	s.retry(helmOp)
	lacks("serviceaccounts")
	update(s, role, func(r *rbacv1.Role) {
		r.Rules[0].APIGroups, r.Rules[0].Resources = []string{"", "apps"}, []string{"*"}
	})
	s.retry(helmOp)
	s.child(helmOp, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
	w.eventuallyHello("limited", "limited", map[string]string{"cluster": "limited"})
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions("limited", "limited")
}

// retry requests a retry.
func (s *scenario) retry(helmOp *addonsv1.HelmOp) {
	s.Helper()
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: time.Now().Format(time.RFC3339Nano)}
	})
}

// keepsRecordsInRegistry keeps the records of a release in a registry, then in Secrets that each have a part, until the
// release is uninstalled.
func (s *scenario) keepsRecordsInRegistry(w *workload) {
	r, storage := s.recordsIn("near-records")
	s.pushNoisy("near/noisy", 1, "1.0.0", "1.1.0")
	helmOp := s.nearHelmOp("noisy", s.from("near/noisy", addonsv1.ArtifactReference{Tag: "1.0.0"}),
		func(h *addonsv1.HelmOp) {
			h.Spec.Values, h.Spec.Storage = nil, storage
		})
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, "noisy", 1)
	w.expectPointers("noisy", 0)
	s.Expect(s.tags(r, "records")).To(gomega.ConsistOf(gomega.HavePrefix("management-cluster.noisy.v1.")))
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Storage.Type, h.Spec.Source.Ref.Tag = addonsv1.StorageTypeCluster, "1.1.0"
	})
	w.eventuallyReleased(helmOp, releaseNamespace, "noisy", 2)
	w.expectPointers("noisy", 6)
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "noisy")
	s.Expect(w.parts("noisy")).To(gomega.BeZero())
	s.Expect(s.tags(r, "records")).To(gomega.BeEmpty())
}

// isOfOtherShard creates a HelmOp of a shard without a manager, and then starts a manager for the shard.
func (s *scenario) isOfOtherShard(w *workload) {
	helmOp := s.nearHelmOp("sharded", func(h *addonsv1.HelmOp) { h.Labels = map[string]string{addonsv1.ShardLabel: "b"} })
	s.create(helmOp)
	w.expectNoHello("sharded")
	manager, err := s.env.StartManager(s.Context(), "--shard=b")
	s.must(err)
	w.eventuallyReleased(helmOp, releaseNamespace, "sharded", 1)
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, "sharded")
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(manager.Stop(ctx))
	s.must(client.IgnoreNotFound(s.client.Get(s.Context(), client.ObjectKeyFromObject(helmOp), helmOp)))
}
