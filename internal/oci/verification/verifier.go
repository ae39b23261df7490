// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	defaultTimeout        = 60 * time.Second
	defaultRequestTimeout = 10 * time.Second
	defaultRemembered     = 10_000
	// maxSigners bounds Result.Signers.
	maxSigners = 10
)

// Options say how a Verifier works. Only Registry is required.
type Options struct {
	// Registry is asked for signatures, within its own limits.
	Registry *oci.Client
	// Dir keeps the public Sigstore's trusted root over restarts. It must not be
	// the Registry's directory; it is made when it is needed. Empty keeps nothing.
	Dir string
	// Timeout bounds one verification, with all its requests. Default 60 s.
	Timeout time.Duration
	// HTTPClient fetches the public Sigstore's trusted root, and asks whether
	// certificates of notation were revoked. Nil is one that goes through the
	// environment's proxy and gives each request 10 s, so that services that do not
	// answer leave time for the rest.
	HTTPClient *http.Client
	// Remembered is the number of verifications that are remembered. Default
	// 10 000.
	Remembered int
}

// Result says who vouches for an artifact.
type Result struct {
	// Signers are for showing: "key cosign.pub", "https://… (issuer https://…)",
	// "CN=…". At least one, at most ten, sorted, without duplicates.
	Signers []string
}

// Verifier verifies signatures. It is safe for use by several goroutines.
type Verifier struct {
	opts       Options
	publicRoot *publicRoot
	flights    singleflight.Group

	mu   sync.Mutex
	good *lru.LRU[memory, Result]
}

// memory is what a Result is remembered by.
type memory struct{ url, digest, policy string }

// New returns a Verifier. It makes no request.
func New(opts Options) (*Verifier, error) {
	if opts.Registry == nil {
		return nil, errors.New("the registry client of the verifier is not set")
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.Remembered <= 0 {
		opts.Remembered = defaultRemembered
	}
	if opts.HTTPClient == nil {
		opts.HTTPClient = &http.Client{Timeout: defaultRequestTimeout}
	}
	good, err := lru.NewLRU[memory, Result](opts.Remembered, nil)
	if err != nil {
		return nil, err
	}
	return &Verifier{opts: opts, publicRoot: newPublicRoot(opts), good: good}, nil
}

// Verify returns who vouches for the artifact with a digest in a repository,
// "oci://host/path", within Options.Timeout. What has been found good before is
// answered without a request, whatever the access.
func (v *Verifier) Verify(ctx context.Context, url, digest string, access oci.Access, policy Policy) (Result, error) {
	key := memory{url: url, digest: digest, policy: policy.Digest()}
	if result, ok := v.recall(key); ok {
		return result, nil
	}
	if err := (oci.Source{URL: url, Ref: oci.Reference{Digest: digest}}).Validate(); err != nil {
		return Result{}, err
	}
	rules, err := policy.compile()
	if err != nil {
		return Result{}, err
	}
	target := &target{registry: v.opts.Registry, url: url, digest: digest, access: access}
	// A caller with other credentials may be told something else by the registry.
	flight := policyHash{newHash()}
	accessText, err := json.Marshal(access)
	if err != nil {
		return Result{}, err
	}
	flight.text(url, digest, key.policy, string(accessText))
	done := v.flights.DoChan(flight.sum(), func() (any, error) {
		// One caller that leaves takes nothing from the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.opts.Timeout)
		defer cancel()
		return v.verify(ctx, target, rules, key)
	})
	select {
	case <-ctx.Done():
		return Result{}, target.gaveUp(ctx)
	case outcome := <-done:
		result, _ := outcome.Val.(Result)
		return result.clone(), outcome.Err
	}
}

// verify looks for a good signature and remembers that there is one.
func (v *Verifier) verify(ctx context.Context, target *target, rules *rules, key memory) (result Result, err error) {
	defer errorOfPanic(target.String(), &err)
	// The verification before this one may have ended after the caller's look.
	if result, ok := v.recall(key); ok {
		return result, nil
	}
	var signers []string
	var found findings
	switch {
	case rules.cosign != nil:
		check := &cosignCheck{target: target, rules: rules.cosign, root: v.publicRoot.get, found: &found, left: maxSignatures}
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
	v.remember(key, result)
	return result, nil
}

// Remembered returns what is remembered of a digest in a repository under a
// policy, by its Digest.
func (v *Verifier) Remembered(url, digest, policyDigest string) (Result, bool) {
	return v.recall(memory{url: url, digest: digest, policy: policyDigest})
}

func (v *Verifier) remember(key memory, result Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.good.Add(key, result)
}

func (v *Verifier) recall(key memory) (Result, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	result, ok := v.good.Get(key)
	return result.clone(), ok
}

// clone returns the result sorted, bounded, without duplicates, and with a slice
// of its own.
func (r Result) clone() Result {
	unique := map[string]bool{}
	for _, signer := range r.Signers {
		unique[clipTo(signer, maxSigner)] = true
	}
	signers := slices.Sorted(maps.Keys(unique))
	return Result{Signers: signers[:min(len(signers), maxSigners)]}
}
