// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// demandsSignatures requires signatures of both artifacts, and checks that an unsigned artifact is not applied.
func (s *bootstrapScenario) demandsSignatures() {
	key, public := s.newKey()
	private, err := x509.MarshalPKCS8PrivateKey(key)
	s.must(err)
	s.file("cosign.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	s.file("cosign.pub", public)
	demand := []string{"--image", firstImage, "--verify-key", s.path("cosign.pub")}
	// On a busy machine, the command may time out before HelmOp has verified.
	s.Eventually(func(g gomega.Gomega) {
		code, _, stderr := s.run("writer.json", append(append(s.bootstrapArgs(), demand...), "--timeout", "8s")...)
		g.Expect(code).To(gomega.Equal(1), stderr)
		g.Expect(stderr).To(gomega.ContainSubstring(addonsv1.SignatureNotFoundReason))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	for _, name := range []string{providerHelmOp, stateHelmOp} {
		s.eventually(s.helmOp(name), unverified(addonsv1.SignatureNotFoundReason))
	}
	s.signs = []string{"--sign", "--key", s.path("cosign.key")}
	result := s.bootstrap(demand...)
	s.Expect([]bool{result.Provider.Pushed, result.ClusterState.Pushed}).To(gomega.Equal([]bool{false, false}))
	for _, name := range []string{providerHelmOp, stateHelmOp} {
		s.eventually(s.helmOp(name), ready(1), verified(addonsv1.VerificationProviderCosign, "cosign.pub"))
	}
	s.Expect(s.deployment(s.Context(), s.Gomega).Generation).To(gomega.BeEquivalentTo(1), "nothing was restarted")

	// A run without the public key keeps the requirement, and does not sign a signed artifact again.
	again := s.bootstrap("--image", firstImage)
	s.Expect(again.Provider.Signature).To(gomega.Equal(result.Provider.Signature))
	s.eventually(s.helmOp(stateHelmOp), ready(1), verified(addonsv1.VerificationProviderCosign, "cosign.pub"))

	signs := s.signs
	s.signs = nil
	s.push("unsigned")
	s.eventually(s.helmOp(stateHelmOp), unverified(addonsv1.SignatureNotFoundReason))
	s.signs = signs
	s.Expect(s.hasState(s.Context(), s.Gomega, "unsigned")).To(gomega.BeFalse())
}

// hasState reports whether an object of the desired state exists.
func (s *bootstrapScenario) hasState(ctx context.Context, g gomega.Gomega, name string) bool {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: stateNamespace, Name: name}, &corev1.ConfigMap{})
	g.Expect(client.IgnoreNotFound(err)).NotTo(gomega.HaveOccurred())
	return err == nil
}

// keepsOldState pushes states that cannot be applied. The old state stays, and the reason names the error.
func (s *bootstrapScenario) keepsOldState() {
	state := s.helmOp(stateHelmOp)
	expectKept := func(texts ...string) {
		s.Helper()
		s.eventually(state, func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Failures).NotTo(gomega.BeEmpty())
			for _, text := range texts {
				g.Expect(toJSON(h.Status)).To(gomega.ContainSubstring(text))
			}
			expectCondition(g, h, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ReleasesFailedReason)
		})
		s.Expect(s.hasState(s.Context(), s.Gomega, "one")).To(gomega.BeTrue(), "the old state")
	}
	s.file("state/clusters/production/bad.yaml", []byte("apiVersion: v1\nkind: ConfigMap\n  metadata: {name: bad}\n"))
	s.pushState(s.signs...)
	expectKept(addonsv1.ArtifactInvalidReason, "clusters/production/bad.yaml:3 is not YAML")

	s.file("state/clusters/production/bad.yaml",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad, namespace: "+stateNamespace+
			"}\ndata: {key: {no: text}}\n"))
	s.pushState(s.signs...)
	expectKept(addonsv1.UpgradeFailedReason, "ConfigMap "+stateNamespace+"/bad: ConfigMap in version")

	s.push("one")
	s.eventually(state, ready(1))
	s.Expect(s.hasState(s.Context(), s.Gomega, "bad")).To(gomega.BeFalse())
}

// rotatesCredential replaces, by another run, the credential with which the cluster pulls.
func (s *bootstrapScenario) rotatesCredential() {
	var err error
	s.readers, err = s.registry.AddReader(bootstrapReader)
	s.must(err)
	result := s.bootstrap("--image", firstImage)
	// An object may be listed twice: when it was applied, and when it was ready.
	outcomes := map[string][]string{}
	for _, object := range result.Objects {
		name := object.Kind + " " + object.Name
		outcomes[name] = append(outcomes[name], object.Outcome)
	}
	s.Expect(outcomes["Secret helmop-pull"]).To(gomega.ContainElement("configured"))
	s.Expect(outcomes["Deployment "+environment.Deployment]).To(gomega.HaveExactElements("unchanged", "ready"))
	s.push("one", "rotated")
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.hasState(ctx, g, "rotated")).To(gomega.BeTrue())
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.eventually(s.helmOp(stateHelmOp), ready(1))
}
