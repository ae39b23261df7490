// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestUserRoles applies config/user-roles. For users with Kubernetes' own roles, it asks the API server for each
// permission on HelmOp's objects, and compares the answers with docs/multi-tenancy.md.
func TestUserRoles(t *testing.T) {
	s := newScenario(t)
	data, err := os.ReadFile(filepath.Join(s.env.Root(), "config", "user-roles", "clusterroles.yaml"))
	s.must(err)
	applied := s.decode(data)
	s.Expect(rolesOf(applied)).To(gomega.Equal(s.documentedRoles()), "docs/multi-tenancy.md has other roles")
	for _, role := range []string{"view", "edit", "admin"} {
		s.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role + "-user"}},
		})
	}
	// The roles have no rules for Secrets. A user who may read them may read the kubeconfigs of Clusters.
	secrets := map[string]bool{"view": false, "edit": true, "admin": true}
	for role, may := range secrets {
		s.Eventually(func() bool { return s.may(role+"-user", s.namespace, "", "secrets", "get") }).
			Should(gomega.Equal(may), role)
		s.Expect(s.rights(role+"-user", s.namespace)).To(gomega.BeEmpty(), "%s without config/user-roles", role)
	}
	for _, obj := range applied {
		s.create(obj)
		s.Cleanup(func() { s.must(s.client.Delete(context.Background(), obj)) })
	}
	reads := []string{"get", "list", "watch"}
	view := rightsOn(reads, "helmopreleases", "helmoprevisions", "helmops")
	edit := append(slices.Clone(view), rightsOn([]string{"create", "delete", "deletecollection", "patch", "update"},
		"helmops")...)
	slices.Sort(edit)
	for role, want := range map[string][]string{"view": view, "edit": edit, "admin": edit} {
		s.Eventually(func() []string { return s.rights(role+"-user", s.namespace) }).Should(gomega.Equal(want), role)
		s.Expect(s.rights(role+"-user", metav1.NamespaceDefault)).To(gomega.BeEmpty(), "%s in another namespace", role)
	}
	s.Expect(s.rights("other-user", s.namespace)).To(gomega.BeEmpty())
}

// rightsOn returns rights as text, sorted.
func rightsOn(verbs []string, resources ...string) []string {
	var rights []string
	for _, resource := range resources {
		for _, verb := range verbs {
			rights = append(rights, resource+" "+verb)
		}
	}
	slices.Sort(rights)
	return rights
}

// rights returns what a user may do with HelmOp's objects and their subresources in a namespace.
func (s *scenario) rights(user, namespace string) []string {
	s.Helper()
	var allowed []string
	for _, resource := range []string{"helmops", "helmopreleases", "helmoprevisions"} {
		for _, sub := range []string{"", "/status", "/finalizers", "/scale"} {
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete",
				"deletecollection"} {
				if s.may(user, namespace, addonsv1.GroupVersion.Group, resource+sub, verb) {
					allowed = append(allowed, resource+sub+" "+verb)
				}
			}
		}
	}
	slices.Sort(allowed)
	return allowed
}

// may reports whether a user may do something, according to the API server.
func (s *scenario) may(user, namespace, group, resource, verb string) bool {
	s.Helper()
	resource, sub, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: group, Resource: resource, Subresource: sub, Verb: verb},
	}}
	s.must(s.client.Create(s.Context(), review))
	return review.Status.Allowed
}

// documentedRoles returns the roles in docs/multi-tenancy.md, as rolesOf does.
func (s *scenario) documentedRoles() map[string]any {
	s.Helper()
	page, err := os.ReadFile(filepath.Join(s.env.Root(), "docs", "multi-tenancy.md"))
	s.must(err)
	const first = "kind: ClusterRole\nmetadata:\n  name: helmop-aggregate-to-view\n"
	for _, block := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(block, "yaml\n"); ok && strings.Contains(text, first) {
			return rolesOf(s.decode([]byte(text)))
		}
	}
	s.Fatal("docs/multi-tenancy.md has no role helmop-aggregate-to-view")
	return nil
}

// rolesOf returns the labels and the rules of roles by name.
func rolesOf(objects []*unstructured.Unstructured) map[string]any {
	roles := map[string]any{}
	for _, obj := range objects {
		roles[obj.GetName()] = map[string]any{"labels": obj.GetLabels(), "rules": obj.Object["rules"]}
	}
	return roles
}
