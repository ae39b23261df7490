// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	// maxTransports bounds the connection pools: one per CA, client certificate and proxy in use.
	maxTransports = 64
	// maxClients bounds the token caches: one per registry and credential in use.
	maxClients = 512
	// maxMetadata bounds a manifest and a page of tags, in bytes.
	maxMetadata = 4 << 20
	// tagPageSize is the requested number of tags per page; registries may send shorter pages.
	tagPageSize = 1000
	// maxTagPages and maxTags bound the tag list of a repository.
	maxTagPages = 1000
	maxTags     = 100_000
)

// clients keeps connections, tokens and limits across calls. Its keys include credentials,
// certificates and proxies, so a rotated Secret takes effect with the next call.
type clients struct {
	opts   Options
	pool   *transport.Pool
	clouds *credentials.Clouds // nil without Options.CloudLogin
	// blocklist holds the mirrors that sent wrong content.
	blocklist *mirrorBlocklist

	dockerConfig *watchedFile[credentials.DockerConfig]
	authorities  *watchedFile[authorities]
	registries   *watchedFile[*routes.Registries]

	mu         sync.Mutex
	transports *lru.LRU[string, *transport.Connections]
	clients    *lru.LRU[string, *auth.Client]
}

func newClients(opts Options) (*clients, error) {
	c := &clients{opts: opts}
	var err error
	if c.transports, err = lru.NewLRU(maxTransports, func(_ string, t *transport.Connections) { t.Close() }); err != nil {
		return nil, err
	}
	if c.clients, err = lru.NewLRU[string, *auth.Client](maxClients, nil); err != nil {
		return nil, err
	}
	if c.pool, err = transport.NewPool(transport.Options{
		Timeout: opts.Timeout, RetryBase: opts.retryBase, RequestsPerSecond: opts.RequestsPerSecond,
		MaxRequests: opts.MaxRequests, Observe: opts.Observer.request,
		Answer: func(ctx context.Context, resp *http.Response) { exchangeFrom(ctx).record(resp) },
	}); err != nil {
		return nil, err
	}
	if c.blocklist, err = newMirrorBlocklist(); err != nil {
		return nil, err
	}
	if opts.CloudLogin != nil {
		if c.clouds, err = credentials.NewClouds(opts.CloudLogin, opts.Timeout); err != nil {
			return nil, err
		}
	}
	c.watchFiles()
	return c, nil
}

// watchFiles reads the files of the options. While a file was never valid, calls that need it fail.
// If a valid file becomes invalid, its last valid content stays in use.
func (c *clients) watchFiles() {
	report := func(path string) func(error) {
		return func(err error) { c.opts.Observer.file(path, err) }
	}
	c.dockerConfig = watchFile(c.opts.CredentialsFile, credentials.ParseDockerConfig, report(c.opts.CredentialsFile))
	c.authorities = watchFile(c.opts.CAFile, parseAuthorities, report(c.opts.CAFile))
	c.registries = watchFile(c.opts.RegistriesFile, routes.ParseRegistries, report(c.opts.RegistriesFile))
}

// authorities are PEM certificates and a hash that identifies them.
type authorities struct {
	pem []byte
	id  string
}

func parseAuthorities(data []byte) (authorities, error) {
	return authorities{pem: data, id: fingerprint(string(data))}, transport.CheckAuthorities(data)
}

// endpoint is a repository with the hosts that serve it: its mirrors and the registry.
type endpoint struct {
	url string
	ref registry.Reference
	// key identifies an endpoint by repository, credentials, certificates, proxy, protocol and mirrors. It contains only
	// hashes.
	key      string
	insecure bool
	hops     []*hop
}

// endpoint returns the endpoint of a repository. It makes no request. Errors are
// ErrInvalidReference, ErrInvalidAccess, and ErrUnauthorized for a registry that the operator has
// blocked.
func (c *clients) endpoint(url string, access Access) (*endpoint, error) {
	ref, err := routes.ParseURL(url)
	if err != nil {
		return nil, err
	}
	invalid := func(op string, err error) (*endpoint, error) {
		out := &ocierr.Error{Op: op, Subject: url, Kind: ocierr.ErrInvalidAccess, Detail: ocierr.SafeText(err)}
		if errors.Is(err, errBrokenFile) {
			out.Hint = hintOperator
		}
		return nil, out
	}
	registries, err := c.registries.get()
	if err != nil {
		return invalid("find mirrors of", err)
	}
	hosts, err := registries.Routes(ref, access.Insecure)
	if errors.Is(err, routes.ErrBlocked) {
		return nil, &ocierr.Error{Op: "reach", Subject: url, Kind: ocierr.ErrUnauthorized, Detail: ocierr.SafeText(err), Hint: hintOperator}
	} else if err != nil {
		return invalid("find mirrors of", err)
	}
	sources, err := credentials.NewSources(access, c.dockerConfig.get, c.clouds)
	if err != nil {
		return invalid("read credentials for", err)
	}
	e := &endpoint{url: url, ref: ref, insecure: access.Insecure}
	key := []string{ref.Registry, ref.Repository}
	for _, route := range hosts {
		transports, transportKey, err := c.transportsFor(access, c.opts.RefuseLocal && !access.Trusted && !route.IsNamed)
		if err != nil {
			return invalid("read certificates and proxy for", err)
		}
		key = append(key, transportKey)
		source, err := sources.For(route)
		if err != nil {
			return invalid("read credentials for", err)
		}
		h := &hop{Route: route, clients: c, source: source, transports: transports,
			transportKey: transportKey, way: fingerprint(access.Proxy.ID()...)}
		e.hops = append(e.hops, h)
		key = append(append(key, route.Ref.String(), route.Protocol(), route.Pull), source.ID()...)
	}
	e.key = fingerprint(key...)
	return e, nil
}

// transportsFor returns the connections for an Access, and their key. Strict connections refuse
// local addresses, see newTransports.
func (c *clients) transportsFor(access Access, strict bool) (*transport.Connections, string, error) {
	common, err := c.authorities.get()
	if err != nil {
		return nil, "", err
	}
	key := fingerprint(append([]string{common.id, strconv.FormatBool(strict), string(access.CA), string(access.ClientCert),
		string(access.ClientKey)},
		access.Proxy.ID()...)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.transports.Get(key); ok {
		return kept, key, nil
	}
	settings := transport.Settings{
		Authorities: [][]byte{common.pem, access.CA}, ClientCert: access.ClientCert, ClientKey: access.ClientKey,
		Environment: c.opts.environmentProxy, IsStrict: strict,
	}
	if access.Proxy != nil {
		if settings.Proxy, err = access.Proxy.URL(); err != nil {
			return nil, "", err
		}
	}
	made, err := transport.NewConnections(settings)
	if err != nil {
		return nil, "", err
	}
	c.transports.Add(key, made)
	return made, key, nil
}

// client returns the client for a hop. It sends the credential to the hop's host only.
func (c *clients) client(h *hop, credential auth.Credential) *auth.Client {
	user := fingerprint(credentials.ID(credential)...)
	key := fingerprint(h.Ref.Host(), h.Protocol(), user, h.transportKey)
	c.mu.Lock()
	defer c.mu.Unlock()
	client, ok := c.clients.Get(key)
	if !ok {
		client = c.newClient(h, credential, user)
		c.clients.Add(key, client)
	}
	return client
}

// newClient adds authentication with a token cache to the client of a host.
func (c *clients) newClient(h *hop, credential auth.Credential, user string) *auth.Client {
	host := h.Ref.Host()
	client := &auth.Client{
		Client: c.pool.Client(transport.Target{
			Connections: h.transports, Host: host, Name: h.Ref.Registry, Way: h.way, User: user,
			TokenHosts: c.opts.TokenHosts, Bytes: c.opts.Bytes, KindOf: transport.KindOf,
		}),
		Credential: func(_ context.Context, asked string) (auth.Credential, error) {
			if asked == host {
				return credential, nil
			}
			return auth.EmptyCredential, nil
		},
		Cache:    auth.NewCache(),
		ClientID: "helmop",
	}
	client.SetUserAgent(c.opts.UserAgent)
	return client
}

// close closes idle connections.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients.Purge()
	c.transports.Purge()
}

// shouldTryNextHost reports whether a repeated request goes to another host, because the failure
// put a mirror on the blocklist.
func (e *endpoint) shouldTryNextHost(failure *ocierr.Error) bool {
	return len(e.hops) > 1 && errors.Is(failure, ocierr.ErrIntegrity)
}

// repository returns a new protocol client for one operation. State that outlives the operation is
// in e.hops.
func (e *endpoint) repository() *remote.Repository {
	return &remote.Repository{
		Client:           &router{ref: e.ref, hops: e.hops, lists: map[string]*hop{}},
		Reference:        e.ref,
		PlainHTTP:        e.insecure,
		MaxMetadataBytes: maxMetadata,
		TagListPageSize:  tagPageSize,
		TagListMaxPages:  maxTagPages,
	}
}

// fingerprint returns a hash of parts and their lengths. Different lists of parts have different
// hashes, even if their concatenations are equal.
func fingerprint(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}
