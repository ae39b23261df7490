// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

// plantedSecrets are texts that must be in no object and no log at the end.
type plantedSecrets struct {
	mu    sync.Mutex
	texts []string
}

// add adds a secret; of a secret with several lines, it adds each line.
func (p *plantedSecrets) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) > 8 && !strings.HasPrefix(line, "-----") {
			p.texts = append(p.texts, line)
		}
	}
}

func (p *plantedSecrets) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.texts)
}

// signer returns the artifact of a chart in a registry, to be signed.
func (s *scenario) signer(r *registry.Registry, digest string) signing.Artifact {
	s.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.CA())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	s.Cleanup(transport.CloseIdleConnections)
	artifact, err := signing.Registry{
		Host: r.Host(), Client: &http.Client{Transport: transport}, Username: r.Username(), Password: r.Password(),
	}.Artifact(chartRepository, digest)
	s.must(err)
	return artifact
}

func (s *scenario) newKey() (crypto.Signer, []byte) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	return key, signing.PublicKey(key)
}

// signedBy makes a HelmOp require signatures and creates it.
func (s *scenario) signedBy(r *registry.Registry, name string, verify addonsv1.Verification) *addonsv1.HelmOp {
	s.Helper()
	helmOp := s.noteFrom(r, name, chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.Verify = &verify
	s.create(helmOp)
	return helmOp
}

// unverified checks that the condition of a HelmOp names the error of the signatures.
func unverified(reason string, texts ...string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		expectCondition(g, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, reason)
		message(addonsv1.VerifiedCondition, texts...)(g, helmOp)
		expectCondition(g, helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, reason)
	}
}

// verified checks that the condition of a HelmOp names the signer.
func verified(provider addonsv1.VerificationProvider, signer string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		expectCondition(g, helmOp, addonsv1.VerifiedCondition, metav1.ConditionTrue, addonsv1.VerifiedReason)
		g.Expect(helmOp.Status.Artifact).NotTo(gomega.BeNil())
		g.Expect(helmOp.Status.Artifact.Verification).NotTo(gomega.BeNil())
		g.Expect(helmOp.Status.Artifact.Verification.Provider).To(gomega.Equal(provider))
		g.Expect(helmOp.Status.Artifact.Verification.Signers).To(gomega.ConsistOf(gomega.ContainSubstring(signer)))
	}
}

// expectVerifiedOnce waits for some intervals, and checks that a verified artifact is not verified again.
func (s *scenario) expectVerifiedOnce(r *registry.Registry) {
	s.Helper()
	r.ResetCounts()
	s.Eventually(func() int { return r.Counts().ManifestHeads }).Should(gomega.BeNumerically(">=", 3),
		"lookups of the tag")
	counts := r.Counts()
	s.Expect(counts.ManifestGets+counts.BlobGets+counts.Referrers).To(gomega.BeZero(),
		"requests for verified signatures: %+v", counts)
}

// testSignedWithKey uses a chart without a signature, with a signature by another key, and then by the right key, in a
// registry without the referrers API. At last, a signed chart has the tag of another version.
func testSignedWithKey(s *scenario, one *workload, _ *plantedSecrets) {
	const name = "signed"
	key, public := s.newKey()
	other, _ := s.newKey()
	keys := s.opaque("cosign-keys", map[string][]byte{"cosign.pub": public, "readme.txt": []byte("no key")})
	r := s.startRegistry(registry.Options{})
	artifact := s.signer(r, s.pushUnique(r, chartRepository, "1.0.0"))
	helmOp := s.signedBy(r, name, addonsv1.Verification{Provider: addonsv1.VerificationProviderCosign, SecretRef: keys})
	s.eventually(helmOp, unverified(addonsv1.SignatureNotFoundReason))
	s.eventuallyEvent(helmOp, addonsv1.SignatureNotFoundReason)
	s.must(artifact.SignKeyedBundle(s.Context(), other))
	s.eventually(helmOp, unverified(addonsv1.SignatureUntrustedReason))
	one.eventuallyRevisions(releaseNamespace, name)
	s.Expect(r.Counts(pulled(layerOf(s, r))).BlobGets).To(gomega.BeZero(), "pulls of a chart without a valid signature")
	s.must(artifact.SignKeyedBundle(s.Context(), key))
	s.eventually(helmOp, ready(1), verified(addonsv1.VerificationProviderCosign, "cosign.pub"))
	one.eventuallyReleased(helmOp, releaseNamespace, name, 1)
	s.expectVerifiedOnce(r)

	// The registry sets the tag of a new version on a signed chart of an old version.
	old, err := r.PushChart(s.Context(), chartRepository, "9.9.9", uniqueNote("0.9.0"))
	s.must(err)
	s.must(s.signer(r, old.Digest.String()).SignKeyedBundle(s.Context(), key))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "9.9.9" })
	s.eventually(helmOp, failure(one.name, addonsv1.ChartInvalidReason, `"9.9.9"`, `"0.9.0"`))
	one.eventuallyRevisions(releaseNamespace, name, "1 deployed")
}

// layerOf returns the digest of the layer of the chart that a registry has.
func layerOf(s *scenario, r *registry.Registry) string {
	s.Helper()
	manifest, err := r.Manifest(s.Context(), chartRepository, "1.0.0")
	s.must(err)
	return manifest.Layers[0].Digest.String()
}

// pulled selects the requests for a digest.
func pulled(digest string) func(registry.Request) bool {
	return func(request registry.Request) bool { return request.Reference == digest }
}

// testSignedWithoutKey has a private Sigstore, and signs first with another identity and then with the required one.
func testSignedWithoutKey(s *scenario, one *workload, _ *plantedSecrets) {
	const issuer, subject = "https://issuer.example",
		"https://git.example/org/charts/.github/workflows/release.yaml@refs/tags/v1"
	sigstore := signing.NewSigstore()
	rootRef := s.opaque("sigstore-root", map[string][]byte{"trusted_root.json": sigstore.TrustedRoot()})
	r := s.startRegistry(registry.Options{})
	artifact := s.signer(r, s.pushUnique(r, chartRepository, "1.0.0"))
	s.must(sigstore.SignKeylessBundle(s.Context(), artifact, signing.Identity{Issuer: issuer, Subject: subject}))
	helmOp := s.signedBy(r, "keyless", addonsv1.Verification{
		Provider: addonsv1.VerificationProviderCosign, TrustedRootSecretRef: rootRef,
		// An expression without anchors would match.
		Identities: []addonsv1.SignerIdentity{{Issuer: issuer, SubjectRegExp: `https://git\.example/org/charts`}},
	})
	s.eventually(helmOp, unverified(addonsv1.SignatureUntrustedReason))
	one.eventuallyRevisions(releaseNamespace, "keyless")
	update(s, helmOp, func(h *addonsv1.HelmOp) {
		h.Spec.Source.Verify.Identities[0].SubjectRegExp = `https://git\.example/org/charts/.*@refs/tags/v[0-9]+`
	})
	s.eventually(helmOp, ready(1), verified(addonsv1.VerificationProviderCosign, subject))
	one.eventuallyReleased(helmOp, releaseNamespace, "keyless", 1)
	s.expectVerifiedOnce(r)
}

// testSignedWithNotation starts with another certificate in the Secret.
func testSignedWithNotation(s *scenario, one *workload, _ *plantedSecrets) {
	notary := signing.NewNotary("charts.example", time.Now().Add(time.Hour))
	other := signing.NewNotary("other.example", time.Now().Add(time.Hour))
	policy := signing.TrustPolicy(signing.TrustAnyone("strict"))
	trust := s.opaque("notation-trust", map[string][]byte{"trustpolicy.json": policy, "ca.crt": other.Certificate()})
	r := s.startRegistry(registry.Options{Implementation: registry.InProcess})
	artifact := s.signer(r, s.pushUnique(r, chartRepository, "1.0.0"))
	helmOp := s.signedBy(r, "notation",
		addonsv1.Verification{Provider: addonsv1.VerificationProviderNotation, SecretRef: trust})
	s.eventually(helmOp, unverified(addonsv1.SignatureNotFoundReason))
	s.must(notary.Sign(s.Context(), artifact))
	s.eventually(helmOp, unverified(addonsv1.SignatureUntrustedReason))
	one.eventuallyRevisions(releaseNamespace, "notation")
	update(s, s.secret("notation-trust"), func(secret *corev1.Secret) { secret.Data["ca.crt"] = notary.Certificate() })
	s.eventually(helmOp, ready(1), verified(addonsv1.VerificationProviderNotation, "charts.example"))
	one.eventuallyReleased(helmOp, releaseNamespace, "notation", 1)
	s.expectVerifiedOnce(r)
}

// testSignatureLost moves a tag to unsigned content. The installed release stays until the content is signed.
func testSignatureLost(s *scenario, one *workload, _ *plantedSecrets) {
	key, public := s.newKey()
	r := s.startRegistry(registry.Options{})
	s.must(s.signer(r, s.pushUnique(r, chartRepository, "1.0.0")).SignKeyed(s.Context(), key))
	helmOp := s.signedBy(r, "lost", addonsv1.Verification{
		Provider:  addonsv1.VerificationProviderCosign,
		SecretRef: s.opaque("lost-keys", map[string][]byte{"cosign.pub": public}),
	})
	one.eventuallyReleased(helmOp, releaseNamespace, "lost", 1)
	before := s.eventually(helmOp, ready(1), verified(addonsv1.VerificationProviderCosign, "cosign.pub")).Status.Artifact

	moved := s.pushUnique(r, chartRepository, "1.0.0")
	current := s.eventually(helmOp, func(g gomega.Gomega, h *addonsv1.HelmOp) {
		expectCondition(g, h, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureNotFoundReason)
		message(addonsv1.VerifiedCondition, moved)(g, h)
	})
	s.Expect(current.Status.Artifact.Digest).To(gomega.Equal(before.Digest), "the installed chart")
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		revisions, err := one.revisions(ctx, releaseNamespace, "lost")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(summaries(revisions)).To(gomega.Equal([]string{"1 deployed"}))
		expectCondition(g, s.children(ctx, g, helmOp)[one.name], addonsv1.ReadyCondition, metav1.ConditionTrue,
			addonsv1.ReadyReason)
	}).WithContext(s.Context()).Should(gomega.Succeed())
	s.must(s.signer(r, moved).SignKeyed(s.Context(), key))
	one.eventuallyReleased(helmOp, releaseNamespace, "lost", 2)
	s.Expect(s.eventually(helmOp, ready(1),
		verified(addonsv1.VerificationProviderCosign, "cosign.pub")).Status.Artifact.Digest).To(gomega.Equal(moved))
}
