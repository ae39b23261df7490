// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
)

const (
	// maxTokens is the size of the cache of tokens of all clients, in bytes. The memory plan of the manager counts it.
	maxTokens = 1 << 20
	// maxToken is the largest token that is kept, in bytes. For each request with a larger token, the client gets the
	// token again. Registries send tokens of at most a few KiB.
	maxToken = 16 << 10
)

// token is an entry of the cache: a token, or the scheme of a registry.
type token struct {
	scheme auth.Scheme
	text   string
}

// tokenCache keeps the tokens of one client in the cache of all clients. The cache of the library has no limit, and a
// registry chooses the size of its tokens and gets a request for each repository that a release names.
type tokenCache struct {
	client string
	tokens *bytelru.Cache[string, token]
}

// key returns the key of a token. With auth.SchemeUnknown, it is the key of the registry's scheme.
func (c *tokenCache) key(registry string, scheme auth.Scheme, key string) string {
	return fingerprint(c.client, registry, scheme.String(), key)
}

// GetScheme implements auth.Cache.
func (c *tokenCache) GetScheme(_ context.Context, registry string) (auth.Scheme, error) {
	kept, ok := c.tokens.Get(c.key(registry, auth.SchemeUnknown, ""))
	if !ok {
		return auth.SchemeUnknown, errdef.ErrNotFound
	}
	return kept.scheme, nil
}

// GetToken implements auth.Cache.
func (c *tokenCache) GetToken(_ context.Context, registry string, scheme auth.Scheme, key string) (string, error) {
	kept, ok := c.tokens.Get(c.key(registry, scheme, key))
	if !ok {
		return "", errdef.ErrNotFound
	}
	return kept.text, nil
}

// Set implements auth.Cache.
func (c *tokenCache) Set(ctx context.Context, registry string, scheme auth.Scheme, key string,
	fetch func(context.Context) (string, error)) (string, error) {
	text, err := fetch(ctx)
	if err != nil {
		return "", err
	}
	c.tokens.Put(c.key(registry, auth.SchemeUnknown, ""), token{scheme: scheme}, 0)
	if len(text) <= maxToken {
		c.tokens.Put(c.key(registry, scheme, key), token{text: text}, int64(len(text)))
	}
	return text, nil
}
