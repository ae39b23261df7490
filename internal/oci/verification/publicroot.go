// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/theupdateframework/go-tuf/v2/metadata/fetcher"
	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// rootFresh is how long a trusted root is used before it is fetched again.
	rootFresh = 24 * time.Hour
	// rootUsable is how long a trusted root is used if it cannot be fetched again. The public Sigstore signs its metadata
	// for this time.
	rootUsable = 7 * 24 * time.Hour
	// rootPause is the pause after a failed attempt.
	rootPause = time.Minute
	// rootTimeout bounds one attempt.
	rootTimeout = 20 * time.Second

	trustedRootTarget = "trusted_root.json"
)

// publicRoot provides the public Sigstore's trusted root, which The Update Framework (TUF) distributes. Its first keys
// are part of the manager. It verifies the downloaded metadata, stores the metadata on disk if there is a directory,
// and refreshes it daily.
type publicRoot struct {
	// fetch downloads the root. now returns the current time.
	fetch func(context.Context) (*root.TrustedRoot, error)
	now   func() time.Time

	flights singleflight.Group
	mu      sync.Mutex
	current *root.TrustedRoot
	since   time.Time
	failed  time.Time
}

func newPublicRoot(opts Options) *publicRoot {
	fetch := func(ctx context.Context) (*root.TrustedRoot, error) {
		client, err := opts.client()
		if err != nil {
			return nil, err
		}
		source := tufSource{client: client, dir: opts.Dir, url: tuf.DefaultMirror, root: tuf.DefaultRoot()}
		return source.fetch(ctx)
	}
	return &publicRoot{fetch: fetch, now: time.Now}
}

// get returns the root, and fetches it if it is not fresh. Failed attempts are repeated after a minute. Concurrent
// callers share one attempt. A caller stops waiting when its context ends. The error is ErrTrustRoot.
func (p *publicRoot) get(ctx context.Context) (*root.TrustedRoot, error) {
	current, due := p.state()
	if !due {
		return orUnavailable(current)
	}
	done := p.flights.DoChan("", func() (any, error) {
		if _, due := p.state(); due {
			p.renew(ctx)
		}
		return nil, nil
	})
	select {
	case <-done:
		current, _ = p.state()
	case <-ctx.Done():
	}
	return orUnavailable(current)
}

// state returns the root if it may still be used. due is true if the root must be fetched.
func (p *publicRoot) state() (current *root.TrustedRoot, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.current != nil && now.Sub(p.since) < rootUsable {
		current = p.current
	}
	fresh := p.current != nil && now.Sub(p.since) < rootFresh
	paused := !p.failed.IsZero() && now.Sub(p.failed) < rootPause
	return current, !fresh && !paused
}

// renew makes one attempt. The attempt continues when the caller's context ends, because other callers wait for it.
func (p *publicRoot) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rootTimeout)
	defer cancel()
	fetched, err := p.try(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = p.now()
		return
	}
	p.current, p.since, p.failed = fetched, p.now(), time.Time{}
}

// try fetches the root. A panic of the libraries becomes an error.
func (p *publicRoot) try(ctx context.Context) (fetched *root.TrustedRoot, err error) {
	defer errorOfPanic(trustedRootTarget, &err)
	return p.fetch(ctx)
}

func orUnavailable(current *root.TrustedRoot) (*root.TrustedRoot, error) {
	if current == nil {
		return nil, &ocierr.Error{Op: opVerify, Kind: ErrTrustRoot,
			Detail: "the public Sigstore's root could not be fetched from " + tuf.DefaultMirror,
			Hint:   "check the network and the proxy settings; without access to it, add a trusted_root.json to the policy"}
	}
	return current, nil
}

// tufSource fetches a trusted root by TUF.
type tufSource struct {
	client *http.Client
	// dir stores the metadata; empty stores nothing.
	dir  string
	url  string
	root []byte
}

// fetch gets the root from its source, or from the directory if the stored metadata is less than a
// day old. If the source does not answer, fetch uses the directory until the metadata expires.
func (s tufSource) fetch(ctx context.Context) (*root.TrustedRoot, error) {
	trusted, err := s.load(ctx, false)
	if err != nil && s.dir != "" {
		trusted, err = s.load(ctx, true)
	}
	return trusted, err
}

func (s tufSource) load(ctx context.Context, offline bool) (*root.TrustedRoot, error) {
	download := fetcher.NewDefaultFetcher()
	download.SetHTTPClient(contextClient{ctx: ctx, client: s.client})
	client, err := tuf.New(&tuf.Options{
		Root: s.root, RepositoryBaseURL: s.url, Fetcher: download,
		CachePath: s.dir, DisableLocalCache: s.dir == "", CacheValidity: 1, ForceCache: offline,
	})
	if err != nil {
		return nil, err
	}
	data, err := client.GetTarget(trustedRootTarget)
	if err != nil {
		return nil, err
	}
	trusted, err := root.NewTrustedRootFromJSON(data)
	if err != nil {
		return nil, err
	}
	if detail := checkTrustedRoot(trusted); detail != "" {
		return nil, errors.New("the trusted root " + detail)
	}
	return trusted, nil
}

// contextClient adds a context to the requests of a library without contexts.
type contextClient struct {
	ctx    context.Context
	client *http.Client
}

// Do sends a request with the context.
func (c contextClient) Do(req *http.Request) (*http.Response, error) {
	return c.client.Do(req.WithContext(c.ctx))
}
