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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/store"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	defaultMaxBytes     = 1 << 30
	defaultMaxBlobBytes = 64 << 20
	defaultTimeout      = 30 * time.Second
	defaultPullTimeout  = 5 * time.Minute
	defaultRetryBase    = 250 * time.Millisecond

	defaultRequestsPerSecond = 50
	defaultMaxRequests       = 8
)

// Options are the limits of a Client. Only Dir is required.
type Options struct {
	// Dir holds the content store. New creates it if it does not exist. It belongs to one Client at a
	// time.
	Dir string
	// MaxBytes bounds the size of the store, including running pulls, in bytes. Content that is being
	// read while it is evicted comes on top. Default 1 GiB.
	MaxBytes int64
	// MaxBlobBytes is the size of the largest layer that is pulled, in bytes.
	// Default 64 MiB.
	MaxBlobBytes int64
	// Timeout bounds a Resolve without its tag list, each page of the tag list, the pull of a
	// manifest, and the time without progress of any request. Retries and token requests are included.
	// Default 30 s.
	Timeout time.Duration
	// PullTimeout bounds the pull of one layer, and the listing of tags. Default 5 min.
	PullTimeout time.Duration
	// UserAgent is sent with each request. Default "helmop".
	UserAgent string
	// CredentialsFile is a Docker config file for repositories without an entry in the Access. It is
	// read again when it changes. Empty means none.
	CredentialsFile string
	// CAFile holds PEM certificates that are trusted for every registry, in addition to the system's.
	// It is read again when it changes. Empty means none.
	CAFile string
	// RegistriesFile is a registries.conf of version 2 that configures mirrors, see
	// containers-registries.conf(5). It is read again when it changes. Empty means none.
	RegistriesFile string
	// TokenHosts are hosts, with or without port, whose token services are trusted even if they have a
	// private address and another host name than the registry.
	TokenHosts []string
	// RequestsPerSecond bounds the rate of requests to one registry host, with bursts of twice the
	// rate. Default 50.
	RequestsPerSecond float64
	// MaxRequests bounds the concurrent requests to one registry host. Default 8.
	MaxRequests int
	// CloudLogin provides the credentials for Access.CloudProvider. Without it, an Access with a cloud
	// provider is ErrInvalidAccess.
	CloudLogin credentials.CloudLogin
	// RefuseLocal refuses registries, proxies and redirects with a loopback, link-local or unspecified
	// address. Registries and mirrors of RegistriesFile, and a Trusted Access, are exempt. Set it if
	// tenants choose URLs.
	RefuseLocal bool
	// Bytes bounds the memory for manifests, lists and tokens of all hosts together; each host is an
	// owner. Layers are not included. With nil, each answer has only its own limit.
	Bytes *bytebudget.Budget
	// Observer is called for requests and for lookups in the store.
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

// maxRate is far above the rate that any registry serves to one client, in requests per second.
const maxRate = 1e6

// validate returns an error for settings that have no default and cannot be used.
func (o Options) validate() error {
	if o.Dir == "" {
		return errors.New("the directory of the content store is not set")
	}
	if !(o.RequestsPerSecond <= maxRate) { // also true for NaN
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

// ForTenant returns a context whose requests count for a tenant. All tenants have the same share of
// the requests to a host, however many requests each makes. Requests without a tenant count for one
// additional tenant.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return transport.ForTenant(ctx, tenant)
}

// tenantKey returns the key of a call that concurrent callers of one tenant share. Tenants do not
// share calls, because a caller would wait for the slot of another tenant. key is that of the
// endpoint or site.
func tenantKey(ctx context.Context, key, content string) string {
	return strings.Join([]string{key, content, transport.TenantOf(ctx)}, "\n")
}

// Client resolves references and fetches content. It is safe for concurrent use.
type Client struct {
	opts      Options
	store     *store.Store
	endpoints *endpoint.Endpoints
	// pulls bounds the bytes of all pulls that run at the same time.
	pulls *bytebudget.Budget

	resolves  singleflight.Group
	heads     singleflight.Group
	manifests singleflight.Group
	blobs     singleflight.Group
}

// New opens the content store and returns a Client. It fails if Options.Dir is not writable or
// another option is invalid. An unusable file of the options is reported to the Observer. Calls
// that need the file are ErrInvalidAccess until it is corrected.
func New(opts Options) (*Client, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	content, err := store.Open(opts.Dir, opts.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("open the content store: %w", err)
	}
	endpoints := endpoint.New(endpoint.Options{
		Requests: transport.Options{
			Timeout: opts.Timeout, RetryBase: opts.retryBase, RequestsPerSecond: opts.RequestsPerSecond,
			MaxRequests: opts.MaxRequests, Observe: opts.Observer.request,
		},
		UserAgent: opts.UserAgent, CredentialsFile: opts.CredentialsFile, CAFile: opts.CAFile,
		RegistriesFile: opts.RegistriesFile, Report: opts.Observer.file, TokenHosts: opts.TokenHosts,
		CloudLogin: opts.CloudLogin, RefuseLocal: opts.RefuseLocal, EnvironmentProxy: opts.environmentProxy,
		Bytes: opts.Bytes,
	})
	return &Client{opts: opts, store: content, endpoints: endpoints, pulls: bytebudget.New(opts.MaxBytes / pullShare)}, nil
}

// Close closes idle connections. The store does not need to be closed.
func (c *Client) Close() {
	c.endpoints.Close()
}
