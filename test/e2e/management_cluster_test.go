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

// managementAccount is the ServiceAccount to which config/management-cluster grants all rights.
const managementAccount = "helmop-management"

// inManagementCluster sets the management cluster as the target of a HelmOp.
func inManagementCluster(helmOp *addonsv1.HelmOp) {
	helmOp.Spec.ClusterSelector, helmOp.Spec.Values = nil, nil
	helmOp.Spec.ManagementCluster = &addonsv1.ManagementCluster{ImpersonateServiceAccountName: managementAccount}
	// As with any ServiceAccount, the namespace is not created by default.
	helmOp.Spec.Install = &addonsv1.InstallOptions{CreateNamespace: ptr.To(true)}
}

// managementCluster returns the management cluster with its administrator's rights, to check releases in it.
func (s *scenario) managementCluster() *workload {
	return &workload{Client: s.client, scenario: s, name: clusterlink.Management.Name}
}

// allowInManagementCluster permits the manager to impersonate, in the management cluster, a ServiceAccount of the
// scenario's namespace with all rights.
func (s *scenario) allowInManagementCluster() {
	s.Helper()
	s.account(managementAccount)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + managementAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: managementAccount}},
	})
}

// account creates a ServiceAccount without any right, and permits the manager to impersonate it.
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

// inNamespace returns the same scenario in another namespace, and creates the registry Secrets there.
func (s *scenario) inNamespace(namespace string) *scenario {
	s.Helper()
	other := s.in(s.T)
	other.namespace = namespace
	s.must(s.env.CreateRegistrySecrets(s.Context(), namespace))
	return other
}

// TestManagementCluster installs in the management cluster itself, as a HelmOp of a namespace that a flag of the
// manager names. The manager has only the RBAC that is shipped for this purpose. The tests of workload clusters check
// the objects in the same way.
func TestManagementCluster(t *testing.T) {
	begin(t)
	env := ownEnvironment(t, environment.Options{Config: filepath.Join("config", "management-cluster")})
	s := newScenarioIn(t, env)
	system := s.inNamespace(environment.Namespace)
	w := system.managementCluster()

	system.step("installs, upgrades, prunes and deletes plain manifests", func(s *scenario) {
		w.in(s).takeArtifactAs("things", artifactFormats()["flux"], inManagementCluster)
	})
	system.step("holds an upgrade that would delete a Cluster", func(s *scenario) { s.keepsClusters(w.in(s)) })
	system.step("corrects the drift of a chart", func(s *scenario) { s.keepsFromDrifting(w.in(s)) })
	system.step("templates have no Cluster", func(s *scenario) {
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
	system.step("the manager may not impersonate another ServiceAccount", func(s *scenario) {
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
	system.step("a paused HelmOp neither installs nor uninstalls", func(s *scenario) { s.restsWhilePaused(w.in(s)) })
	system.step("changes wait for their approval", func(s *scenario) { s.waitsForApproval(w.in(s)) })
	system.step("HelmOps wait for their dependencies", func(s *scenario) { s.waitsForOther(w.in(s)) })
	system.step("names the missing rights of a ServiceAccount", func(s *scenario) { s.lacksRights(w.in(s)) })
	system.step("keeps records in a registry and in parts", func(s *scenario) { s.keepsRecordsInRegistry(w.in(s)) })
	system.step("a HelmOp of another shard waits for its manager", func(s *scenario) { s.isOfOtherShard(w.in(s)) })
	s.step("refuses a HelmOp of another namespace", func(s *scenario) { s.isRefused() })
}

// TestManagementClusterIsOffByDefault checks that no HelmOp installs in the management cluster without the flag, and
// that the condition reports this.
func TestManagementClusterIsOffByDefault(t *testing.T) {
	newScenario(t).isRefused()
}

// isRefused creates a HelmOp for the management cluster in a namespace whose HelmOps may not install there.
func (s *scenario) isRefused() {
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

// keepsFromDrifting installs a chart whose objects are corrected when a user changes or deletes them.
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
