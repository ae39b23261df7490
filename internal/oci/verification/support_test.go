// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

const testRepository = "charts/demo"

// bed is a registry over TLS and a client for it.
type bed struct {
	t      *testing.T
	srv    *httptest.Server
	client *oci.Client
	signing.Registry

	mu        sync.Mutex
	requests  []string
	intercept func(w http.ResponseWriter, r *http.Request) bool
}

// newBed starts a registry that lists referrers by the API, or stores lists under a tag.
func newBed(t *testing.T, referrersAPI bool, change ...func(*oci.Options)) *bed {
	t.Helper()
	b := &bed{t: t}
	registry := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrersAPI))
	b.srv = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.requests = append(b.requests, r.Method+" "+r.URL.Path)
		intercept := b.intercept
		b.mu.Unlock()
		if intercept == nil || !intercept(w, r) {
			registry.ServeHTTP(w, r)
		}
	}))
	b.srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(b.srv.Close)
	b.Registry = signing.Registry{Host: strings.TrimPrefix(b.srv.URL, "https://"), Client: b.srv.Client()}
	opts := oci.Options{Dir: t.TempDir(), Timeout: 10 * time.Second, RequestsPerSecond: 10_000}
	for _, f := range change {
		f(&opts)
	}
	var err error
	if b.client, err = oci.New(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	return b
}

func (b *bed) url() string { return "oci://" + b.Host + "/" + testRepository }

func (b *bed) access() oci.Access {
	return oci.Access{CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.srv.Certificate().Raw})}
}

// push stores an artifact whose only layer holds a text.
func (b *bed) push(text string) signing.Artifact { return b.pushTo(testRepository, text) }

func (b *bed) pushTo(repository, text string) signing.Artifact {
	b.t.Helper()
	target, err := remote.NewRepository(b.Host + "/" + repository)
	if err != nil {
		b.t.Fatal(err)
	}
	target.Client = b.srv.Client()
	ctx := b.t.Context()
	layer, err := oras.PushBytes(ctx, target, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	desc, err := oras.PackManifest(ctx, target, oras.PackManifestVersion1_1, "application/vnd.cncf.helm.config.v1+json",
		oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer},
			ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: "2026-01-01T00:00:00Z"}})
	if err != nil {
		b.t.Fatal(err)
	}
	artifact, err := b.Artifact(repository, desc.Digest.String())
	if err != nil {
		b.t.Fatal(err)
	}
	return artifact
}

// setIntercept sets a function that answers requests instead of the registry.
func (b *bed) setIntercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.intercept = f
}

// asked returns the requests since its last call.
func (b *bed) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.requests
	b.requests = nil
	return requests
}

func (b *bed) verifier(change ...func(*Options)) *Verifier {
	b.t.Helper()
	opts := Options{Registry: b.client, Timeout: 20 * time.Second, httpClient: noNetwork()}
	for _, f := range change {
		f(&opts)
	}
	v, err := New(opts)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// verify verifies with a new Verifier.
func (b *bed) verify(artifact signing.Artifact, policy Policy) (Result, error) {
	b.t.Helper()
	return b.verifier().Verify(b.t.Context(), b.url(), artifact.Digest(), b.access(), policy)
}

// noNetwork returns a client that cannot connect.
func noNetwork() *http.Client {
	return &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("there is no network in this test")
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newTestKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// keyPolicy trusts keys: "a.pub", "b.pub" and so on.
func keyPolicy(keys ...*ecdsa.PrivateKey) Policy {
	policy := Policy{Provider: Cosign, Keys: map[string][]byte{}}
	for i, key := range keys {
		policy.Keys[string(rune('a'+i))+".pub"] = signing.PublicKey(key)
	}
	return policy
}

// must returns a value, or fails the test for its error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantSigners fails the test unless the signers are exactly these.
func wantSigners(t *testing.T, result Result, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("not verified: %v", err)
	}
	if strings.Join(result.Signers, "|") != strings.Join(want, "|") {
		t.Errorf("signers = %q, want %q", result.Signers, want)
	}
}

// wantError fails the test unless the error has a kind, contains a text, and is short enough for a status.
func wantError(t *testing.T, err, kind error, says string) {
	t.Helper()
	var own *ocierr.Error
	if !errors.As(err, &own) || !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
		t.Fatalf("error = %v\nwant %v that says %q", err, kind, says)
	}
	if len(err.Error()) > 1000 || strings.Contains(err.Error(), "planted") {
		t.Errorf("error is too long or shows what it must not: %v", err)
	}
}
