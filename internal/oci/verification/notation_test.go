// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

func newNotary(name string) *signing.Notary {
	return signing.NewNotary(name, time.Now().Add(24*time.Hour))
}

// notationPolicy trusts the certificates of a notary's authority, with trust policy statements.
func notationPolicy(notary *signing.Notary, statements ...signing.TrustStatement) Policy {
	return Policy{Provider: Notation, TrustPolicy: signing.TrustPolicy(statements...),
		Certificates: map[string][]byte{"notary.crt": notary.Certificate()}}
}

func TestNotation(t *testing.T) {
	t.Parallel()
	notary, foreignSigner := newNotary("jane"), newNotary("jane")
	earlier := signing.Envelope{At: time.Now().Add(-time.Hour)}
	short := signing.Envelope{At: time.Now().Add(-time.Hour), Expires: time.Now().Add(-time.Minute)}
	expired := signing.NewNotary("jane", time.Now().Add(-time.Minute))
	byIdentity := func(identities ...string) signing.TrustStatement {
		statement := signing.TrustAnyone("strict")
		statement.TrustedIdentities = identities
		return statement
	}
	type push = func(*testing.T, *bed, signing.Artifact) error
	envelope := func(by *signing.Notary, form signing.Envelope) push {
		return func(t *testing.T, _ *bed, a signing.Artifact) error {
			return a.PushNotation(t.Context(), by.Envelope(must(a.Descriptor(t.Context()))(t), form))
		}
	}
	changed := func(change func(desc *ocispec.Descriptor)) push {
		return func(t *testing.T, _ *bed, a signing.Artifact) error {
			desc := must(a.Descriptor(t.Context()))(t)
			change(&desc)
			return a.PushNotation(t.Context(), notary.Envelope(desc, signing.Envelope{}))
		}
	}
	pushed := func(mediaType string, data []byte) push {
		return func(t *testing.T, _ *bed, a signing.Artifact) error {
			return a.PushNotation(t.Context(), signing.Layer{MediaType: mediaType, Data: data})
		}
	}
	overridden := signing.TrustAnyone("strict")
	overridden.SignatureVerification["override"] = map[string]any{"authenticity": "log"}
	signed, byForeign := envelope(notary, signing.Envelope{}), envelope(foreignSigner, signing.Envelope{})
	strict := notationPolicy(notary, signing.TrustAnyone("strict"))
	permissive := notationPolicy(notary, signing.TrustAnyone("permissive"))
	audit := notationPolicy(notary, signing.TrustAnyone("audit"))
	for _, tc := range []struct {
		name   string
		sign   push
		policy Policy
		kind   error // nil means that the signature is valid
		says   string
	}{
		{name: "strict", sign: signed, policy: strict},
		{name: "permissive", sign: signed, policy: permissive},
		{name: "audit", sign: signed, policy: audit},
		{name: "identity", sign: signed,
			policy: notationPolicy(notary, byIdentity("x509.subject: C=CH, ST=BE, O=helmop, CN=jane"))},
		{name: "other identity", sign: signed,
			policy: notationPolicy(notary, byIdentity("x509.subject: C=CH, ST=BE, O=helmop, CN=joe")),
			kind:   ErrUntrusted, says: "does not match the X.509 trusted identities"},
		{name: "nothing", sign: func(*testing.T, *bed, signing.Artifact) error { return nil }, policy: strict,
			kind: ErrUnsigned, says: "no notation signature"},
		{name: "stranger", sign: byForeign, policy: strict, kind: ErrUntrusted,
			says: "does not contain any trusted certificate"},
		{name: "stranger, permissive", sign: byForeign, policy: permissive, kind: ErrUntrusted,
			says: "does not contain any trusted certificate"},
		{name: "stranger, audit", sign: byForeign, policy: audit, kind: ErrUntrusted,
			says: "does not contain any trusted certificate"},
		{name: "stranger, authenticity overridden", sign: byForeign, policy: notationPolicy(notary, overridden),
			kind: ErrUntrusted, says: "does not contain any trusted certificate"},
		{name: "another artifact's",
			sign:   changed(func(desc *ocispec.Descriptor) { desc.Digest = "sha256:" + emptyDigest }),
			policy: strict, kind: ErrUntrusted, says: "signs another artifact"},
		{name: "another artifact's, audit", sign: changed(func(desc *ocispec.Descriptor) { desc.Size++ }),
			policy: audit, kind: ErrUntrusted, says: "signs another artifact"},
		{name: "certificate expired", sign: envelope(expired, earlier),
			policy: notationPolicy(expired, signing.TrustAnyone("strict")), kind: ErrUntrusted,
			says: "authenticTimestamp"},
		{name: "certificate expired, permissive", sign: envelope(expired, earlier),
			policy: notationPolicy(expired, signing.TrustAnyone("permissive"))},
		{name: "changed", policy: audit, kind: ErrUntrusted, says: "malformed, or was modified",
			sign: func(t *testing.T, _ *bed, a signing.Artifact) error {
				layer := notary.Envelope(must(a.Descriptor(t.Context()))(t), signing.Envelope{})
				layer.Data = []byte(strings.Replace(string(layer.Data), `"payload":"ey`, `"payload":"eyA`, 1))
				return a.PushNotation(t.Context(), layer)
			}},
		{name: "not an envelope", policy: audit, kind: ErrUntrusted, says: "malformed, or was modified",
			sign: pushed(signing.TypeJWS, []byte("planted"))},
		{name: "envelope of another kind", policy: strict, kind: ErrUntrusted, says: "malformed, or was modified",
			sign: pushed("application/planted", []byte("{}"))},
		{name: "envelope of 2 MiB", policy: strict, kind: ErrUntrusted, says: "too large",
			sign: pushed(signing.TypeJWS, make([]byte, 2<<20))},
		{name: "one good, others broken", policy: strict,
			sign: func(t *testing.T, b *bed, a signing.Artifact) error {
				for _, text := range []string{"1", "2"} {
					check(t, pushed(signing.TypeJWS, []byte(text))(t, b, a))
				}
				return signed(t, b, a)
			}},
		{name: "signature will expire",
			sign: envelope(notary, signing.Envelope{Expires: time.Now().Add(time.Hour)}), policy: strict},
		{name: "signature expired", sign: envelope(notary, short), policy: strict, kind: ErrUntrusted,
			says: "expiry"},
		{name: "signature expired, permissive", sign: envelope(notary, short), policy: permissive},
		{name: "COSE", sign: envelope(notary, signing.Envelope{Type: signing.TypeCOSE}), policy: strict},
	} {
		for _, api := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, referrers API %v", tc.name, api), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, api)
				artifact := b.push("artifact")
				check(t, tc.sign(t, b, artifact))
				result, err := b.verify(artifact, tc.policy)
				if tc.kind == nil {
					wantSigners(t, result, err, notary.Subject())
					return
				}
				wantError(t, err, tc.kind, tc.says)
			})
		}
	}
}

const emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// A certificate names its revocation service. At every level, no request is sent before the
// certificate is trusted.
func TestUntrustedCertificatesCauseNoRevocationRequests(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	counting := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return nil, http.ErrServerClosed
	})}
	notary := newNotary("jane")
	foreignSigner := signing.NewRevocableNotary("jane", time.Now().Add(time.Hour),
		signing.Services{OCSP: []string{"http://ocsp.test"}})
	verify := func(by *signing.Notary, trusted *signing.Notary) error {
		b := newBed(t, true)
		artifact := b.push("artifact")
		check(t, by.Sign(t.Context(), artifact))
		v := b.verifier(func(o *Options) { o.httpClient = counting })
		policy := notationPolicy(trusted, signing.TrustAnyone("audit"))
		_, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), policy)
		return err
	}
	wantError(t, verify(foreignSigner, notary), ErrUntrusted, "does not contain any trusted certificate")
	if n := asked.Load(); n > 0 {
		t.Errorf("a stranger's services were asked %d times", n)
	}
	// The revocation service of a trusted certificate gets a request, from the client of the options. With "audit", it is
	// only logged that the service did not answer.
	check(t, verify(foreignSigner, foreignSigner))
	if asked.Load() == 0 {
		t.Error("no request checks whether a trusted certificate is revoked")
	}
}

func TestStrictLevelChecksRevocation(t *testing.T) {
	t.Parallel()
	notary := signing.NewRevocableNotary("jane", time.Now().Add(time.Hour),
		signing.Services{OCSP: []string{"http://ocsp.test"}})
	b := newBed(t, true)
	artifact := b.push("artifact")
	check(t, notary.Sign(t.Context(), artifact))
	_, err := b.verify(artifact, notationPolicy(notary, signing.TrustAnyone("strict")))
	wantError(t, err, ErrUntrusted, "revocation")
}

func TestNotationScopes(t *testing.T) {
	t.Parallel()
	notary := newNotary("jane")
	b := newBed(t, true)
	artifact := b.push("artifact")
	check(t, notary.Sign(t.Context(), artifact))
	scoped := func(level string, scopes ...string) signing.TrustStatement {
		statement := signing.TrustAnyone(level)
		statement.Name, statement.RegistryScopes = level+strings.Join(scopes, ","), scopes
		if level == "skip" {
			statement.TrustStores, statement.TrustedIdentities = nil, nil
		}
		return statement
	}
	here := b.Host + "/" + testRepository
	result, err := b.verify(artifact, notationPolicy(notary, scoped("strict", here), scoped("skip", "*")))
	wantSigners(t, result, err, notary.Subject())
	_, err = b.verify(artifact, notationPolicy(notary, scoped("strict", "example.com/x")))
	wantError(t, err, ErrInvalidPolicy, "no statement of the trust policy applies to "+here)
	_, err = b.verify(artifact, notationPolicy(notary, scoped("strict", "example.com/x"), scoped("skip", here)))
	wantError(t, err, ErrInvalidPolicy, `has the level "skip"`)
}

func TestNotationPolicyValidation(t *testing.T) {
	t.Parallel()
	notary := newNotary("jane")
	good := signing.TrustPolicy(signing.TrustAnyone("strict"))
	tsa := signing.TrustAnyone("strict")
	tsa.TrustStores = []string{"ca:test", "tsa:stamps"}
	withTSA := signing.TrustPolicy(tsa)
	skip := signing.TrustStatement{Name: "none", RegistryScopes: []string{"*"},
		SignatureVerification: map[string]any{"level": "skip"}}
	cert := notary.Certificate()
	named := func(name string) Policy {
		return Policy{TrustPolicy: good, Certificates: map[string][]byte{"notary.crt": cert, name: cert}}
	}
	for _, tc := range []struct {
		name   string
		policy Policy
		says   string
	}{
		{name: "any name", policy: Policy{TrustPolicy: good, Certificates: map[string][]byte{"notary.crt": cert}}},
		{name: "named for its store", policy: Policy{TrustPolicy: good,
			Certificates: map[string][]byte{"ca.test.pem": cert}}},
		{name: "bundle", policy: Policy{TrustPolicy: good, Certificates: map[string][]byte{
			"ca.pem": slices.Concat(cert, newNotary("x").Certificate()),
		}}},
		{name: "timestamps", policy: Policy{TrustPolicy: withTSA,
			Certificates: map[string][]byte{"notary.crt": cert, "tsa.stamps.pem": cert}}},
		{name: "named for another store",
			policy: Policy{TrustPolicy: good, Certificates: map[string][]byte{"ca.other.pem": cert}},
			says:   `add one named "ca.test.pem"`},
		{name: "no signer's is a timestamp authority's",
			policy: Policy{TrustPolicy: withTSA, Certificates: map[string][]byte{"notary.crt": cert}},
			says:   `add one named "tsa.stamps.pem"`},
		{name: "no timestamp authority's is a signer's",
			policy: Policy{TrustPolicy: withTSA, Certificates: map[string][]byte{"tsa.stamps.pem": cert}},
			says:   `add one named "ca.test.pem"`},
		{name: "extension in capitals",
			policy: Policy{TrustPolicy: withTSA, Certificates: map[string][]byte{"ca.test.CRT": cert, "tsa.stamps.PEM": cert}}},
		{name: "store named after a type",
			policy: Policy{TrustPolicy: good, Certificates: map[string][]byte{"ca.test.pem": cert, "ca.tsa.pem": cert}}},
		{name: "authorities of no store",
			policy: Policy{TrustPolicy: good,
				Certificates: map[string][]byte{"ca.crt": cert, "ca-bundle.crt": cert, "CA.pem": cert, "Acme-CA-2.pem": cert,
					"tsarina.pem": cert}}},
		{name: "type and store joined otherwise", policy: named("tsa-acme.pem"), says: `name the certificate "tsa.acme.pem"`},
		{name: "type joined by an underscore", policy: named("tsa_acme.pem"), says: `type "tsa"`},
		{name: "type as the last word", policy: named("acme-tsa.crt"), says: `type "tsa"`},
		{name: "type alone", policy: named("tsa.pem"), says: `type "tsa"`},
		{name: "type without a store", policy: named("tsa..pem"), says: `type "tsa"`},
		{name: "type in capitals", policy: named("TSA.acme.pem"),
			says: `the name of certificate "TSA.acme.pem" resembles that of a trust store`},
		{name: "other type in capitals", policy: named("CA.acme.pem"), says: `name the certificate "ca.acme.pem"`},
		{name: "type in small letters", policy: named("signingauthority.acme.pem"),
			says: `name the certificate "signingAuthority.acme.pem"`},
		{name: "no certificate", policy: Policy{TrustPolicy: good}, says: `trust store "ca:test"`},
		{name: "certificate is no PEM",
			policy: Policy{TrustPolicy: good, Certificates: map[string][]byte{"a.crt": []byte("planted")}},
			says:   `certificate "a.crt" is not`},
		{name: "signer's own certificate",
			policy: Policy{TrustPolicy: good, Certificates: map[string][]byte{"a.crt": notary.SigningCertificate()}},
			says:   "neither a CA certificate nor self-signed"},
		{name: "no trust policy", policy: Policy{Certificates: map[string][]byte{"a.crt": cert}},
			says: "not JSON of the right form"},
		{name: "trust policy of no version",
			policy: Policy{TrustPolicy: []byte("{}"), Certificates: map[string][]byte{"a.crt": cert}}, says: "version"},
		{name: "unknown level", says: "level", policy: Policy{
			TrustPolicy:  signing.TrustPolicy(signing.TrustAnyone("planet")),
			Certificates: map[string][]byte{"a.crt": cert},
		}},
		{name: "skip", policy: Policy{TrustPolicy: signing.TrustPolicy(skip)}, says: "disables verification"},
		{name: "cosign's", policy: Policy{TrustPolicy: good, Keys: map[string][]byte{"a": nil}}, says: "are for cosign"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.policy.Provider = Notation
			err := tc.policy.Validate()
			if tc.says == "" {
				check(t, err)
				return
			}
			wantError(t, err, ErrInvalidPolicy, tc.says)
		})
	}
}

func TestNotationWithoutRegistry(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	notary := newNotary("jane")
	artifact := b.push("artifact")
	check(t, notary.Sign(t.Context(), artifact))
	for part, kind := range map[string]error{"": ocierr.ErrUnauthorized, "/referrers/": ocierr.ErrUnauthorized,
		"/blobs/": ocierr.ErrUnauthorized} {
		b.setIntercept(refusePath(part, http.StatusForbidden))
		_, err := b.verify(artifact, notationPolicy(notary, signing.TrustAnyone("strict")))
		wantError(t, err, kind, "")
	}
}
