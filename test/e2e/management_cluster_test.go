// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// managementAccount is the ServiceAccount that config/management-cluster gives all rights.
const managementAccount = "helmop-management"

// inManagementCluster makes a HelmOp one for the management cluster.
func inManagementCluster(helmOp *addonsv1.HelmOp) {
	helmOp.Spec.ClusterSelector, helmOp.Spec.Values = nil, nil
	helmOp.Spec.ManagementCluster = &addonsv1.ManagementCluster{ImpersonateServiceAccountName: managementAccount}
	// As with any ServiceAccount, it is not created unless somebody says so.
	helmOp.Spec.Install = &addonsv1.InstallOptions{CreateNamespace: ptr.To(true)}
}

// managementCluster is the management cluster as its administrator sees it, where releases are looked for.
func (s *scenario) managementCluster() *workload {
	return &workload{Client: s.client, scenario: s, name: clusterlink.Management.Name}
}

// allowInManagementCluster has the manager act in the management cluster as a ServiceAccount of the scenario's
// namespace that may do all.
func (s *scenario) allowInManagementCluster() {
	s.Helper()
	s.account(managementAccount)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + managementAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: managementAccount}},
	})
}

// account makes a ServiceAccount without any right, which the manager may act as.
func (s *scenario) account(name string) {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	s.create(&corev1.ServiceAccount{ObjectMeta: meta})
	s.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{name},
		Verbs: []string{"impersonate"},
	}}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: environment.Namespace,
			Name: environment.ServiceAccount}},
	})
}

// inNamespace is the same scenario in another namespace, whose registry Secrets it makes.
func (s *scenario) inNamespace(namespace string) *scenario {
	s.Helper()
	other := s.in(s.T)
	other.namespace = namespace
	s.must(s.env.CreateRegistrySecrets(s.Context(), namespace))
	return other
}

// A HelmOp of the namespace that the manager was told installs in the management cluster itself, with nothing but the
// RBAC that is shipped for it. What is written here of the objects is what the same test says of workload clusters.
func TestManagementCluster(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{Config: filepath.Join("config", "management-cluster")})
	s := newScenarioIn(t, env)
	system := s.inNamespace(environment.Namespace)
	w := system.managementCluster()

	system.step("plain manifests: installed, upgraded, pruned, deleted", func(s *scenario) {
		w.in(s).takeArtifactAs("things", artifactFormats()["flux"], inManagementCluster)
	})
	system.step("an upgrade that would delete a Cluster waits", func(s *scenario) { s.keepsClusters(w.in(s)) })
	system.step("a chart, kept from drifting", func(s *scenario) { s.keepsFromDrifting(w.in(s)) })
	system.step("templates see no Cluster", func(s *scenario) {
		helmOp := s.newHelmOp("templates", inManagementCluster,
			func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate = "cluster: {{ .Cluster.metadata.name }}" })
		s.create(helmOp)
		s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason),
			func(g gomega.Gomega, h *addonsv1.HelmOp) {
				g.Expect(h.Status.Failures).To(gomega.HaveLen(1))
				g.Expect(h.Status.Failures[0].Message).To(gomega.ContainSubstring(`no key "Cluster"`))
			})
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
	})
	system.step("another ServiceAccount cannot be acted as", func(s *scenario) {
		helmOp := s.newHelmOp("other", inManagementCluster, func(h *addonsv1.HelmOp) {
			h.Spec.ManagementCluster.ImpersonateServiceAccountName = environment.ServiceAccount
		})
		s.create(helmOp)
		s.child(helmOp, w.name, childCondition(addonsv1.ReadyCondition, metav1.ConditionFalse,
			addonsv1.ClusterForbiddenReason))
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan })
		s.remove(helmOp)
		s.eventuallyGone(helmOp)
	})
	system.step("suspended: nothing begins, and nothing ends", func(s *scenario) { s.restsWhileSuspended(w.in(s)) })
	system.step("one after the other", func(s *scenario) { s.waitsForOther(w.in(s)) })
	system.step("a ServiceAccount with too few rights", func(s *scenario) { s.lacksRights(w.in(s)) })
	system.step("records in a registry and in parts", func(s *scenario) { s.keepsRecordsElsewhere(w.in(s)) })
	system.step("another shard's", func(s *scenario) { s.isOfOtherShard(w.in(s)) })
	s.step("a HelmOp of another namespace gets nothing", func(s *scenario) { s.isLeftOut() })
}

// Without the flag nobody gets in, and what is asked for is said to be refused.
func TestManagementClusterIsOffByDefault(t *testing.T) {
	newScenario(t).isLeftOut()
}

// isLeftOut creates a HelmOp for the management cluster in a namespace whose HelmOps may not.
func (s *scenario) isLeftOut() {
	s.Helper()
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: managementAccount}})
	helmOp := s.newHelmOp("refused", inManagementCluster)
	s.create(helmOp)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ClusterAccessDeniedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Failures).To(gomega.HaveLen(1))
			g.Expect(h.Status.Failures[0].Message).To(gomega.ContainSubstring("--management-cluster-namespaces"))
		})
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.children(ctx, g, helmOp)).To(gomega.BeEmpty())
		err := s.client.Get(ctx, client.ObjectKey{Namespace: releaseNamespace, Name: helmOp.Name}, &corev1.ConfigMap{})
		g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
}

// keepsFromDrifting installs a chart whose objects are put right when somebody changes or deletes them.
func (s *scenario) keepsFromDrifting(w *workload) {
	helmOp := s.newHelmOp("drift", inManagementCluster, func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(map[string]any{"cluster": "{{ .Release.Name }}", "podCIDR": "10.0.0.0/8"})
		h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
	})
	s.create(helmOp)
	w.eventuallyReleased(helmOp, releaseNamespace, helmOp.Name, 1)
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"cluster": helmOp.Name})
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: helmOp.Name}}
	s.must(w.Patch(s.Context(), configMap, client.RawPatch(types.MergePatchType, []byte(`{"data":{"cluster":"other"}}`))))
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"cluster": helmOp.Name})
	s.must(w.Delete(s.Context(), configMap))
	w.eventuallyHello(releaseNamespace, helmOp.Name, map[string]string{"cluster": helmOp.Name})
	w.eventuallyRevisions(releaseNamespace, helmOp.Name, "1 deployed")
	s.eventually(helmOp, ready(1))
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	w.eventuallyRevisions(releaseNamespace, helmOp.Name)
}
