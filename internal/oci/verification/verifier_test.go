// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

func TestVerifyCachesSuccess(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	key := newTestKey(t)
	artifact := b.push("artifact")
	check(t, artifact.SignKeyedBundle(t.Context(), key))
	v, policy := b.verifier(), keyPolicy(key)
	if _, ok := v.Cached(b.url(), artifact.Digest(), policy.Digest()); ok {
		t.Error("remembered before it was verified")
	}
	b.asked()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			result, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), policy)
			wantSigners(t, result, err, "key a.pub")
			result.Signers[0] = "changed by its reader"
		})
	}
	group.Wait()
	// The list, the manifest, the bundle.
	if requests := b.asked(); len(requests) != 3 {
		t.Errorf("20 verifications made the requests %q", requests)
	}
	result, ok := v.Cached(b.url(), artifact.Digest(), policy.Digest())
	if !ok || len(result.Signers) != 1 || result.Signers[0] != "key a.pub" {
		t.Errorf("remembered = %v, %v", result, ok)
	}
	// The access does not matter, because the result is about the content.
	result, err := v.Verify(t.Context(), b.url(), artifact.Digest(), oci.Access{CA: []byte("nonsense")}, policy)
	wantSigners(t, result, err, "key a.pub")

	// Another policy needs new requests. So does another repository, and it has no signature.
	_, err = v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), keyPolicy(newTestKey(t)))
	if !errors.Is(err, ErrUntrusted) {
		t.Errorf("another policy: %v", err)
	}
	copied := b.pushTo("charts/copy", "artifact")
	if copied.Digest() != artifact.Digest() {
		t.Fatal("the copy has another digest")
	}
	_, err = v.Verify(t.Context(), "oci://"+b.Host+"/charts/copy", artifact.Digest(), b.access(), policy)
	wantError(t, err, ErrUnsigned, "copy the signatures, too, when you copy an artifact to another repository")
}

func TestVerifyDoesNotCacheFailures(t *testing.T) {
	t.Parallel()
	b := newBed(t, false)
	key := newTestKey(t)
	artifact := b.push("artifact")
	v, policy := b.verifier(), keyPolicy(key)
	_, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), policy)
	wantError(t, err, ErrUnsigned, "")
	check(t, artifact.SignKeyed(t.Context(), key))
	result, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), policy)
	wantSigners(t, result, err, "key a.pub")
}

func TestVerificationCacheIsBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	v := b.verifier(func(o *Options) { o.CacheSize = 2 })
	many := Result{}
	for i := range 30 {
		many.Signers = append(many.Signers, strings.Repeat(string(rune('a'+i%26)), 1000+i))
	}
	v.cache(resultKey{url: b.url(), digest: "d", policy: "1"}, Result{Signers: []string{"b", "a", "b"}})
	result, _ := v.Cached(b.url(), "d", "1")
	wantSigners(t, result, nil, "a", "b")
	v.cache(resultKey{url: b.url(), digest: "d", policy: "2"}, many)
	v.cache(resultKey{url: b.url(), digest: "d", policy: "3"}, Result{Signers: []string{"c"}})
	if _, ok := v.Cached(b.url(), "d", "1"); ok {
		t.Error("the cache holds more than Options.CacheSize results")
	}
	bounded, _ := v.Cached(b.url(), "d", "2")
	if len(bounded.Signers) != maxSigners || len(bounded.Signers[0]) > maxSigner+len("…") {
		t.Errorf("%d signers, the first of %d bytes", len(bounded.Signers), len(bounded.Signers[0]))
	}
}

// A caller that waited uses the result of the caller before it.
func TestVerifyChecksCacheBeforeRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	v, policy := b.verifier(), keyPolicy(newTestKey(t))
	key := resultKey{url: b.url(), digest: "sha256:" + emptyDigest, policy: policy.Digest()}
	v.cache(key, Result{Signers: []string{"found meanwhile"}})
	rules := must(policy.compile())(t)
	result, err := v.verify(t.Context(), &target{registry: b.client, url: key.url, digest: key.digest, access: b.access()},
		rules, key)
	wantSigners(t, result, err, "found meanwhile")
	if requests := b.asked(); len(requests) > 0 {
		t.Errorf("requests = %q", requests)
	}
}

// Errors of the registry are returned unchanged: they do not mean that an artifact is not signed.
func TestRegistryErrorsAreNotUnsigned(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request) bool
		kind   error
	}{
		{name: "forbidden", kind: ocierr.ErrUnauthorized, answer: refuseAll(http.StatusForbidden)},
		{name: "trouble", kind: ocierr.ErrUnreachable, answer: refuseAll(http.StatusInternalServerError)},
		{name: "list refused", kind: ocierr.ErrUnauthorized, answer: refusePath("/referrers/", http.StatusForbidden)},
		{name: "tag refused", kind: ocierr.ErrUnauthorized, answer: refusePath(".sig", http.StatusForbidden)},
		{name: "list ends early", kind: ocierr.ErrIntegrity, answer: endEarly("/referrers/")},
		{name: "tag ends early", kind: ocierr.ErrIntegrity, answer: endEarly(".sig")},
		{name: "list too large", kind: ocierr.ErrTooLarge, answer: endless("/referrers/")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, true)
			artifact := b.push("artifact")
			b.setIntercept(tc.answer)
			_, err := b.verify(artifact, keyPolicy(newTestKey(t)))
			wantError(t, err, tc.kind, "")
			if errors.Is(err, ErrUnsigned) || errors.Is(err, ErrUntrusted) {
				t.Errorf("error = %v", err)
			}
		})
	}
	t.Run("list refused, tag signed", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, true)
		key := newTestKey(t)
		artifact := b.push("artifact")
		check(t, artifact.SignKeyed(t.Context(), key))
		b.setIntercept(refusePath("/referrers/", http.StatusForbidden))
		result, err := b.verify(artifact, keyPolicy(key))
		wantSigners(t, result, err, "key a.pub")
	})
	t.Run("a blob cannot be read", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, true)
		artifact := b.push("artifact")
		check(t, artifact.SignKeyedBundle(t.Context(), newTestKey(t)))
		b.setIntercept(refusePath("/blobs/", http.StatusForbidden))
		_, err := b.verify(artifact, keyPolicy(newTestKey(t)))
		wantError(t, err, ocierr.ErrUnauthorized, "")
	})
}

func refuseAll(status int) func(http.ResponseWriter, *http.Request) bool {
	return refusePath("", status)
}

// endEarly ends the responses for a path in the middle.
func endEarly(part string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"schemaVersion":2,"manifests":[{"mediaType":"`)
		return true
	}
}

// endless returns the same empty page of a list again and again.
func endless(part string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		w.Header().Set("Link", "<"+r.URL.String()+`>; rel="next"`)
		_, _ = io.WriteString(w, `{"schemaVersion":2,"manifests":[]}`)
		return true
	}
}

func refusePath(part string, status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"errors":[{"code":"DENIED","message":"planted"}]}`))
		return true
	}
}

func TestVerifyEndsAtTimeout(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	artifact := b.push("artifact")
	b.setIntercept(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	v := b.verifier(func(o *Options) { o.Timeout = 200 * time.Millisecond })
	_, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), keyPolicy(newTestKey(t)))
	wantError(t, err, ocierr.ErrUnreachable, "deadline")

	// A caller that stops waiting gets the error of its context. The verification continues for the others.
	v = b.verifier(func(o *Options) { o.Timeout = time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = v.Verify(ctx, b.url(), artifact.Digest(), b.access(), keyPolicy(newTestKey(t)))
	wantError(t, err, context.Canceled, "")
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = v.Verify(ctx, b.url(), artifact.Digest(), b.access(), keyPolicy(newTestKey(t)))
	wantError(t, err, ocierr.ErrUnreachable, "no result within the deadline")
}

// If the credentials of one caller are refused, another caller must not get this result.
func TestCallersWithOtherAccessDoNotShare(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	key := newTestKey(t)
	artifact := b.push("artifact")
	check(t, artifact.SignKeyedBundle(t.Context(), key))
	v, policy := b.verifier(), keyPolicy(key)
	held := make(chan struct{})
	arrived := make(chan struct{}, 100)
	b.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		arrived <- struct{}{}
		<-held
		return false
	})
	good := make(chan error, 1)
	go func() {
		_, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), policy)
		good <- err
	}()
	<-arrived
	_, err := v.Verify(t.Context(), b.url(), artifact.Digest(), oci.Access{CA: []byte("nonsense")}, policy)
	wantError(t, err, ocierr.ErrInvalidAccess, "")
	close(held)
	check(t, <-good)
}

// The tag for legacy signatures would be too long. This does not mean that there is a signature.
// TestTenantsDoNotShare checks that a verification does not wait for the requests of another tenant.
func TestTenantsDoNotShare(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	key := newTestKey(t)
	artifact := b.push("artifact")
	check(t, artifact.SignKeyedBundle(t.Context(), key))
	var both sync.WaitGroup
	both.Add(2)
	b.setIntercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		both.Done()
		together := make(chan struct{})
		go func() {
			both.Wait()
			close(together)
		}()
		select {
		case <-together:
		case <-r.Context().Done():
		}
		return false
	})
	v := b.verifier()
	var callers sync.WaitGroup
	for _, tenant := range []string{"team-a", "team-b"} {
		callers.Go(func() {
			ctx := oci.ForTenant(t.Context(), tenant)
			result, err := v.Verify(ctx, b.url(), artifact.Digest(), b.access(), keyPolicy(key))
			if err != nil || len(result.Signers) != 1 {
				t.Errorf("%s: %v, %v", tenant, result, err)
			}
		})
	}
	callers.Wait()
}

func TestUnsignedSHA512Artifact(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	b.setIntercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write([]byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[]}`))
		return true
	})
	policy := keyPolicy(newTestKey(t))
	_, err := b.verifier().Verify(t.Context(), b.url(), "sha512:"+strings.Repeat("0a", 64), b.access(), policy)
	wantError(t, err, ErrUnsigned, "no cosign signature")
}

// A verification runs in its own goroutine, in which a panic would end the process.
func TestPanicsFailTheVerification(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	artifact := b.push("artifact")
	v := b.verifier()
	v.opts.Registry = nil // each use of it panics
	notation := notationPolicy(newNotary("jane"), signing.TrustAnyone("strict"))
	for _, policy := range []Policy{keyPolicy(newTestKey(t)), notation} {
		_, err := v.Verify(t.Context(), b.url(), artifact.Digest(), b.access(), policy)
		wantError(t, err, ocierr.ErrUnexpected, "nil pointer")
		if _, ok := v.Cached(b.url(), artifact.Digest(), policy.Digest()); ok {
			t.Error("a verification that panicked is remembered")
		}
	}
	for _, value := range []any{"planted", errors.New("planted"), []byte("planted")} {
		err := func() (err error) {
			defer errorOfPanic("x", &err)
			panic(value)
		}()
		wantError(t, err, ocierr.ErrUnexpected, "internal error: panic")
	}
}

func TestVerifyRefusesInvalidTargets(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	v, policy := b.verifier(), keyPolicy(newTestKey(t))
	for _, tc := range []struct{ url, digest string }{
		{"https://example.com/x", "sha256:" + strings.Repeat("0", 64)},
		{b.url() + ":tag", "sha256:" + strings.Repeat("0", 64)},
		{b.url(), "sha256:0"}, {b.url(), ""}, {b.url(), "latest"},
	} {
		_, err := v.Verify(t.Context(), tc.url, tc.digest, b.access(), policy)
		wantError(t, err, ocierr.ErrInvalidReference, "")
	}
	_, err := v.Verify(t.Context(), b.url(), "sha256:"+strings.Repeat("0", 64), b.access(), Policy{Provider: Cosign})
	wantError(t, err, ErrInvalidPolicy, "names no signer")
	if _, err := New(Options{}); err == nil {
		t.Error("a verifier without registry is made")
	}
}

func TestCosignPolicyValidation(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	trusted := sigstore.TrustedRoot()
	public := signing.PublicKey(newTestKey(t))
	publicOf := func(key any) []byte { return must(cryptoutils.MarshalPublicKeyToPEM(key))(t) }
	identity := exactly(workflow)
	private := must(cryptoutils.MarshalPrivateKeyToPEM(newTestKey(t)))(t)
	subject := func(pattern string) Policy {
		return Policy{Provider: Cosign, Identities: []Identity{{Issuer: "https://i.test", SubjectRegExp: pattern}}}
	}
	issuer := func(pattern string) Policy {
		return Policy{Provider: Cosign, Identities: []Identity{{IssuerRegExp: pattern, Subject: "x"}}}
	}
	for _, tc := range []struct {
		name   string
		policy Policy
		says   string // "" means valid
	}{
		{name: "key", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"a": public}}},
		{name: "identity", policy: Policy{Provider: Cosign, Identities: []Identity{identity}}},
		{name: "identity with a root",
			policy: Policy{Provider: Cosign, Identities: []Identity{identity}, TrustedRoot: trusted}},
		{name: "provider", policy: Policy{}, says: `use "cosign", "notation" or "HelmProvenance"`},
		{name: "nobody", policy: Policy{Provider: Cosign}, says: "names no signer"},
		{name: "root alone", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"a": public}, TrustedRoot: trusted},
			says: "for keyless"},
		{name: "notation's", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"a": public},
			TrustPolicy: []byte("{}")}, says: "for notation"},
		{name: "private key", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"cosign.key": private}},
			says: `key "cosign.key" is not a public key`},
		{name: "no PEM", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"a": []byte("planted")}},
			says: "not a public key"},
		{name: "empty key", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"a": nil}}, says: "not a public key"},
		{name: "short RSA", policy: Policy{Provider: Cosign,
			Keys: map[string][]byte{"a": publicOf(must(rsa.GenerateKey(rand.Reader, 1024))(t).Public())}},
			says: "has 1024 bits"},
		{name: "small curve", policy: Policy{Provider: Cosign,
			Keys: map[string][]byte{"a": publicOf(must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))(t).Public())}},
			says: "curve"},
		{name: "too large", policy: Policy{Provider: Cosign, Keys: map[string][]byte{"a": make([]byte, 3<<20)}},
			says: "bytes"},
		{name: "empty identity", policy: Policy{Provider: Cosign, Identities: []Identity{{}}},
			says: "issuer of identity 1 is not given"},
		{name: "no subject", policy: Policy{Provider: Cosign, Identities: []Identity{identity, {Issuer: "x"}}},
			says: "subject of identity 2"},
		{name: "twice", policy: Policy{Provider: Cosign,
			Identities: []Identity{{Issuer: "x", IssuerRegExp: "x", Subject: "x"}}}, says: "given twice"},
		{name: "root not JSON", policy: Policy{Provider: Cosign, Identities: []Identity{identity},
			TrustedRoot: []byte("planted")}, says: "not a trusted_root.json"},
		{name: "root proves no time", says: "cannot prove when", policy: Policy{
			Provider: Cosign, Identities: []Identity{identity},
			TrustedRoot: sigstore.TrustedRootOf(signing.Trusts{CertificateLog: true}),
		}},
		{name: "empty root", policy: Policy{Provider: Cosign, Identities: []Identity{identity},
			TrustedRoot: []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`)},
			says: "no certificate authority"},

		{name: "subject of an organization", policy: subject(`https://github\.com/org/.+`)},
		{name: "subject of a domain", policy: subject(`.+@example\.com`)},
		{name: "issuers", policy: issuer(`https://(gitlab|accounts)\.example\.com(/.*)?`)},
		{name: "any", policy: subject(`.*`), says: "matches untrusted names"},
		{name: "any, not empty", policy: subject(`.+`), says: "matches untrusted names"},
		{name: "any, anchored", policy: subject(`^.*$`), says: "matches untrusted names"},
		{name: "any, grouped", policy: subject(`((.*))`), says: "matches untrusted names"},
		{name: "any, other words", policy: subject(`[\s\S]*`), says: "matches untrusted names"},
		{name: "any, as alternative", policy: subject(`jane@example\.com|.*`), says: "matches untrusted names"},
		{name: "any address", policy: subject(`.+@.+`), says: "matches untrusted names"},
		{name: "any URI", policy: subject(`https://.*`), says: "matches untrusted names"},
		{name: "any workflow", policy: subject(`https://.*/\.github/workflows/.*`), says: "matches untrusted names"},
		{name: "any issuer", policy: issuer(`.*`), says: "matches untrusted names"},
		{name: "any issuer by HTTPS", policy: issuer(`https://.+`), says: "matches untrusted names"},
		{name: "any issuer of some domains", policy: issuer(`https://.+\.(com|io|dev)`), says: "matches untrusted names"},
		{name: "any issuer of one domain", policy: issuer(`https://[^/]+\.org`), says: "matches untrusted names"},
		{name: "any issuer with a path", policy: issuer(`https://[a-z]+\.dev/.+`), says: "matches untrusted names"},
		{name: "any short issuer", policy: issuer(`https://.{1,5}\.io`), says: "matches untrusted names"},
		{name: "any subject of some domains", policy: subject(`.+\.(com|io|org)(/.*)?`), says: "matches untrusted names"},
		{name: "any address of a domain", policy: subject(`[^@]+@[^@]+\.net`), says: "matches untrusted names"},
		{name: "any organization of GitHub", policy: subject(`https://github\.com/.*`),
			says: `"https://github.com/helmopstranger`},
		{name: "any organization of GitLab", policy: subject(`^https://gitlab\.com/[^/]+/.+`),
			says: `"https://gitlab.com/helmopstranger`},
		{name: "any workflow at a tag", policy: subject(`https://.+@refs/tags/v[0-9.]+`), says: "matches untrusted names"},
		{name: "any release workflow",
			policy: subject(`https://github\.com/[^/]+/[^/]+/\.github/workflows/release\.ya?ml@.+`),
			says:   "bind the domain, and on a shared host the organization"},
		{name: "any group's pipeline", policy: subject(`.+//\.gitlab-ci\.yml@refs/heads/main`),
			says: "matches untrusted names"},
		{name: "any workload", policy: subject(`spiffe://[^/]+/ns/.+/sa/.+`), says: "matches untrusted names"},
		{name: "issuer of GitHub", policy: issuer(`https://token\.actions\.githubusercontent\.com(/.+)?`)},
		{name: "issuers of a company", policy: issuer(`https://.+\.example\.(com|org)`)},
		{name: "organizations", policy: subject(`https://(github|gitlab)\.com/(my-org|other-org)/.+@refs/tags/.+`)},
		{name: "not a pattern", policy: subject(`(`), says: "is not a valid pattern"},
		{name: "escapes the anchors", policy: subject(`a)|(?:b`), says: "is not a valid pattern"},
		{name: "lookahead", policy: subject(`(?!x)`), says: "is not a valid pattern"},
		{name: "repeats much", policy: subject(`(?:(?:.?.?){30}){30}@example\.com`), says: "repeats too much"},
		{name: "long, literally", policy: subject(strings.Repeat("a", maxPattern))},
		{name: "long", policy: subject(strings.Repeat("a", maxPattern+1)), says: "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.policy.Validate()
			if tc.says == "" {
				check(t, err)
				return
			}
			wantError(t, err, ErrInvalidPolicy, tc.says)
			if strings.Contains(err.Error(), "PRIVATE") {
				t.Errorf("error shows a key: %v", err)
			}
		})
	}
}

func TestPolicyDigest(t *testing.T) {
	t.Parallel()
	full := func() Policy {
		return Policy{Provider: Cosign, Keys: map[string][]byte{"a": []byte("1"), "b": []byte("2")},
			Identities:  []Identity{{"1", "2", "3", "4"}, {"5", "6", "7", "8"}},
			TrustedRoot: []byte("root"), TrustPolicy: []byte("policy"), Certificates: map[string][]byte{"c": []byte("3")}}
	}
	changes := map[string]func(*Policy){
		"nothing":       func(*Policy) {},
		"provider":      func(p *Policy) { p.Provider = Notation },
		"key":           func(p *Policy) { p.Keys["a"] = []byte("3") },
		"key's name":    func(p *Policy) { p.Keys = map[string][]byte{"a": []byte("1"), "c": []byte("2")} },
		"keys swapped":  func(p *Policy) { p.Keys = map[string][]byte{"b": []byte("1"), "a": []byte("2")} },
		"no keys":       func(p *Policy) { p.Keys = nil },
		"issuer":        func(p *Policy) { p.Identities[0].Issuer = "x" },
		"issuer moved":  func(p *Policy) { p.Identities[0] = Identity{"", "12", "3", "4"} },
		"subject":       func(p *Policy) { p.Identities[1].SubjectRegExp = "x" },
		"identity gone": func(p *Policy) { p.Identities = p.Identities[:1] },
		"root":          func(p *Policy) { p.TrustedRoot = nil },
		"root moved":    func(p *Policy) { p.TrustedRoot, p.TrustPolicy = []byte("rootpolicy"), nil },
		"certificate":   func(p *Policy) { p.Certificates["c"] = []byte("4") },
	}
	seen := map[string]string{}
	for name, change := range changes {
		policy, again := full(), full()
		change(&policy)
		change(&again)
		if policy.Digest() != again.Digest() {
			t.Errorf("%s: equal policies have the digests %s and %s", name, policy.Digest(), again.Digest())
		}
		if other, ok := seen[policy.Digest()]; ok {
			t.Errorf("%q and %q have the same digest", name, other)
		}
		seen[policy.Digest()] = name
	}
}
