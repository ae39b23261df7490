// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

// minimalSpec is a spec with the required fields, and filledSpec has as many fields as possible.
const (
	minimalSpec = `
clusterSelector: {}
source: {url: oci://registry.example/charts/hello, ref: {tag: 1.0.0}}
`
	filledSpec = `
clusterSelector: {matchLabels: {site: edge}}
source: {url: oci://registry.example/charts/hello, ref: {semver: ">=1", tagFilter: "^1", allowDowngrade: true}}
release: {name: "hello-{{ .ClusterName }}", namespace: hello-system}
values: {replicas: "{{ .ControlPlane.spec.replicas }}", off: null}
valuesTemplate: "a: {{ .ClusterName }}"
valuesFrom:
- {kind: Secret, name: known, key: values.yaml}
- {kind: ConfigMap, name: none, key: values.yaml, targetPath: a.b, optional: true}
- {kind: Secret, name: "{{ .ClusterName }}-values", key: values.yaml, optional: true}
postRender: &postRender
  patches: [{patch: "[]", target: {group: apps, version: v1, kind: Deployment, name: a, namespace: b,
    labelSelector: a=b, annotationSelector: c=d}}]
  images: [{name: a, newName: b, newTag: c, digest: d}]
  commonMetadata: {labels: {a: b}, annotations: {c: d}}
reconcileStrategy: InstallOnce
install: &install
  {timeout: 1m, createNamespace: true, namespaceMetadata: {labels: {a: b}, annotations: {c: d}}, disableHooks: true,
  crds: Create, takeOwnership: true, adoption: WhenUnchanged, disableOpenAPIValidation: true,
  disableSchemaValidation: true, remediation: {retries: 3, strategy: Uninstall}}
upgrade: {timeout: 1m, disableHooks: true, force: true, cleanupOnFail: true, maxHistory: 3, valuesPolicy: Reset,
  crds: Skip, disableOpenAPIValidation: true, disableSchemaValidation: true,
  remediation: {retries: 3, strategy: Rollback}}
rollback: {timeout: 1m, disableHooks: true, force: true, cleanupOnFail: true}
uninstall: {timeout: 1m, disableHooks: true, keepHistory: true, deletionPropagation: Foreground}
test: {mode: Enabled, timeout: 1m, ignoreFailures: true, filters: [{name: a, exclude: true}]}
health: {mode: Enabled, timeout: 1m, failFast: true,
  checks: [{apiVersion: v1, kind: A, inProgress: "false", failed: "false", current: "true"}]}
driftDetection: {mode: Correct, interval: 1m, ignore: [{paths: [/spec/replicas], target: {kind: Deployment}}]}
impersonateServiceAccountName: installer
overrides:
- name: edge
  clusterSelector: {matchExpressions: [{key: site, operator: In, values: [edge]}]}
  ref: {tag: 1.0.0-edge}
  values: {a: b}
  valuesTemplate: "b: {{ .ClusterName }}"
  valuesFrom: [{kind: Secret, name: known, key: values.yaml}, {kind: Secret, name: none, key: values.yaml}]
  postRender: *postRender
  install: *install
- name: key
  clusterSelector: {}
  valuesFrom: [{kind: Secret, name: known, key: none}]
refsByKubernetesVersion: [{kubernetesVersion: ">=1.36", ref: {digest: sha256:abc}}]
`
)

// TestDigestIsTheSameInTheNextVersion checks the digests of HelmOp revisions. The stored HelmOpRevisions have these
// digests: if one of them changes, an upgrade of HelmOp creates a HelmOp revision for each HelmOp, begins each rollout
// again, and cannot render the former HelmOp revisions.
func TestDigestIsTheSameInTheNextVersion(t *testing.T) {
	objects := controllertest.ClientOf(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "known"},
		Data: map[string][]byte{"values.yaml": []byte("a: 1")}})
	r := &Reconciler{renderer: render.New(references.NewReader(objects, objects),
		clusterview.NewReader(objects, objects))}
	for name, tc := range map[string]struct{ spec, want string }{
		"minimal": {minimalSpec, "c1cb2581dfa3833baec1fa6ffe51b4dae38547938536de872ddf87ee5e3623fc"},
		"filled":  {filledSpec, "b80edc81a39baf6597a024f3126878590d0b32d9490aab6ba9cd38f2d93a0e7d"},
	} {
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"}}
		if err := yaml.UnmarshalStrict([]byte(tc.spec), &helmOp.Spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compiled, err := r.compileRevision(t.Context(), helmOp,
			func(ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
				return &addonsv1.ResolvedArtifact{URL: helmOp.Spec.Source.URL, Digest: "sha256:" + ref.Tag, Tag: ref.Tag}, nil
			})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if compiled.digest != tc.want {
			t.Errorf("%s: the digest is %s, want %s", name, compiled.digest, tc.want)
		}
	}
}
