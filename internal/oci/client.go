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
	// Dir is the directory of the content store. New creates the directory if it does not exist. Only one Client may
	// use it at a time.
	Dir string
	// MaxBytes limits the size of the store in bytes. Running pulls are included. Evicted content that is still being
	// read is not included. Default 1 GiB.
	MaxBytes int64
	// MaxBlobBytes is the maximum size of a layer in bytes. Default 64 MiB.
	MaxBlobBytes int64
	// Timeout limits a Resolve without its tag list, each page of the tag list, and the pull of a manifest. It also
	// limits how long a request may make no progress. Retries and token requests are included. Default 30 s.
	Timeout time.Duration
	// PullTimeout limits the pull of one layer, and the list of tags. Default 5 min.
	PullTimeout time.Duration
	// UserAgent is sent with each request. Default "helmop".
	UserAgent string
	// CredentialsFile is the path of a Docker config file. It is used for repositories without an entry in the Access.
	// The file is read again when it changes. Empty means no file.
	CredentialsFile string
	// CAFile is the path of a file with PEM certificates. These are trusted for every registry, in addition to the
	// certificates of the system. The file is read again when it changes. Empty means no file.
	CAFile string
	// RegistriesFile is the path of a registries.conf of version 2, which configures mirrors, see
	// containers-registries.conf(5). The file is read again when it changes. Empty means no file.
	RegistriesFile string
	// TokenHosts are the hosts of trusted token services, with or without port. Such a token service may have a private
	// address under another host name than the registry.
	TokenHosts []string
	// RequestsPerSecond limits the rate of requests to one registry host. Bursts may have twice as many requests.
	// Default 50.
	RequestsPerSecond float64
	// MaxRequests limits the concurrent requests to one registry host. Default 8.
	MaxRequests int
	// CloudLogin provides the credentials for Access.CloudProvider. With a nil CloudLogin, an Access with a cloud
	// provider is an ErrInvalidAccess.
	CloudLogin credentials.CloudLogin
	// RefuseLocal refuses registries, proxies and redirects with a loopback, link-local or unspecified address. It does
	// not apply to registries and mirrors in RegistriesFile, or to a Trusted Access. Set it if tenants choose URLs.
	RefuseLocal bool
	// Bytes limits the memory for manifests, lists and tokens of all hosts together. Each host has a share. Layers are
	// not included. With nil, each response has only its own limit.
	Bytes *bytebudget.Budget
	// Observer is called for requests and for lookups in the store.
	Observer Observer

	// environmentProxy replaces the proxy settings of the environment in tests.
	environmentProxy dialguard.ProxyFunc
	// retryBase is the wait before the first retry. Tests shorten it.
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

// maxRate is the maximum of RequestsPerSecond. No registry serves so many requests to one client.
const maxRate = 1e6

// validate returns an error for settings that are required and missing, or invalid.
func (o Options) validate() error {
	if o.Dir == "" {
		return errors.New("the directory of the content store is not set")
	}
	if !(o.RequestsPerSecond <= maxRate) { // NaN is refused, too
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

// ForTenant returns a context whose requests count for a tenant. All tenants have equal shares of the requests to a
// host, independent of their number of requests. Requests without a tenant count for one additional tenant.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return transport.ForTenant(ctx, tenant)
}

// tenantKey returns the key of a call that concurrent callers of one tenant share. Tenants do not share calls: a caller
// would have to wait for the slot of another tenant. key is the key of the endpoint or site.
func tenantKey(ctx context.Context, key, content string) string {
	return strings.Join([]string{key, content, transport.TenantOf(ctx)}, "\n")
}

// Client resolves references and pulls content. It is safe for concurrent use.
type Client struct {
	opts      Options
	store     *store.Store
	endpoints *endpoint.Endpoints
	// pulls limits the sum of the bytes of all concurrent pulls.
	pulls *bytebudget.Budget

	resolves  singleflight.Group
	heads     singleflight.Group
	manifests singleflight.Group
	blobs     singleflight.Group
}

// New opens the content store and returns a Client. It fails if Options.Dir is not writable, or if another option is
// invalid. If a file of the options is invalid, New reports the file to the Observer and does not fail. Calls that need
// the file return ErrInvalidAccess until the file is corrected.
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

// HTTPClient returns a client for hosts that are neither registries nor chart repositories, for example the revocation
// service of a certificate. Its requests have the connections, refused addresses, redirects, limits and retries of
// requests to registries, and no credentials. The caller must bound the bodies, see Reserve. The error is
// ErrInvalidAccess.
func (c *Client) HTTPClient() (*http.Client, error) { return c.endpoints.ServiceClient() }

// Reserve reserves a number of bytes of Options.Bytes for the tenant of the context. It waits until the context ends.
// The error wraps bytebudget.ErrExhausted.
func (c *Client) Reserve(ctx context.Context, n int64) (*bytebudget.Lease, error) {
	return c.opts.Bytes.Acquire(ctx, bytebudget.Owner{Tenant: transport.TenantOf(ctx)}, n)
}

// Close closes idle connections. The store does not need to be closed.
func (c *Client) Close() {
	c.endpoints.Close()
}
