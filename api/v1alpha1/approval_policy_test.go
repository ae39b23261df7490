// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// createForTest creates an object and deletes it at the end of the test.
func createForTest(t *testing.T, c client.Client, obj *unstructured.Unstructured) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), obj) })
}

// createDocumentedPolicy creates the ValidatingAdmissionPolicy in a page of docs, and its binding. They get other
// names, because TestDocumentation uses the documented names on the same API server.
func createDocumentedPolicy(t *testing.T, c client.Client, page string) {
	t.Helper()
	for _, document := range yamlOf(t, filepath.Join("..", "..", "docs", page)) {
		obj := documentedObject(t, document)
		if obj == nil || !strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		name := strings.ToLower(t.Name())
		obj.SetName(name)
		if obj.GetKind() == "ValidatingAdmissionPolicyBinding" {
			change(t, obj, "spec.policyName", name)
		}
		createForTest(t, c, obj)
	}
}

// TestApprovalPolicy applies the policy in docs/rollouts.md. A user without the verb approve may change a HelmOp. Such
// a user may neither approve the HelmOp nor end the requirement of approvals.
func TestApprovalPolicy(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	c := newClient(t)
	create := func(obj *unstructured.Unstructured) { createForTest(t, c, obj) }
	createDocumentedPolicy(t, c, "rollouts.md")
	const user = "author"
	for _, text := range []string{`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: default, name: author}
rules:
- apiGroups: [addons.cluster.x-k8s.io]
  resources: [helmops]
  verbs: [get, create, update, patch]
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: default, name: author}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: author}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: author}]
`} {
		create(decode(t, text))
	}
	config := rest.CopyConfig(sharedServer.Server(t).RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	author, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(gomega.HaveOccurred())

	helmOp := decode(t, validHelmOp)
	change(t, helmOp, "spec.rollout", map[string]any{"approval": "Required"})
	create(helmOp)
	patch := func(as client.Client, change func(*unstructured.Unstructured)) error {
		changed := helmOp.DeepCopy()
		change(changed)
		return as.Patch(t.Context(), changed, client.MergeFrom(helmOp), client.DryRunAll)
	}
	approve := func(obj *unstructured.Unstructured) {
		obj.SetAnnotations(map[string]string{addonsv1.RolloutApproveAnnotation: "1/5e8d1f0a9b3c4d2e8f7061a2b3c4d5e6"})
	}
	release := func(obj *unstructured.Unstructured) { change(t, obj, "spec.rollout", nil) }
	// The API server needs a moment until it uses the policy.
	for _, forbidden := range []func(*unstructured.Unstructured){approve, release} {
		g.Eventually(func() bool { return apierrors.IsInvalid(patch(author, forbidden)) }).Should(gomega.BeTrue())
		g.Expect(patch(author, forbidden)).To(gomega.MatchError(gomega.ContainSubstring("only users who may approve")))
		g.Expect(patch(c, forbidden)).To(gomega.Succeed())
	}
	g.Expect(patch(author, func(obj *unstructured.Unstructured) {
		change(t, obj, "spec.rollout", map[string]any{"approval": "Required", "paused": true})
	})).To(gomega.Succeed())
	created := decode(t, validHelmOp)
	g.Expect(author.Create(t.Context(), created, client.DryRunAll)).To(gomega.Succeed())
	approve(created)
	created.SetResourceVersion("")
	created.SetUID("")
	g.Expect(author.Create(t.Context(), created, client.DryRunAll)).To(
		gomega.MatchError(gomega.ContainSubstring("only users who may approve")))
}

// TestImpersonationPolicy applies the policy in docs/multi-tenancy.md. In a namespace with the label, a HelmOp must
// have the ServiceAccount and the namespace in the policy, and must not read the Secrets of Clusters.
func TestImpersonationPolicy(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	c := newClient(t)
	createDocumentedPolicy(t, c, "multi-tenancy.md")
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	// The namespace never disappears after its deletion, so each run of the test has another one.
	namespace.SetGenerateName("impersonation-policy-")
	namespace.SetLabels(map[string]string{"helmop.example.com/tenant": "true"})
	createForTest(t, c, namespace)
	try := func(path string, value any) error {
		helmOp := decode(t, validHelmOp)
		helmOp.SetNamespace(namespace.GetName())
		change(t, helmOp, "spec.impersonateServiceAccountName", "helmop")
		change(t, helmOp, "spec.release", map[string]any{"namespace": "shop"})
		if path != "" {
			change(t, helmOp, path, value)
		}
		return c.Create(t.Context(), helmOp, client.DryRunAll)
	}
	valuesFrom := func(name string) any {
		return []any{map[string]any{"kind": "Secret", "name": name}}
	}
	override := func(field string, value any) any {
		return []any{map[string]any{"name": "all", "clusterSelector": map[string]any{}, field: value}}
	}
	const account = "spec.impersonateServiceAccountName"
	// The API server needs a moment until it uses the policy.
	g.Eventually(func() error { return try(account, nil) }).Should(gomega.HaveOccurred())
	for name, tc := range map[string]struct {
		path  string
		value any
		want  string
	}{
		"no account":              {account, nil, "to helmop"},
		"another account":         {account, "admin", "to helmop"},
		"another namespace":       {"spec.release", map[string]any{"namespace": "flux-system"}, "to shop"},
		"no namespace":            {"spec.release", nil, "to shop"},
		"an account of overrides": {"spec.overrides", override("impersonateServiceAccountName", "admin"), "overrides"},
		"values of overrides":     {"spec.overrides", override("valuesFrom", valuesFrom("fine")), "overrides"},
		"a kubeconfig":            {"spec.valuesFrom", valuesFrom("prod-1-kubeconfig"), "helmop-values-"},
		"an authority":            {"spec.valuesFrom", valuesFrom("prod-1-ca"), "helmop-values-"},
		"a key of tokens":         {"spec.valuesFrom", valuesFrom("prod-1-sa"), "helmop-values-"},
		"any other Secret":        {"spec.valuesFrom", valuesFrom("fine"), "helmop-values-"},
		"a kubeconfig by name":    {"spec.valuesFrom", valuesFrom("helmop-values-1-kubeconfig"), "helmop-values-"},
		"a template":              {"spec.valuesFrom", valuesFrom("{{ .Cluster.metadata.name }}-x"), "helmop-values-"},
		"a template in a name":    {"spec.valuesFrom", valuesFrom("helmop-values-{{ .x }}"), "helmop-values-"},
		"another template":        {"spec.valuesFrom", valuesFrom("$x"), "helmop-values-"},
	} {
		g.Expect(try(tc.path, tc.value)).To(gomega.MatchError(gomega.ContainSubstring(tc.want)), name)
	}
	g.Expect(try("", nil)).To(gomega.Succeed())
	g.Expect(try("spec.valuesFrom", valuesFrom("helmop-values-shop"))).To(gomega.Succeed())
	anyConfigMap := []any{map[string]any{"kind": "ConfigMap", "name": "{{ .Cluster.metadata.name }}"}}
	g.Expect(try("spec.valuesFrom", anyConfigMap)).To(gomega.Succeed())
	g.Expect(try("spec.overrides", override("values", map[string]any{"a": "b"}))).To(gomega.Succeed())
}
