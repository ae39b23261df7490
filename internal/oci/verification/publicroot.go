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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	// rootFresh is how long a trusted root is used without a look at the source.
	rootFresh = 24 * time.Hour
	// rootUsable is how long one is used that cannot be refreshed: as long as the
	// public Sigstore signs that its metadata is current.
	rootUsable = 7 * 24 * time.Hour
	// rootPause is the time between tries that fail.
	rootPause = time.Minute
	// rootTimeout bounds one try.
	rootTimeout = 20 * time.Second

	trustedRootTarget = "trusted_root.json"
)

// publicRoot is the public Sigstore's trusted root, which is distributed by The
// Update Framework (TUF): its first keys are part of this program, and what they
// sign is checked, kept on disk if there is a directory, and looked after daily.
type publicRoot struct {
	// fetch gets the root; now is the clock.
	fetch func(context.Context) (*root.TrustedRoot, error)
	now   func() time.Time

	flights singleflight.Group
	mu      sync.Mutex
	current *root.TrustedRoot
	since   time.Time
	failed  time.Time
}

func newPublicRoot(opts Options) *publicRoot {
	source := tufSource{client: opts.HTTPClient, dir: opts.Dir, url: tuf.DefaultMirror, root: tuf.DefaultRoot()}
	return &publicRoot{fetch: source.fetch, now: time.Now}
}

// get returns the root, fetching it if it is not fresh; failed tries are
// repeated after a minute. Callers that come meanwhile share one try, and leave
// when their context ends. The error is ErrTrustRoot.
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

// state returns the root if there is one that may be used, and whether it is
// time to fetch it.
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

// renew tries once. The try outlives the caller, for others wait for it.
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

// try fetches the root; a panic of the libraries that read it is a failed try.
func (p *publicRoot) try(ctx context.Context) (fetched *root.TrustedRoot, err error) {
	defer errorOfPanic(trustedRootTarget, &err)
	return p.fetch(ctx)
}

func orUnavailable(current *root.TrustedRoot) (*root.TrustedRoot, error) {
	if current == nil {
		return nil, &oci.Error{Op: opVerify, Kind: ErrTrustRoot,
			Detail: "that of the public Sigstore could not be fetched from " + tuf.DefaultMirror,
			Hint:   "check the network and the proxy settings; without access to it, add a trusted_root.json to the policy"}
	}
	return current, nil
}

// tufSource fetches a trusted root by TUF.
type tufSource struct {
	client *http.Client
	// dir keeps the metadata; empty keeps nothing.
	dir  string
	url  string
	root []byte
}

// fetch gets the root from its source, or from the directory while what is there
// is less than a day old. If the source does not answer, what is in the directory
// will do as long as its own date of expiry allows.
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

// contextClient gives requests of a library that knows no context one.
type contextClient struct {
	ctx    context.Context
	client *http.Client
}

// Do sends a request under the context.
func (c contextClient) Do(req *http.Request) (*http.Response, error) {
	return c.client.Do(req.WithContext(c.ctx))
}
