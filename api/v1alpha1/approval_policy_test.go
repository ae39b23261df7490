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

// TestApprovalPolicy applies the policy in docs/rollouts.md. A user without the verb approve may change a HelmOp. Such
// a user may neither approve the HelmOp nor end the requirement of approvals.
func TestApprovalPolicy(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	c := newClient(t)
	create := func(obj *unstructured.Unstructured) {
		g.Expect(c.Create(t.Context(), obj)).To(gomega.Succeed())
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), obj) })
	}
	for _, document := range yamlOf(t, filepath.Join("..", "..", "docs", "rollouts.md")) {
		obj := documentedObject(t, document)
		if obj == nil || !strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		// TestDocumentation uses the documented name on the same API server.
		const name = "approvals-under-test"
		obj.SetName(name)
		if obj.GetKind() == "ValidatingAdmissionPolicyBinding" {
			change(t, obj, "spec.policyName", name)
		}
		create(obj)
	}
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
