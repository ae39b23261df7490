// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestValues changes every source of values.
func TestValues(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{
		Name: "one", PodCIDRs: []string{"10.1.0.0/16"}, Region: "north", Settings: map[string]string{"tier": "gold"},
	})[0]

	s.part("references", func(s *scenario) { testReferences(s, one.in(s)) })
	s.part("a reference that may be missing", func(s *scenario) { testOptionalReference(s, one.in(s)) })
	s.part("a reference that must not be missing", func(s *scenario) { testMissingReference(s, one.in(s)) })
	s.part("objects of the Cluster", func(s *scenario) { testClusterObjects(s, one.in(s)) })
	s.part("a template", func(s *scenario) { testTemplate(s, one.in(s)) })
	s.part("secrets", func(s *scenario) { testSecrets(s, one.in(s)) })
}

// testReferences has values of a Secret and a ConfigMap, and changes each.
func testReferences(s *scenario, one *workload) {
	secret := s.createSecret("references", "token: first\ngreeting: from the Secret\n")
	configMap := s.createConfigMap("references", "greeting: from the ConfigMap\nregion: from the ConfigMap\n")
	helmOp := s.newHelmOp("references", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Values = helloValues(map[string]any{"region": "from values"})
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{
			{Kind: "Secret", Name: "references"}, {Kind: "ConfigMap", Name: "references"},
		}
	})
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "references", 1)
	one.eventuallyHello(releaseNamespace, "references", map[string]string{
		"tokenDigest": sha256Of("first"), "greeting": "from the ConfigMap", "region": "from values",
	})
	update(s, secret, func(o *corev1.Secret) { o.Data = valuesData("token: second\n") })
	one.eventuallyReleased(helmOp, releaseNamespace, "references", 2)
	one.eventuallyHello(releaseNamespace, "references", map[string]string{"tokenDigest": sha256Of("second")})

	update(s, configMap, func(o *corev1.ConfigMap) { o.Data = map[string]string{"values.yaml": "greeting: changed\n"} })
	one.eventuallyReleased(helmOp, releaseNamespace, "references", 3)
	one.eventuallyHello(releaseNamespace, "references",
		map[string]string{"greeting": "changed", "tokenDigest": sha256Of("second")})

	// A change that affects no value does not change the release.
	update(s, configMap, func(o *corev1.ConfigMap) { o.Data["other.yaml"] = "greeting: unused\n" })
	one.expectRevisionsStay("references", "1 superseded", "2 superseded", "3 deployed")
}

func testOptionalReference(s *scenario, one *workload) {
	helmOp := s.newHelmOp("optional", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "optional", Key: "extra", Optional: true}}
	})
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "optional", 1)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "optional"},
		Data:       map[string][]byte{"extra": []byte("greeting: now it is there\n")},
	})
	one.eventuallyReleased(helmOp, releaseNamespace, "optional", 2)
	one.eventuallyHello(releaseNamespace, "optional", map[string]string{"greeting": "now it is there"})
}

func testMissingReference(s *scenario, one *workload) {
	helmOp := s.newHelmOp("missing", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "missing"}}
	})
	s.create(helmOp)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason))
	secret := s.createSecret("missing", "token: first\n")
	one.eventuallyReleased(helmOp, releaseNamespace, "missing", 1)

	// A deleted Secret does not change the release.
	s.remove(secret)
	s.eventually(helmOp, condition(addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason))
	one.expectRevisionsStay("missing", "1 deployed")
	s.createSecret("missing", "token: first\n")
	s.eventually(helmOp, ready(1))
	one.expectRevisionsStay("missing", "1 deployed")
}

// testClusterObjects changes the infrastructure and the control plane object of the Cluster.
func testClusterObjects(s *scenario, one *workload) {
	helmOp := s.newHelmOp("objects", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.Values = helloValues(map[string]any{
			"region":   "{{ .InfrastructureCluster.spec.region }} {{ .InfrastructureCluster.spec.settings.tier }}",
			"greeting": "{{ .ControlPlane.spec.version }}",
		})
	})
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "objects", 1)
	version := one.server.Version()
	one.eventuallyHello(releaseNamespace, "objects", map[string]string{"region": "north gold", "greeting": version})

	infra := &infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one"}}
	update(s, infra, func(o *infrav1.LocalCluster) { o.Spec.Settings = map[string]string{"tier": "silver"} })
	one.eventuallyReleased(helmOp, releaseNamespace, "objects", 2)
	one.eventuallyHello(releaseNamespace, "objects", map[string]string{"region": "north silver"})

	controlPlane := &controlplanev1.LocalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one"}}
	update(s, controlPlane, func(o *controlplanev1.LocalControlPlane) { o.Spec.Version = "v1.99.0" })
	one.eventuallyReleased(helmOp, releaseNamespace, "objects", 3)
	one.eventuallyHello(releaseNamespace, "objects", map[string]string{"region": "north silver", "greeting": "v1.99.0"})

	// A change that no template uses creates no revision.
	update(s, infra, func(o *infrav1.LocalCluster) { o.Spec.Settings["unused"] = "yes" })
	one.expectRevisionsStay("objects", "1 superseded", "2 superseded", "3 deployed")
}

// testTemplate uses a template for values that plain values cannot express, with custom delimiters for charts that use
// braces.
func testTemplate(s *scenario, one *workload) {
	helmOp := s.newHelmOp("template", forAll, func(h *addonsv1.HelmOp) {
		h.Spec.TemplateDelimiters = addonsv1.TemplateDelimitersDollar
		h.Spec.Release.Name = "template-${ .Cluster.metadata.name }"
		h.Spec.Values = rawJSON(map[string]any{"cluster": "${ .Cluster.metadata.name }", "greeting": "{{ not a template }}"})
		h.Spec.ValuesTemplate = "${- range .Cluster.spec.clusterNetwork.pods.cidrBlocks }\npodCIDR: ${ . }\n${- end }\n"
	})
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "template-one", 1)
	one.eventuallyHello(releaseNamespace, "template-one", map[string]string{
		"cluster": "one", "podCIDR": "10.1.0.0/16", "greeting": "{{ not a template }}",
	})
}

// expectRevisionsStay fails if a release has other revisions than want, now or soon.
func (w *workload) expectRevisionsStay(name string, want ...string) {
	w.scenario.Helper()
	w.eventuallyRevisions(releaseNamespace, name, want...)
	w.scenario.Consistently(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := w.revisions(ctx, releaseNamespace, name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(summaries(revisions)).To(gomega.Equal(want), "revisions of %s in %s", name, w.name)
	}).WithContext(w.scenario.Context()).Should(gomega.Succeed())
}

func (s *scenario) createSecret(name, values string) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: valuesData(values)}
	s.create(secret)
	return secret
}

func (s *scenario) createConfigMap(name, values string) *corev1.ConfigMap {
	s.Helper()
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string]string{"values.yaml": values},
	}
	s.create(configMap)
	return configMap
}

func valuesData(values string) map[string][]byte {
	return map[string][]byte{"values.yaml": []byte(values)}
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
