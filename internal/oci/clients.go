/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package oci

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"
)

const (
	// maxTransports bounds pools of connections: one per CA in use.
	maxTransports = 64
	// maxClients bounds token caches: one per registry and credential in use.
	maxClients = 512
	// maxMetadata bounds a manifest and a page of tags.
	maxMetadata = 4 << 20
	// tagPageSize asks for long pages; registries may send shorter ones.
	tagPageSize = 1000
	// maxTagPages and maxTags bound what a registry can make us read.
	maxTagPages = 1000
	maxTags     = 100_000
)

// clients keeps connections and tokens over calls. What changes a credential
// or a CA changes the key, so a rotated Secret takes effect with the next call.
type clients struct {
	timeout   time.Duration
	retryBase time.Duration
	userAgent string
	observer  Observer

	mu         sync.Mutex
	transports *lru.LRU[string, *http.Transport]
	clients    *lru.LRU[string, *auth.Client]
}

func newClients(opts Options) (*clients, error) {
	transports, err := lru.NewLRU(maxTransports, func(_ string, t *http.Transport) { t.CloseIdleConnections() })
	if err != nil {
		return nil, err
	}
	auths, err := lru.NewLRU[string, *auth.Client](maxClients, nil)
	if err != nil {
		return nil, err
	}
	return &clients{
		timeout: opts.Timeout, retryBase: opts.retryBase, userAgent: opts.UserAgent, observer: opts.Observer,
		transports: transports, clients: auths,
	}, nil
}

// endpoint is a repository with the client to reach it.
type endpoint struct {
	url string
	ref registry.Reference
	// key tells apart endpoints that may answer differently: other repository,
	// credentials, CA or protocol. It holds hashes only.
	key      string
	insecure bool
	client   *auth.Client
}

// endpoint returns the client for a repository. Errors are ErrInvalidReference
// and ErrInvalidAccess.
func (c *clients) endpoint(url string, access Access) (*endpoint, error) {
	ref, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	cred, err := credentialFor(firstConfig(access), ref, access.Insecure)
	if err != nil {
		return nil, &Error{Op: "read credentials for", Subject: url, Kind: ErrInvalidAccess, Detail: err.Error()}
	}
	transportKey := fingerprint(string(access.CA))
	clientKey := fingerprint(ref.Host(), cred.Username, cred.Password, cred.RefreshToken, cred.AccessToken,
		transportKey, protocol(access.Insecure))

	c.mu.Lock()
	defer c.mu.Unlock()
	client, ok := c.clients.Get(clientKey)
	if !ok {
		transport, ok := c.transports.Get(transportKey)
		if !ok {
			if transport, err = newTransport(access.CA); err != nil {
				return nil, &Error{Op: "read CA for", Subject: url, Kind: ErrInvalidAccess, Detail: err.Error()}
			}
			c.transports.Add(transportKey, transport)
		}
		client = c.newClient(ref.Host(), cred, transport)
		c.clients.Add(clientKey, client)
	}
	key := fingerprint(clientKey, ref.Repository)
	return &endpoint{url: url, ref: ref, key: key, insecure: access.Insecure, client: client}, nil
}

// newClient returns a client that gives the credential to one host only.
func (c *clients) newClient(host string, cred auth.Credential, transport *http.Transport) *auth.Client {
	policy := retryPolicy{base: c.retryBase}
	client := &auth.Client{
		Client: &http.Client{
			Transport: &retry.Transport{
				Base:   &watchedTransport{base: transport, timeout: c.timeout, observer: c.observer},
				Policy: func() retry.Policy { return policy },
			},
			CheckRedirect: checkRedirect,
		},
		Credential: func(_ context.Context, asked string) (auth.Credential, error) {
			if asked == host {
				return cred, nil
			}
			return auth.EmptyCredential, nil
		},
		Cache:    auth.NewCache(),
		ClientID: "helmop",
	}
	client.SetUserAgent(c.userAgent)
	return client
}

// close ends idle connections.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients.Purge()
	c.transports.Purge()
}

// repository returns a new protocol client; all state worth keeping is in
// e.client.
func (e *endpoint) repository() *remote.Repository {
	return &remote.Repository{
		Client:           e.client,
		Reference:        e.ref,
		PlainHTTP:        e.insecure,
		MaxMetadataBytes: maxMetadata,
		TagListPageSize:  tagPageSize,
		TagListMaxPages:  maxTagPages,
	}
}

func protocol(insecure bool) string {
	if insecure {
		return "http"
	}
	return "https"
}

// fingerprint hashes parts with their lengths, so that no two lists of parts
// run together.
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

func firstConfig(access Access) []byte {
	if len(access.DockerConfigs) == 0 {
		return nil
	}
	return access.DockerConfigs[0]
}
