// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

const (
	defaultMaxBytes     = 1 << 30
	defaultMaxBlobBytes = 64 << 20
	defaultTimeout      = 30 * time.Second
	defaultPullTimeout  = 5 * time.Minute
	defaultRetryBase    = 250 * time.Millisecond
)

// Options are the limits of a Client. Only Dir is required.
type Options struct {
	// Dir holds the content store. It is made if it does not exist, and belongs
	// to one Client at a time.
	Dir string
	// MaxBytes is the size the store is kept under, with all that is being pulled, in
	// bytes. What is being read, and has had to make room meanwhile, comes on top.
	// Default 1 GiB.
	MaxBytes int64
	// MaxBlobBytes is the size of the largest layer that is pulled, in bytes.
	// Default 64 MiB.
	MaxBlobBytes int64
	// Timeout bounds a Resolve but for its list of tags, each page of that, a manifest,
	// and each silence in between, with all retries and token requests. Default 30 s.
	Timeout time.Duration
	// PullTimeout bounds the pull of one layer, and a list of tags. Default 5 min.
	PullTimeout time.Duration
	// UserAgent is sent with each request. Default "helmop".
	UserAgent string
	// CredentialsFile is a Docker config file, used where Access has no entry for a
	// repository. It is read again when it changes. Empty is none.
	CredentialsFile string
	// CAFile holds PEM certificates trusted for every registry beside the
	// system's. It is read again when it changes. Empty is none.
	CAFile string
	// RegistriesFile is a registries.conf of version 2 that names mirrors, see
	// containers-registries.conf(5). It is read again when it changes. Empty is
	// none.
	RegistriesFile string
	// TokenHosts are host names, or host:port, whose token services are trusted
	// though they are at a private address and under another name than the registry.
	TokenHosts []string
	// RequestsPerSecond bounds the requests to one registry host, with bursts of
	// twice that. Default 50.
	RequestsPerSecond float64
	// MaxRequests bounds the requests to one registry host that run at the same
	// time. Default 8.
	MaxRequests int
	// CloudLogin gives credentials for Access.CloudProvider; without it such an
	// access is ErrInvalidAccess.
	CloudLogin CloudLogin
	// RefuseLocal refuses connections to loopback, link-local and unspecified addresses,
	// of registries, proxies and redirects, but for registries and mirrors that
	// RegistriesFile names and for an Access that is Trusted. Set it where tenants
	// give URLs.
	RefuseLocal bool
	// Bytes bounds what is read into memory but for layers, each host as an owner:
	// manifests, lists, tokens. Nil bounds each answer for itself only.
	Bytes *bytebudget.Budget
	// Observer is told of requests and of looks into the store.
	Observer Observer

	// environmentProxy replaces the environment's proxy settings in tests.
	environmentProxy dialguard.ProxyFunc
	// retryBase is the first wait of a retry; tests shorten it.
	retryBase time.Duration
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxBytes, defaultMaxBytes)
	setDefault(&o.MaxBlobBytes, defaultMaxBlobBytes)
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.PullTimeout, defaultPullTimeout)
	setDefault(&o.retryBase, defaultRetryBase)
	setDefault(&o.RequestsPerSecond, defaultRequestsPerSecond)
	setDefault(&o.MaxRequests, defaultMaxRequests)
	if o.environmentProxy == nil {
		o.environmentProxy = http.ProxyFromEnvironment
	}
	if o.UserAgent == "" {
		o.UserAgent = "helmop"
	}
	return o
}

// maxRate is far above what any registry serves to one client.
const maxRate = 1e6

// validate refuses what no default can stand in for.
func (o Options) validate() error {
	if o.Dir == "" {
		return errors.New("the directory of the content store is not set")
	}
	if !(o.RequestsPerSecond <= maxRate) { // NaN is neither more nor less
		return fmt.Errorf("requests per second must be a number up to %g", maxRate)
	}
	for _, host := range o.TokenHosts {
		if host == "" || strings.ContainsAny(host, "/@ ") {
			return fmt.Errorf("%q is not a host, or host:port, of a token service", host)
		}
	}
	return nil
}

func setDefault[T ~int | ~int64 | ~float64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Client resolves references and fetches content. It is safe for use by several
// goroutines.
type Client struct {
	opts    Options
	store   *store
	clients *clients
	// pulls bounds what is being written into the store.
	pulls *bytebudget.Budget

	resolves  singleflight.Group
	manifests singleflight.Group
	blobs     singleflight.Group
}

// New opens the content store. It fails if Options.Dir cannot be written, or if
// another option cannot be used. A file of the options that cannot be used is told
// to the Observer; calls that need it are ErrInvalidAccess until it can.
func New(opts Options) (*Client, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	store, err := openStore(opts.Dir, opts.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("open the content store: %w", err)
	}
	clients, err := newClients(opts)
	if err != nil {
		return nil, err
	}
	return &Client{opts: opts, store: store, clients: clients, pulls: bytebudget.New(opts.MaxBytes / pullShare)}, nil
}

// Close ends idle connections. The store needs no closing.
func (c *Client) Close() {
	c.clients.close()
}

// share runs fn once for all callers that come with the same key while it runs.
// fn has a deadline of its own, so a caller that leaves takes nothing from the
// others; a caller that waits longer than its own context gets that
// context's error. A panic in fn, which would end the process from singleflight's
// own goroutine, is an error without its text, for that may hold anything.
func share[T any](ctx context.Context, group *singleflight.Group, key string, limit time.Duration,
	fn func(context.Context) (T, error),
) (T, error) {
	done := group.DoChan(key, func() (_ any, err error) {
		defer func() {
			if fault := recover(); fault != nil {
				err = &Error{Kind: ErrUnexpected, Detail: fmt.Sprintf("internal error: panic with a %T", fault),
					Hint: "please report it"}
			}
		}()
		run, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return fn(run)
	})
	var none T
	select {
	case result := <-done:
		if result.Err != nil {
			return none, result.Err
		}
		value, ok := result.Val.(T)
		if !ok {
			return none, errors.New("a shared call returned another type")
		}
		return value, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// asError makes an *Error of what share returns when the caller's context ended,
// and completes those that do not say what was tried.
func asError(op, subject string, err error) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &own):
		return contextError(op, subject, err)
	case own.Op == "":
		out := *own
		out.Op, out.Subject = op, subject
		return &out
	}
	return err
}
