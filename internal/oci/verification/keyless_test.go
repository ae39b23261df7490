// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

var (
	workflow = signing.Identity{Issuer: "https://token.actions.test",
		Subject: "https://github.test/org/repo/.github/workflows/release.yaml@refs/tags/v1"}
	person = signing.Identity{Issuer: "https://accounts.test", Subject: "jane@example.com"}
)

const (
	workflowText = "https://github.test/org/repo/.github/workflows/release.yaml@refs/tags/v1 (issuer " +
		"https://token.actions.test)"
	personText = "jane@example.com (issuer https://accounts.test)"
)

func exactly(id signing.Identity) Identity { return Identity{Issuer: id.Issuer, Subject: id.Subject} }

// keylessPolicy trusts the workflow, certified by a Sigstore.
func keylessPolicy(sigstore *signing.Sigstore) Policy {
	return Policy{Provider: Cosign, Identities: []Identity{exactly(workflow)}, TrustedRoot: sigstore.TrustedRoot()}
}

// keylessSignature has the properties of a keyless signature that a test may change.
type keylessSignature struct {
	sigstore *signing.Sigstore
	identity signing.Identity
	// issued is the start of the certificate. logged is the time in the log.
	issued, logged time.Time
	// unlogged omits the certificate log. unproven omits the transparency log.
	unlogged, unproven bool
	// stamped adds a timestamp of the timestamp authority. version2 uses the log format of Rekor 2.
	stamped, version2 bool
	// change is called before the bundle is pushed.
	change func(t *testing.T, bundle *protobundle.Bundle)
}

func (k keylessSignature) push(t *testing.T, a signing.Artifact) {
	t.Helper()
	by := k.sigstore.Certify(k.identity, k.issued, k.unlogged)
	bundle := by.Bundle(signing.Statement(signing.PredicateSign, a.Digest()))
	switch {
	case k.unproven:
	case k.version2:
		k.sigstore.LogV2(bundle)
	default:
		k.sigstore.Log(bundle, k.logged)
	}
	if k.stamped {
		k.sigstore.Stamp(bundle, k.logged)
	}
	if k.change != nil {
		k.change(t, bundle)
	}
	check(t, a.PushBundle(t.Context(), bundle))
}

func (k keylessSignature) pushLegacy(t *testing.T, a signing.Artifact) {
	t.Helper()
	by := k.sigstore.Certify(k.identity, k.issued, k.unlogged)
	layer := k.sigstore.Legacy(a.Claim(), by, k.logged)
	if k.unproven {
		delete(layer.Annotations, signing.AnnotationLog)
	}
	if !k.stamped {
		delete(layer.Annotations, signing.AnnotationTimestamp)
	}
	check(t, a.PushTag(t.Context(), layer))
}

var allTrusts = signing.Trusts{Log: true, CertificateLog: true, Timestamps: true}

func TestKeyless(t *testing.T) {
	t.Parallel()
	sigstore, other := signing.NewSigstore(), signing.NewSigstore()
	now := time.Now()
	good := keylessSignature{sigstore: sigstore, identity: workflow, issued: now.Add(-20 * time.Minute),
		logged: now.Add(-15 * time.Minute)}
	with := func(change func(*keylessSignature)) keylessSignature {
		k := good
		change(&k)
		return k
	}
	for _, tc := range []struct {
		name   string
		sig    keylessSignature
		trusts *signing.Trusts // nil means all
		policy Policy          // without identities, it gets exactly the workflow
		signer string
		says   string // text of ErrUntrusted
		// bundleOnly and legacyOnly restrict the case to one of the layouts.
		bundleOnly, legacyOnly bool
	}{
		{name: "logged, certificate long expired", sig: good, signer: workflowText},
		{name: "an e-mail address", sig: with(func(k *keylessSignature) { k.identity = person }), signer: personText,
			policy: Policy{Identities: []Identity{exactly(workflow), exactly(person)}}},
		{name: "patterns", sig: good, signer: workflowText,
			policy: Policy{Identities: []Identity{{IssuerRegExp: `https://token\.actions\.test`,
				SubjectRegExp: `https://github\.test/org/.+@refs/tags/v[0-9]+`}}}},
		{name: "logged and stamped", sig: with(func(k *keylessSignature) { k.stamped = true }), signer: workflowText},
		{name: "logged by version 2, stamped", sig: with(func(k *keylessSignature) { k.version2, k.stamped = true, true }),
			signer: workflowText, bundleOnly: true},
		{name: "logged by version 2, not stamped", sig: with(func(k *keylessSignature) { k.version2 = true }),
			says: "timestamps", bundleOnly: true},
		{name: "a root without logs, stamped", sig: with(func(k *keylessSignature) { k.unproven, k.stamped = true, true }),
			trusts: &signing.Trusts{CertificateLog: true, Timestamps: true}, signer: workflowText},
		{name: "a root without logs, not stamped", sig: with(func(k *keylessSignature) { k.unproven = true }),
			trusts: &signing.Trusts{CertificateLog: true, Timestamps: true}, says: "timestamps"},
		{name: "a root without a certificate log", sig: with(func(k *keylessSignature) { k.unlogged = true }),
			trusts: &signing.Trusts{Log: true}, signer: workflowText},
		{name: "not in the certificate log", sig: with(func(k *keylessSignature) { k.unlogged = true }),
			says: "signed certificate timestamp"},
		{name: "not in the transparency log", sig: with(func(k *keylessSignature) { k.unproven, k.stamped = true, true }),
			says: "log"},
		{name: "logged after the certificate expired",
			sig: with(func(k *keylessSignature) { k.logged = k.issued.Add(11 * time.Minute) }), says: "validity"},
		{name: "logged before the certificate was issued",
			sig: with(func(k *keylessSignature) { k.logged = k.issued.Add(-time.Minute) }), says: "validity"},
		{name: "another Sigstore", sig: with(func(k *keylessSignature) { k.sigstore = other }), says: "log"},
		{name: "another Sigstore, by timestamp",
			sig:    with(func(k *keylessSignature) { k.sigstore, k.unproven, k.stamped = other, true, true }),
			trusts: &signing.Trusts{CertificateLog: true, Timestamps: true}, says: "timestamps"},
		{name: "another subject", sig: with(func(k *keylessSignature) { k.identity.Subject = "https://github.test/evil" }),
			says: "by https://github.test/evil (issuer"},
		{name: "another issuer", sig: with(func(k *keylessSignature) { k.identity.Issuer = "https://evil.test" }),
			says: "(issuer https://evil.test), which is not an identity"},
		{name: "one identity's issuer, another's subject",
			sig:    with(func(k *keylessSignature) { k.identity.Subject = person.Subject }),
			policy: Policy{Identities: []Identity{exactly(workflow), exactly(person)}}, says: "which is not an identity"},
		{name: "a pattern is for the whole subject", sig: good, says: "which is not an identity",
			policy: Policy{Identities: []Identity{{Issuer: workflow.Issuer, SubjectRegExp: "https://github.test/org/repo"}}}},
		{name: "a pattern is for the whole issuer", sig: good, says: "which is not an identity",
			policy: Policy{Identities: []Identity{{IssuerRegExp: "token.actions.test", Subject: workflow.Subject}}}},
		{name: "an alternative does not escape the anchors", sig: good, says: "which is not an identity",
			policy: Policy{Identities: []Identity{{Issuer: workflow.Issuer, SubjectRegExp: "https://github.test/org|x"}}}},
		{name: "statement changed", sig: with(func(k *keylessSignature) {
			k.change = func(t *testing.T, bundle *protobundle.Bundle) {
				envelope := bundle.GetDsseEnvelope()
				envelope.Payload = append(envelope.Payload[:len(envelope.Payload):len(envelope.Payload)], ' ')
			}
		}), says: "does not match", bundleOnly: true},
		{name: "log entry of another signature", sig: with(func(k *keylessSignature) {
			k.change = func(t *testing.T, bundle *protobundle.Bundle) {
				by := sigstore.Certify(workflow, k.issued, false)
				another := by.Bundle(bundle.GetDsseEnvelope().GetPayload())
				sigstore.Log(another, k.logged)
				bundle.VerificationMaterial.TlogEntries = another.VerificationMaterial.TlogEntries
			}
		}), says: "does not match", bundleOnly: true},
		{name: "time in the log changed", sig: with(func(k *keylessSignature) {
			k.change = func(_ *testing.T, bundle *protobundle.Bundle) {
				bundle.VerificationMaterial.TlogEntries[0].IntegratedTime++
			}
		}), says: "log", bundleOnly: true},
		{name: "by a key", sig: with(func(k *keylessSignature) {
			k.change = func(t *testing.T, bundle *protobundle.Bundle) {
				bundle.VerificationMaterial = signing.Bundle(nil, signing.Signer(newTestKey(t))).VerificationMaterial
			}
		}), says: "signed by a key, and the policy has identities only", bundleOnly: true},
	} {
		trusts := allTrusts
		if tc.trusts != nil {
			trusts = *tc.trusts
		}
		policy := tc.policy
		policy.Provider, policy.TrustedRoot = Cosign, sigstore.TrustedRootOf(trusts)
		if len(policy.Identities) == 0 {
			policy.Identities = []Identity{exactly(workflow)}
		}
		run := func(t *testing.T, push func(*testing.T, signing.Artifact)) {
			t.Parallel()
			b := newBed(t, true)
			artifact := b.push("artifact")
			push(t, artifact)
			result, err := b.verify(artifact, policy)
			if tc.signer != "" {
				wantSigners(t, result, err, tc.signer)
			} else {
				wantError(t, err, ErrUntrusted, tc.says)
			}
		}
		t.Run(tc.name+", bundle", func(t *testing.T) { run(t, tc.sig.push) })
		if !tc.bundleOnly {
			t.Run(tc.name+", tag", func(t *testing.T) { run(t, tc.sig.pushLegacy) })
		}
	}
}

// A user who may push can copy signatures, so only the artifact in the signed text counts.
func TestKeylessSignatureOfAnotherArtifact(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	policy := keylessPolicy(sigstore)
	b := newBed(t, true)
	artifact, another := b.push("artifact"), b.push("another")
	now := time.Now()
	by := sigstore.Certify(workflow, now.Add(-time.Minute), false)
	check(t, artifact.PushTag(t.Context(), sigstore.Legacy(another.Claim(), by, now)))
	_, err := b.verify(artifact, policy)
	wantError(t, err, ErrUntrusted, "signs another artifact, "+another.Digest())

	bundle := by.Bundle(signing.Statement(signing.PredicateSign, another.Digest()))
	sigstore.Log(bundle, now)
	check(t, another.PushBundle(t.Context(), bundle))
	result, err := b.verify(another, policy)
	wantSigners(t, result, err, workflowText)
	third := b.push("third")
	check(t, third.PushBundle(t.Context(), bundle))
	_, err = b.verify(third, policy)
	wantError(t, err, ErrUntrusted, "signs another artifact")
}

// A policy may have keys and identities at the same time while a user replaces one with the other.
func TestKeysAndIdentities(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	key := newTestKey(t)
	policy := keyPolicy(key)
	policy.Identities, policy.TrustedRoot = []Identity{exactly(workflow)}, sigstore.TrustedRoot()
	for name, sign := range map[string]func(t *testing.T, a signing.Artifact) (string, error){
		"key, tag": func(t *testing.T, a signing.Artifact) (string, error) {
			return "key a.pub", a.SignKeyed(t.Context(), key)
		},
		"key, bundle": func(t *testing.T, a signing.Artifact) (string, error) {
			return "key a.pub", a.SignKeyedBundle(t.Context(), key)
		},
		"keyless, tag": func(t *testing.T, a signing.Artifact) (string, error) {
			return workflowText, sigstore.SignKeyless(t.Context(), a, workflow)
		},
		"keyless, bundle": func(t *testing.T, a signing.Artifact) (string, error) {
			return workflowText, sigstore.SignKeylessBundle(t.Context(), a, workflow)
		},
		"stranger's key": func(t *testing.T, a signing.Artifact) (string, error) {
			return "", a.SignKeyedBundle(t.Context(), newTestKey(t))
		},
		"stranger": func(t *testing.T, a signing.Artifact) (string, error) {
			return "", sigstore.SignKeyless(t.Context(), a, person)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, false)
			artifact := b.push("artifact")
			signer, err := sign(t, artifact)
			check(t, err)
			result, err := b.verify(artifact, policy)
			if signer == "" {
				wantError(t, err, ErrUntrusted, "")
				return
			}
			wantSigners(t, result, err, signer)
		})
	}
	t.Run("keyless, policy of keys only", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, true)
		artifact := b.push("artifact")
		check(t, sigstore.SignKeylessBundle(t.Context(), artifact, workflow))
		_, err := b.verify(artifact, keyPolicy(key))
		wantError(t, err, ErrUntrusted, "keyless, and the policy has keys only")
	})
}

// Anyone may have written the annotations of a legacy signature.
func TestMalformedAnnotations(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	policy := keylessPolicy(sigstore)
	now := time.Now()
	b := newBed(t, true)
	for i, tc := range []struct{ annotation, value, says string }{
		{signing.AnnotationSignature, "planted!", "no signature as base64"},
		{signing.AnnotationCertificate, "planted", "certificate is not PEM"},
		{signing.AnnotationCertificate, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""},
		{signing.AnnotationLog, "planted", "log entry is not of the right form"},
		{signing.AnnotationLog, "{}", "log entry is not of the right form"},
		{signing.AnnotationLog, `{"Payload":{"body":"e30=","logID":"00"}}`, "log entry is not of the right form"},
		{signing.AnnotationTimestamp, "planted", "timestamp is not JSON"},
		{signing.AnnotationTimestamp, `{"SignedRFC3161Timestamp":"AAAA"}`, ""},
	} {
		artifact := b.push(fmt.Sprint(i))
		by := sigstore.Certify(workflow, now.Add(-time.Minute), false)
		layer := sigstore.Legacy(artifact.Claim(), by, now)
		layer.Annotations[tc.annotation] = tc.value
		check(t, artifact.PushTag(t.Context(), layer))
		_, err := b.verify(artifact, policy)
		if tc.annotation == signing.AnnotationTimestamp && tc.says == "" {
			// The log contains the time, so a broken timestamp does not matter.
			check(t, err)
			continue
		}
		wantError(t, err, ErrUntrusted, tc.says)
	}
}

// The promise must come from the log itself, because its time is used.
func TestLogInclusionPromiseIsVerified(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	policy := keylessPolicy(sigstore)
	now := time.Now()
	b := newBed(t, true)
	artifact := b.push("artifact")
	// The signature is logged an hour after the certificate expired. The time is then set back.
	by := sigstore.Certify(workflow, now.Add(-50*time.Minute), false)
	layer := sigstore.Legacy(artifact.Claim(), by, now)
	delete(layer.Annotations, signing.AnnotationTimestamp)
	set := regexp.MustCompile(`"integratedTime":[0-9]+`)
	layer.Annotations[signing.AnnotationLog] = set.ReplaceAllString(layer.Annotations[signing.AnnotationLog],
		fmt.Sprintf(`"integratedTime":%d`, now.Add(-45*time.Minute).Unix()))
	if !json.Valid([]byte(layer.Annotations[signing.AnnotationLog])) ||
		!strings.Contains(layer.Annotations[signing.AnnotationLog], "integratedTime") {
		t.Fatal("the annotation was not changed as meant")
	}
	check(t, artifact.PushTag(t.Context(), layer))
	_, err := b.verify(artifact, policy)
	wantError(t, err, ErrUntrusted, "log")
}
