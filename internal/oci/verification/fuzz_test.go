// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"encoding/base64"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

// fuzzTarget is the target of fuzzed signatures. There is no registry.
const fuzzTarget = "sha256:" + emptyDigest

// fuzzCheck trusts a key and an identity. They did not sign the target, so no
// input may be accepted.
func fuzzCheck(f *testing.F) (*cosignCheck, *signing.Sigstore) {
	f.Helper()
	sigstore := signing.NewSigstore()
	policy := keyPolicy(newTestKey(f))
	policy.Identities, policy.TrustedRoot = []Identity{exactly(workflow)}, sigstore.TrustedRoot()
	rules := must(policy.compile())(f)
	client := must(oci.New(oci.Options{Dir: f.TempDir(), Timeout: time.Millisecond}))(f)
	f.Cleanup(client.Close)
	target := &target{registry: client, url: "oci://127.0.0.1:1/x", digest: fuzzTarget}
	return &cosignCheck{target: target, rules: rules.cosign, found: &findings{}, remaining: maxSignatures}, sigstore
}

func FuzzBundle(f *testing.F) {
	check, sigstore := fuzzCheck(f)
	now := time.Now()
	by := sigstore.Certify(workflow, now.Add(-time.Minute), false)
	for _, digest := range []string{fuzzTarget, "sha256:" + "0" + emptyDigest[1:]} {
		statement := signing.Statement(signing.PredicateSign, digest)
		f.Add(must(protojson.Marshal(signing.Bundle(statement, signing.Signer(newTestKey(f)))))(f))
		keyless := by.Bundle(statement)
		f.Add(must(protojson.Marshal(keyless))(f))
		if digest != fuzzTarget {
			sigstore.Log(keyless, now)
			f.Add(must(protojson.Marshal(keyless))(f))
			sigstore.LogV2(keyless)
			sigstore.Stamp(keyless, now)
			f.Add(must(protojson.Marshal(keyless))(f))
		}
	}
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},"messageSignature":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if signers, refused := check.bundle(t.Context(), data); len(signers) > 0 || refused == nil {
			t.Errorf("signers = %q, refused = %v", signers, refused)
		}
	})
}

func FuzzSimpleSigning(f *testing.F) {
	check, sigstore := fuzzCheck(f)
	now := time.Now()
	by := sigstore.Certify(workflow, now.Add(-time.Minute), false)
	claim := signing.Claim("example.com/x", "sha256:0"+emptyDigest[1:])
	layer := sigstore.Legacy(claim, by, now)
	add := func(annotations map[string]string, text []byte) {
		f.Add(text, annotations[annotationSignature], annotations[annotationCertificate],
			annotations[annotationLog], annotations[annotationTimestamp])
	}
	add(layer.Annotations, claim)
	add(map[string]string{annotationSignature: base64.StdEncoding.EncodeToString([]byte("x")),
		annotationCertificate: layer.Annotations[annotationCertificate]}, claim)
	add(nil, []byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte, sig, certificate, logged, stamp string) {
		annotations := map[string]string{annotationSignature: sig, annotationCertificate: certificate,
			annotationLog: logged, annotationTimestamp: stamp}
		if signers, refused := check.simpleSigning(t.Context(), text, annotations); len(signers) > 0 || refused == nil {
			t.Errorf("signers = %q, refused = %v", signers, refused)
		}
	})
}
