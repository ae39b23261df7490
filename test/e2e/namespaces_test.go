// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestClustersOfOtherNamespaces has HelmOps that select a Cluster of another namespace. They get a release only if a
// role in the other namespace permits the ServiceAccount to get the Cluster's kubeconfig.
func TestClustersOfOtherNamespaces(t *testing.T) {
	shop := newScenario(t)
	platform := newScenarioIn(t, shop.env)
	meta := metav1.ObjectMeta{Namespace: shop.namespace, Name: "platform"}
	shop.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one-kubeconfig"},
			Verbs: []string{"get"}},
	}})
	shop.create(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: platform.namespace, Name: "granted"}},
	})
	one := shop.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"},
		Labels: map[string]string{addonsLabel: "shared"}})[0]
	across := func(name, account string) *addonsv1.HelmOp {
		return platform.newHelmOp(name, func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector.MatchLabels[addonsLabel] = "shared"
			h.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{
				NamespaceSelector: metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: shop.namespace},
				},
				AuthorizationServiceAccountName: account,
			}
		})
	}
	granted, refused := across("granted", "granted"), across("refused", "another")
	without := platform.newHelmOp("without",
		func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels[addonsLabel] = "shared" })
	for _, helmOp := range []*addonsv1.HelmOp{refused, without, granted} {
		platform.create(helmOp)
	}
	platform.eventually(granted, ready(1))
	one.eventuallyReleased(granted, releaseNamespace, "granted", 1)
	child := platform.child(granted, "one")
	platform.Expect(child.Spec.ClusterRef.Namespace).To(gomega.Equal(shop.namespace))

	platform.eventually(refused, ready(0), func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(conditions.GetMessage(h,
			addonsv1.RollingOutCondition)).To(gomega.ContainSubstring("1 Cluster in another namespace is not selected: " +
			"ServiceAccount another may not get its kubeconfig"))
	})
	platform.eventually(without, ready(0))
	for _, name := range []string{"refused", "without"} {
		one.eventuallyRevisions(releaseNamespace, name)
	}

	// The assigned revision follows the labels of a Cluster in another namespace, too.
	shop.label("one", addonsLabel, "")
	platform.eventuallyGone(child)
	one.expectNothing(releaseNamespace, "granted")
}
