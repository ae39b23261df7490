// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/notaryproject/notation-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

// keyKinds returns a key of each kind with the signing algorithms of the versions of cosign.
func keyKinds(t *testing.T) map[string]signature.SignerVerifier {
	t.Helper()
	out := map[string]signature.SignerVerifier{}
	add := func(name string, key crypto.PrivateKey, opts ...signature.LoadOption) {
		out[name] = must(signature.LoadSignerVerifierWithOpts(key, opts...))(t)
	}
	for name, curve := range map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(),
		"P-521": elliptic.P521()} {
		add(name+" SHA-256", must(ecdsa.GenerateKey(curve, rand.Reader))(t), options.WithHash(crypto.SHA256))
	}
	add("P-384 SHA-384", must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t), options.WithHash(crypto.SHA384))
	add("P-521 SHA-512", must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))(t), options.WithHash(crypto.SHA512))
	add("RSA", must(rsa.GenerateKey(rand.Reader, 2048))(t), options.WithHash(crypto.SHA256))
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	add("Ed25519", edwards, options.WithHash(crypto.Hash(0)))
	add("Ed25519ph", edwards, options.WithED25519ph())
	return out
}

// layouts are the ways in which cosign stores the signature of a key.
var layouts = map[string]func(ctx context.Context, a signing.Artifact, signer signature.Signer) error{
	"tag": func(ctx context.Context, a signing.Artifact, signer signature.Signer) error {
		return a.PushTag(ctx, legacyOf(a, signer))
	},
	"legacy referrer": func(ctx context.Context, a signing.Artifact, signer signature.Signer) error {
		layers := []signing.Layer{legacyOf(a, signer)}
		return a.PushReferrer(ctx, signing.Referrer{ConfigType: signing.TypeLegacy, Layers: layers})
	},
	"bundle": func(ctx context.Context, a signing.Artifact, signer signature.Signer) error {
		return a.PushBundle(ctx, bundleOf(a, signer))
	},
	"bundle of a manifest": func(ctx context.Context, a signing.Artifact, signer signature.Signer) error {
		bundle, err := manifestBundle(ctx, a, signer)
		if err != nil {
			return err
		}
		return a.PushBundle(ctx, bundle)
	},
}

func legacyOf(a signing.Artifact, signer signature.Signer) signing.Layer {
	return signing.Legacy(a.Claim(), signer)
}

func bundleOf(a signing.Artifact, signer signature.Signer) *protobundle.Bundle {
	return signing.Bundle(signing.Statement(signing.PredicateSign, a.Digest()), signer)
}

// manifestBundle signs the manifest itself, like "cosign sign-blob".
func manifestBundle(ctx context.Context, a signing.Artifact, signer signature.Signer) (*protobundle.Bundle, error) {
	manifest, err := a.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	signed, err := signer.SignMessage(bytes.NewReader(manifest))
	if err != nil {
		return nil, err
	}
	bundle := bundleOf(a, signer)
	bundle.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: hashed(manifest, "sha256"), Signature: signed,
	}}
	return bundle, nil
}

func TestKeysOfAllKindsInAllLayouts(t *testing.T) {
	t.Parallel()
	kinds := keyKinds(t)
	for layout, push := range layouts {
		for _, api := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, referrers API %v", layout, api), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, api)
				for kind, signer := range kinds {
					artifact := b.push(kind)
					check(t, push(t.Context(), artifact, signer))
					public := must(signer.PublicKey())(t)
					// The keys are tried in the order of their names: the key of the signer is between two others.
					policy := Policy{Provider: Cosign, Keys: map[string][]byte{
						"cosign.pub": must(cryptoutils.MarshalPublicKeyToPEM(public))(t),
						"before.pub": signing.PublicKey(newTestKey(t)), "other.pub": signing.PublicKey(newTestKey(t)),
					}}
					result, err := b.verify(artifact, policy)
					t.Log(kind)
					wantSigners(t, result, err, "key cosign.pub")
				}
			})
		}
	}
}

func TestKeyedRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// sign stores something next to the artifact. key is the trusted key.
		sign func(t *testing.T, b *bed, a signing.Artifact, key *ecdsa.PrivateKey) error
		kind error
		says string
	}{
		{name: "nothing", kind: ErrUnsigned, says: "no cosign signature",
			sign: func(*testing.T, *bed, signing.Artifact, *ecdsa.PrivateKey) error { return nil }},
		{name: "other key, tag", kind: ErrUntrusted, says: "by none of the policy's keys",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, _ *ecdsa.PrivateKey) error {
				return a.SignKeyed(t.Context(), newTestKey(t))
			}},
		{name: "other key, bundle", kind: ErrUntrusted, says: "by none of the policy's keys",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, _ *ecdsa.PrivateKey) error {
				return a.SignKeyedBundle(t.Context(), newTestKey(t))
			}},
		{name: "copied from another artifact, tag", kind: ErrUntrusted, says: "signs another artifact, sha256:",
			sign: func(t *testing.T, b *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				return a.PushTag(t.Context(), legacyOf(b.push("another"), signing.Signer(key)))
			}},
		{name: "copied from another artifact, bundle", kind: ErrUntrusted, says: "signs another artifact",
			sign: func(t *testing.T, b *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				return a.PushBundle(t.Context(), bundleOf(b.push("another"), signing.Signer(key)))
			}},
		{name: "copied from another artifact, bundle of a manifest", kind: ErrUntrusted, says: "by none of the policy's keys",
			sign: func(t *testing.T, b *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				bundle := must(manifestBundle(t.Context(), b.push("another"), signing.Signer(key)))(t)
				return a.PushBundle(t.Context(), bundle)
			}},
		{name: "claim changed", kind: ErrUntrusted, says: "by none of the policy's keys",
			sign: func(t *testing.T, b *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				layer := legacyOf(b.push("another"), signing.Signer(key))
				layer.Data = a.Claim()
				return a.PushTag(t.Context(), layer)
			}},
		{name: "statement changed", kind: ErrUntrusted, says: "by none of the policy's keys",
			sign: func(t *testing.T, b *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				bundle := bundleOf(b.push("another"), signing.Signer(key))
				bundle.GetDsseEnvelope().Payload = signing.Statement(signing.PredicateSign, a.Digest())
				return a.PushBundle(t.Context(), bundle)
			}},
		{name: "two signatures in an envelope", kind: ErrUntrusted, says: "exactly one signature",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				bundle := bundleOf(a, signing.Signer(key))
				envelope := bundle.GetDsseEnvelope()
				envelope.Signatures = append(envelope.Signatures, envelope.Signatures[0])
				return a.PushBundle(t.Context(), bundle)
			}},
		{name: "claim of another type", kind: ErrUntrusted, says: `has the type "atomic container signature"`,
			sign: func(t *testing.T, _ *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				claim := strings.Replace(string(a.Claim()), "cosign container image", "atomic container", 1)
				return a.PushTag(t.Context(), signing.Legacy([]byte(claim), signing.Signer(key)))
			}},
		{name: "claim is not JSON", kind: ErrUntrusted, says: "not JSON",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				return a.PushTag(t.Context(), signing.Legacy([]byte("planted"), signing.Signer(key)))
			}},
		{name: "no signature in the layer", kind: ErrUntrusted, says: "no signature as base64",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, _ *ecdsa.PrivateKey) error {
				return a.PushTag(t.Context(), signing.Layer{MediaType: signing.TypeSimpleSigning, Data: a.Claim()})
			}},
		{name: "bundle is not JSON", kind: ErrUntrusted, says: "not a Sigstore bundle",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, _ *ecdsa.PrivateKey) error {
				return a.PushReferrer(t.Context(), signing.Referrer{ArtifactType: signing.TypeBundle,
					Layers: []signing.Layer{{MediaType: signing.TypeBundle, Data: []byte("planted")}}})
			}},
		{name: "bundle of 2 MiB", kind: ErrUntrusted, says: "too large",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, _ *ecdsa.PrivateKey) error {
				return a.PushReferrer(t.Context(), signing.Referrer{ArtifactType: signing.TypeBundle,
					Layers: []signing.Layer{{MediaType: signing.TypeBundle, Data: make([]byte, 2<<20)}}})
			}},
		{name: "manifest of 5 MB", kind: ErrUntrusted, says: "too large",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				layer := legacyOf(a, signing.Signer(key))
				layer.Annotations["planted"] = strings.Repeat("x", 5<<20)
				return a.PushTag(t.Context(), layer)
			}},
		{name: "other attestations only", kind: ErrUnsigned, says: "only other attestations (2)",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, key *ecdsa.PrivateKey) error {
				return pushAttestations(t, a, key)
			}},
		{name: "unrelated referrers", kind: ErrUnsigned, says: "no cosign signature",
			sign: func(t *testing.T, _ *bed, a signing.Artifact, _ *ecdsa.PrivateKey) error {
				return a.PushReferrer(t.Context(), signing.Referrer{ArtifactType: "application/spdx+json",
					Layers: []signing.Layer{{MediaType: "application/spdx+json", Data: []byte("{}")}}})
			}},
	} {
		for _, api := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, referrers API %v", tc.name, api), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, api)
				key := newTestKey(t)
				artifact := b.push("artifact")
				check(t, tc.sign(t, b, artifact, key))
				_, err := b.verify(artifact, keyPolicy(key))
				wantError(t, err, tc.kind, tc.says)
			})
		}
	}
}

// pushAttestations pushes two valid statements that are not signatures of cosign. In one of them, only the predicate
// shows it.
func pushAttestations(t *testing.T, a signing.Artifact, key *ecdsa.PrivateKey) error {
	for i, predicate := range []string{"https://slsa.dev/provenance/v1",
		"https://cosign.sigstore.dev/attestation/vuln/v1"} {
		statement := signing.Statement(predicate, a.Digest())
		referrer := signing.BundleReferrer(signing.Bundle(statement, signing.Signer(key)))
		if i == 1 {
			referrer.Annotations = nil
		}
		if err := a.PushReferrer(t.Context(), referrer); err != nil {
			return err
		}
	}
	return nil
}

// The policy trusts the key, and not the log entry or the timestamp of a signature.
func TestKeyedSignatureIgnoresTransparencyLog(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	key := newTestKey(t)
	artifact := b.push("artifact")
	bundle := bundleOf(artifact, signing.Signer(key))
	bundle.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{{LogIndex: 1}}
	bundle.VerificationMaterial.TimestampVerificationData = &protobundle.TimestampVerificationData{
		Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: []byte("nonsense")}},
	}
	check(t, artifact.PushBundle(t.Context(), bundle))
	result, err := b.verify(artifact, keyPolicy(key))
	wantSigners(t, result, err, "key a.pub")
}

func TestOneValidSignatureIsSufficient(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	first, second := newTestKey(t), newTestKey(t)
	signers := []signature.Signer{signing.Signer(first), signing.Signer(second), signing.Signer(newTestKey(t))}

	tagged := b.push("tagged")
	broken := signing.Layer{MediaType: signing.TypeSimpleSigning, Data: []byte("planted")}
	layers := []signing.Layer{broken}
	for _, signer := range signers {
		layers = append(layers, legacyOf(tagged, signer))
	}
	check(t, tagged.PushTag(t.Context(), append(layers, broken)...))
	result, err := b.verify(tagged, keyPolicy(first, second))
	wantSigners(t, result, err, "key a.pub", "key b.pub")

	referred := b.push("referred")
	check(t, pushAttestations(t, referred, first))
	missing := signing.Layer{MediaType: signing.TypeBundle, Data: []byte("missing")}
	check(t, referred.PushReferrer(t.Context(),
		signing.Referrer{ArtifactType: signing.TypeBundle, Layers: []signing.Layer{missing}}))
	b.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		gone := r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+missing.Digest())
		if gone {
			w.WriteHeader(http.StatusNotFound)
		}
		return gone
	})
	check(t, referred.PushBundle(t.Context(), bundleOf(referred, signers[2])))
	check(t, referred.PushBundle(t.Context(), bundleOf(referred, signers[1])))
	result, err = b.verify(referred, keyPolicy(first, second))
	wantSigners(t, result, err, "key b.pub")
}

func TestNumberOfSignaturesIsLimited(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	key := newTestKey(t)
	artifact := b.push("artifact")
	good := legacyOf(artifact, signing.Signer(key))
	foreignSigner := legacyOf(artifact, signing.Signer(newTestKey(t)))
	var layers []signing.Layer
	for range 500 {
		layers = append(layers, foreignSigner)
	}
	check(t, artifact.PushTag(t.Context(), append([]signing.Layer{good}, layers...)...))
	_, err := b.verify(artifact, keyPolicy(key))
	wantError(t, err, ErrUntrusted, "none of 100 signatures")
	wantError(t, err, ErrUntrusted, "the artifact has more referrers than HelmOp checks")

	// The newest signatures are checked first.
	check(t, artifact.PushTag(t.Context(), append(layers, good)...))
	result, err := b.verify(artifact, keyPolicy(key))
	wantSigners(t, result, err, "key a.pub")
}

func TestNumberOfReferrersIsLimited(t *testing.T) {
	t.Parallel()
	for name, referrer := range map[string]signing.Referrer{
		"unknown":   {},
		"malformed": {ArtifactType: signing.TypeLegacy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, false)
			key := newTestKey(t)
			artifact := b.push("artifact")
			for i := range 150 {
				referrer.Layers = []signing.Layer{{MediaType: signing.TypeSimpleSigning, Data: fmt.Appendf(nil, "%d", i)}}
				check(t, artifact.PushReferrer(t.Context(), referrer))
			}
			b.asked()
			_, err := b.verify(artifact, keyPolicy(key))
			wantError(t, err, ErrUntrusted, "the artifact has more referrers than HelmOp checks")
			if requests := len(b.asked()); requests > 2*maxSignatures+10 {
				t.Errorf("%d requests", requests)
			}
			// The most likely referrers are checked first, wherever they are in the list.
			check(t, artifact.SignKeyedBundle(t.Context(), key))
			result, err := b.verify(artifact, keyPolicy(key))
			wantSigners(t, result, err, "key a.pub")
		})
	}
}

// A referrer that was not checked may be a signature, so "not signed" would be wrong.
func TestTruncatedReferrersAreNotUnsigned(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	artifact := b.push("artifact")
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	for range maxReferrers + 1 {
		index.Manifests = append(index.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest,
			Digest: ocispec.DescriptorEmptyJSON.Digest, Size: 2, ArtifactType: "application/spdx+json"})
	}
	list := must(json.Marshal(index))(t)
	b.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write(list)
		return true
	})
	_, err := b.verify(artifact, keyPolicy(newTestKey(t)))
	wantError(t, err, ErrUntrusted, "the artifact has more referrers than HelmOp checks")
}

// A panic of a library on untrusted data must not end the process.
func TestPanicsRefuseTheSignature(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	sigstore := signing.NewSigstore()
	notary := newNotary("jane")
	artifact := b.push("artifact")
	check(t, sigstore.SignKeylessBundle(t.Context(), artifact, workflow))
	check(t, notary.Sign(t.Context(), artifact))
	target := &target{registry: b.client, url: b.url(), digest: artifact.Digest(), access: b.access()}
	rules := must(Policy{Provider: Cosign, Identities: []Identity{exactly(workflow)}}.compile())(t)

	var found findings
	cosign := &cosignCheck{target: target, rules: rules.cosign, found: &found, remaining: maxSignatures,
		root: func(context.Context) (*root.TrustedRoot, error) { panic("planted") }}
	if signers := cosign.run(t.Context()); len(signers) > 0 {
		t.Errorf("signers = %q", signers)
	}
	wantError(t, found.error("x", Cosign), ErrUntrusted, "it is malformed")

	found = findings{}
	notation := &notationCheck{target: target, verifier: panickingVerifier{}, found: &found}
	if signers := notation.run(t.Context()); len(signers) > 0 {
		t.Errorf("signers = %q", signers)
	}
	wantError(t, found.error("x", Notation), ErrUntrusted, "it is malformed")
}

type panickingVerifier struct{}

// Verify implements notation.Verifier.
func (panickingVerifier) Verify(context.Context, ocispec.Descriptor, []byte,
	notation.VerifierVerifyOptions) (*notation.VerificationOutcome, error) {
	panic("planted")
}
