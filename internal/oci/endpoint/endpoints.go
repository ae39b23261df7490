// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	// maxTransports is the maximum number of connection pools. There is one for each CA, client certificate and proxy
	// in use.
	maxTransports = 64
	// maxTransportBytes is the maximum size of all CA bundles and client certificates of connection pools together, in
	// bytes. Parsed certificates take up to ten times their size. Most bundles have less than 4 KiB, and the bundle of
	// all public authorities has 220 KiB.
	maxTransportBytes = 4 << 20
	// maxSmallConfigs is the maximum total size of the Docker configs of an Access, in bytes, that are parsed without
	// largeConfigs. A config with a hundred registries has about 20 KiB.
	maxSmallConfigs = 32 << 10
	// maxClients is the maximum number of clients. There is one for each registry and credential in use.
	maxClients = 512
	// MaxMetadata is the maximum size of a manifest and of a page of tags, in bytes.
	MaxMetadata = 4 << 20
	// tagPageSize is the requested number of tags in a page. Registries may send shorter pages.
	tagPageSize = 1000
	// maxTagPages is the maximum number of pages in a list of tags.
	maxTagPages = 1000
)

// Options are the settings of Endpoints.
type Options struct {
	// Requests are the limits of requests. New sets the field Answer.
	Requests transport.Options
	// UserAgent is sent with each request.
	UserAgent string
	// CredentialsFile is the path of a Docker config file, CAFile of a file with PEM certificates, and RegistriesFile
	// of a registries.conf. The files are read again when they change. Empty means no file.
	CredentialsFile, CAFile, RegistriesFile string
	// Report is called once for each failure of a file, with its path.
	Report func(path string, err error)
	// TokenHosts are the hosts of trusted token services, with or without port.
	TokenHosts []string
	// CloudLogin provides the credentials for Access.CloudProvider. May be nil.
	CloudLogin credentials.CloudLogin
	// RefuseLocal refuses local addresses of hosts and proxies. It does not apply to hosts in RegistriesFile, or to a
	// Trusted Access.
	RefuseLocal bool
	// EnvironmentProxy selects the proxy for an Access without one.
	EnvironmentProxy dialguard.ProxyFunc
	// Bytes limits the memory for manifests, lists and tokens of all hosts together. May be nil.
	Bytes *bytebudget.Budget
}

// Endpoints keeps connections, tokens and limits between calls. Its keys include credentials, certificates and proxies,
// so a rotated Secret takes effect with the next call.
type Endpoints struct {
	opts   Options
	pool   *transport.Pool
	clouds *credentials.Clouds // nil if Options.CloudLogin is nil
	// blocklist holds the mirrors that sent wrong content.
	blocklist *mirrorBlocklist

	dockerConfig *watchedFile[credentials.DockerConfig]
	authorities  *watchedFile[authorities]
	registries   *watchedFile[*routes.Registries]

	// largeConfigs is held while large Docker configs are parsed and in use. Parsed configs take up to 40 times their
	// size.
	largeConfigs sync.Mutex

	mu         sync.Mutex
	transports *lru.LRU[string, pooled]
	clients    *lru.LRU[string, *auth.Client]
	// transportBytes is the total size of the certificates of transports.
	transportBytes int
	// tokens holds the tokens of all clients.
	tokens *bytelru.Cache[string, token]
}

// pooled are connections with the size of their certificates in bytes.
type pooled struct {
	*transport.Connections
	bytes int
}

// New returns Endpoints. It reports an invalid file of the options and does not fail. Calls that need the file fail.
func New(opts Options) *Endpoints {
	opts.Requests.Answer = func(ctx context.Context, resp *http.Response) { exchangeFrom(ctx).record(resp) }
	c := &Endpoints{opts: opts, pool: transport.NewPool(opts.Requests), blocklist: newMirrorBlocklist(),
		tokens: bytelru.New[string, token](maxTokens)}
	// NewLRU returns an error only if the size is not positive.
	c.transports, _ = lru.NewLRU(maxTransports, func(_ string, t pooled) { c.drop(t) })
	c.clients, _ = lru.NewLRU[string, *auth.Client](maxClients, nil)
	if opts.CloudLogin != nil {
		c.clouds = credentials.NewClouds(opts.CloudLogin, opts.Requests.Timeout)
	}
	c.watchFiles()
	return c
}

// watchFiles reads the files of the options. If a file was never valid, calls that need it fail. If a valid file
// becomes invalid, its last valid content stays in use.
func (c *Endpoints) watchFiles() {
	report := func(path string) func(error) {
		return func(err error) { c.opts.Report(path, err) }
	}
	c.dockerConfig = watchFile(c.opts.CredentialsFile, credentials.ParseDockerConfig, report(c.opts.CredentialsFile))
	c.authorities = watchFile(c.opts.CAFile, parseAuthorities, report(c.opts.CAFile))
	c.registries = watchFile(c.opts.RegistriesFile, routes.ParseRegistries, report(c.opts.RegistriesFile))
}

// authorities are PEM certificates with their hash.
type authorities struct {
	pem []byte
	id  string
}

func parseAuthorities(data []byte) (authorities, error) {
	return authorities{pem: data, id: fingerprint(string(data))}, transport.CheckAuthorities(data)
}

// admitConfigs waits until the Docker configs of an Access may be parsed: the manager parses large ones one after the
// other. The caller must call release when it no longer uses the parsed configs.
func (c *Endpoints) admitConfigs(access credentials.Access) (release func()) {
	size := 0
	for _, config := range access.DockerConfigs {
		size += len(config)
	}
	if size <= maxSmallConfigs {
		return func() {}
	}
	c.largeConfigs.Lock()
	return c.largeConfigs.Unlock
}

// transportsFor returns the connections for an Access, with their key. isNamed is true if RegistriesFile contains the
// host. The host may then have a local address. The proxy may not, because a tenant chose it.
func (c *Endpoints) transportsFor(access credentials.Access, isNamed bool) (*transport.Connections, string, error) {
	proxyStrict := c.opts.RefuseLocal && !access.Trusted
	strict := proxyStrict && !isNamed
	common, err := c.authorities.get()
	if err != nil {
		return nil, "", err
	}
	key := fingerprint(append([]string{common.id, strconv.FormatBool(strict), strconv.FormatBool(proxyStrict),
		string(access.CA), string(access.ClientCert), string(access.ClientKey)},
		access.Proxy.ID()...)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.transports.Get(key); ok {
		return kept.Connections, key, nil
	}
	settings := transport.Settings{
		Authorities: [][]byte{common.pem, access.CA}, ClientCert: access.ClientCert, ClientKey: access.ClientKey,
		Environment: c.opts.EnvironmentProxy, IsStrict: strict, IsProxyStrict: proxyStrict,
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
	size := len(access.CA) + len(access.ClientCert) + len(access.ClientKey)
	c.transports.Add(key, pooled{Connections: made, bytes: size})
	for c.transportBytes += size; c.transportBytes > maxTransportBytes; {
		c.transports.RemoveOldest()
	}
	return made, key, nil
}

// drop closes the idle connections of a pool that is no longer in transports. Clients keep their pools, so drop also
// forgets all clients: they have no state, and are made again when they are needed. The caller holds mu.
func (c *Endpoints) drop(t pooled) {
	c.transportBytes -= t.bytes
	t.Close()
	c.clients.Purge()
}

// client returns the HTTP client for a hop. The client sends the credential only to the hop's host.
func (c *Endpoints) client(h *hop, credential auth.Credential) *auth.Client {
	user := fingerprint(credentials.ID(credential)...)
	key := fingerprint(h.Ref.Host(), h.Protocol(), user, h.transportKey)
	c.mu.Lock()
	defer c.mu.Unlock()
	client, ok := c.clients.Get(key)
	if !ok {
		client = c.newClient(h, credential, user, key)
		// The pool of a long operation may be dropped, and a client that is kept would keep it.
		if pool, ok := c.transports.Peek(h.transportKey); ok && pool.Connections == h.transports {
			c.clients.Add(key, client)
		}
	}
	return client
}

// newClient returns an HTTP client with authentication. key identifies the client in the cache of tokens.
func (c *Endpoints) newClient(h *hop, credential auth.Credential, user, key string) *auth.Client {
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
		Cache:    &tokenCache{client: key, tokens: c.tokens},
		ClientID: "helmop",
	}
	client.SetUserAgent(c.opts.UserAgent)
	return client
}

// Close closes idle connections.
func (c *Endpoints) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transports.Purge()
}

// fingerprint returns a hash of a list of parts. It also hashes the lengths of the parts: lists with the same
// concatenation have different hashes.
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
