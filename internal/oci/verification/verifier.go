// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	defaultTimeout        = 60 * time.Second
	defaultRequestTimeout = 10 * time.Second
	defaultCacheSize      = 10_000
	// maxSigners bounds Result.Signers.
	maxSigners = 10
)

// Options are the settings of a Verifier. Only Registry is required.
type Options struct {
	// Registry reads the signatures, within its own limits.
	Registry *oci.Client
	// Provenance checks the provenance files of chart repositories. If it is nil, policies that require provenance files
	// are refused.
	Provenance Provenance
	// Dir stores the public Sigstore's trusted root across restarts. It must not be the Registry's
	// directory. It is created when it is needed. Empty stores nothing.
	Dir string
	// Timeout bounds one verification, with all its requests. Default 60 s.
	Timeout time.Duration
	// CacheSize is the number of successful verifications in the cache. Default 10 000.
	CacheSize int

	// httpClient replaces the Registry's HTTP client in tests.
	httpClient *http.Client
}

// client returns the client that downloads the public Sigstore's trusted root, and checks the revocation of notation's
// certificates. It limits each request to 10 s, so that unresponsive services leave time for the rest.
func (o Options) client() (*http.Client, error) {
	if o.httpClient != nil {
		return o.httpClient, nil
	}
	client, err := o.Registry.HTTPClient()
	if err != nil {
		return nil, err
	}
	client.Timeout = defaultRequestTimeout
	return client, nil
}

// Provenance checks provenance files.
type Provenance interface {
	// Signers returns the display names of the signers of the provenance file of a chart in a chart repository. A key of a
	// keyring must have signed the file. Errors are ErrUnsigned, ErrUntrusted, ErrInvalidPolicy, and the errors of package
	// oci.
	Signers(ctx context.Context, url, digest string, access oci.Access, keyrings map[string][]byte) ([]string, error)
}

// Result describes a successful verification.
type Result struct {
	// Signers are display names: "key cosign.pub", "https://… (issuer https://…)", "CN=…". There are
	// one to ten signers, sorted, without duplicates.
	Signers []string
}

// Verifier verifies signatures. It is safe for concurrent use.
type Verifier struct {
	opts       Options
	publicRoot *publicRoot
	flights    singleflight.Group

	mu      sync.Mutex
	results *lru.LRU[resultKey, Result]
}

// resultKey is the key of a cached Result.
type resultKey struct{ url, digest, policy string }

// New returns a Verifier. It makes no request.
func New(opts Options) (*Verifier, error) {
	if opts.Registry == nil {
		return nil, errors.New("the registry client of the verifier is not set")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.CacheSize <= 0 {
		opts.CacheSize = defaultCacheSize
	}
	results, err := lru.NewLRU[resultKey, Result](opts.CacheSize, nil)
	if err != nil {
		return nil, err
	}
	return &Verifier{opts: opts, publicRoot: newPublicRoot(opts), results: results}, nil
}

// Verify returns the signers of the artifact with a digest in a repository. The URL is "oci://host/path", or the URL of
// a chart in a chart repository for HelmProvenance. It takes at most Options.Timeout. It returns a cached result
// without a request, whatever the access is.
func (v *Verifier) Verify(ctx context.Context, url, digest string, access oci.Access, policy Policy) (Result, error) {
	key := resultKey{url: url, digest: digest, policy: policy.Digest()}
	if result, ok := v.cached(key); ok {
		return result, nil
	}
	rules, err := policy.compile()
	if err != nil {
		return Result{}, err
	}
	if rules.keyrings == nil {
		err = (oci.Source{URL: url, Ref: oci.Reference{Digest: digest}}).Validate()
	} else if v.opts.Provenance == nil {
		err = invalidPolicy("provenance files are not checked here", "use cosign or notation")
	}
	if err != nil {
		return Result{}, err
	}
	target := &target{registry: v.opts.Registry, url: url, digest: digest, access: access}
	// The key includes the access, because the registry may answer differently with other credentials. It includes the
	// tenant: a caller must not wait for the requests and the memory of another tenant.
	flight := policyHash{newHash()}
	flight.text(url, digest, key.policy, access.Digest(), transport.TenantOf(ctx))
	done := v.flights.DoChan(flight.sum(), func() (any, error) {
		// A caller that stops waiting must not end the verification for the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.opts.Timeout)
		defer cancel()
		return v.verify(ctx, target, rules, key)
	})
	select {
	case <-ctx.Done():
		return Result{}, target.contextError(ctx)
	case outcome := <-done:
		result, _ := outcome.Val.(Result)
		return result.clone(), outcome.Err
	}
}

// verify searches for a valid signature and caches the result.
func (v *Verifier) verify(ctx context.Context, target *target, rules *rules, key resultKey) (result Result, err error) {
	defer errorOfPanic(target.String(), &err)
	// Another verification may have ended after the caller's check.
	if result, ok := v.cached(key); ok {
		return result, nil
	}
	var signers []string
	var found findings
	switch {
	case rules.keyrings != nil:
		signers, err = v.opts.Provenance.Signers(ctx, target.url, target.digest, target.access, rules.keyrings)
	case rules.cosign != nil:
		check := &cosignCheck{target: target, rules: rules.cosign, root: v.publicRoot.get, found: &found,
			remaining: maxSignatures}
		signers = check.run(ctx)
		if len(signers) == 0 {
			err = found.error(target.String(), Cosign)
		}
	default:
		signers, err = v.verifyNotation(ctx, target, rules.notation, &found)
		if err == nil && len(signers) == 0 {
			err = found.error(target.String(), Notation)
		}
	}
	if err != nil {
		return Result{}, err
	}
	result = Result{Signers: signers}.clone()
	v.cache(key, result)
	return result, nil
}

// Cached returns the cached result for a digest in a repository and the digest of a policy.
func (v *Verifier) Cached(url, digest, policyDigest string) (Result, bool) {
	return v.cached(resultKey{url: url, digest: digest, policy: policyDigest})
}

func (v *Verifier) cache(key resultKey, result Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.results.Add(key, result)
}

func (v *Verifier) cached(key resultKey) (Result, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	result, ok := v.results.Get(key)
	return result.clone(), ok
}

// clone returns a sorted copy of the result of limited size, without duplicates.
func (r Result) clone() Result {
	unique := map[string]bool{}
	for _, signer := range r.Signers {
		unique[clipTo(signer, maxSigner)] = true
	}
	signers := slices.Sorted(maps.Keys(unique))
	return Result{Signers: signers[:min(len(signers), maxSigners)]}
}
