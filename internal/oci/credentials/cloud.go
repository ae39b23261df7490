// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	opCloud = "log in to"
	// maxCloudTokens is the maximum number of cached credentials. There is one for each provider and registry host.
	maxCloudTokens = 512
	// cloudTokenLife is how long a credential without an expiry time stays in the cache.
	cloudTokenLife = 10 * time.Minute
	hintCloud      = "check the manager's identity at the cloud provider, and its right to pull"
)

// Clouds caches the credentials of cloud providers. It renews a credential shortly before the credential expires.
type Clouds struct {
	login   CloudLogin
	timeout time.Duration
	group   singleflight.Group

	mu     sync.Mutex
	tokens *lru.LRU[string, cloudToken]
}

type cloudToken struct {
	credential auth.Credential
	obtained   time.Time
	renew      time.Time
}

// NewClouds returns a cache for the credentials of a CloudLogin. A login takes at most timeout.
func NewClouds(login CloudLogin, timeout time.Duration) *Clouds {
	tokens, _ := lru.NewLRU[string, cloudToken](maxCloudTokens, nil) // It fails only if the size is not positive.
	return &Clouds{login: login, timeout: timeout, tokens: tokens}
}

// get returns the credential of a provider for a registry host. If the cache has no valid credential, get logs in.
// Concurrent callers share one login.
func (c *Clouds) get(ctx context.Context, provider string, ref registry.Reference) (auth.Credential, error) {
	key := cloudKey(provider, ref)
	if token, ok := c.kept(key); ok && time.Now().Before(token.renew) {
		return token.credential, nil
	}
	call := flight.Call{Key: key, Limit: c.timeout, Op: opCloud, Subject: provider}
	return flight.Do(ctx, &c.group, call, func(ctx context.Context) (auth.Credential, error) {
		// Another login may have ended since the check above.
		if token, ok := c.kept(key); ok && time.Now().Before(token.renew) {
			return token.credential, nil
		}
		given, err := c.login.Login(ctx, provider, ref.Registry+"/"+ref.Repository)
		if err != nil {
			return auth.EmptyCredential, cloudError(provider, err)
		}
		token := newCloudToken(given, time.Now())
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tokens.Add(key, token)
		return token.credential, nil
	})
}

// cloudKey returns the key of a credential in the cache. It contains the host, but not the repository.
func cloudKey(provider string, ref registry.Reference) string { return provider + "\n" + ref.Host() }

// newCloudToken returns a cache entry. The entry is renewed when a tenth of its lifetime is left.
func newCloudToken(given CloudCredential, now time.Time) cloudToken {
	life := cloudTokenLife
	if !given.Expires.IsZero() {
		life = given.Expires.Sub(now) / 10 * 9
	}
	return cloudToken{
		credential: auth.Credential{Username: given.Username, Password: given.Password},
		obtained:   now,
		renew:      now.Add(life),
	}
}

// dropOlder removes the cached credential if it was obtained before a time. It returns true if it removed the
// credential: a new login may then help.
func (c *Clouds) dropOlder(provider string, ref registry.Reference, than time.Time) bool {
	key := cloudKey(provider, ref)
	c.mu.Lock()
	defer c.mu.Unlock()
	token, ok := c.tokens.Get(key)
	if !ok || !token.obtained.Before(than) {
		return false
	}
	c.tokens.Remove(key)
	return true
}

func (c *Clouds) kept(key string) (cloudToken, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens.Get(key)
}

// cloudError converts the error of a login into an *Error. It does not change an *Error.
func cloudError(provider string, err error) error {
	var own *ocierr.Error
	out := &ocierr.Error{Op: opCloud, Subject: provider}
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.Canceled):
		return ocierr.FromContext(opCloud, provider, err)
	case out.FromNetwork(err):
		out.Detail = "the cloud provider: " + out.Detail
	default:
		out.Kind, out.Hint = ocierr.ErrUnauthorized, hintCloud
		out.Detail = fmt.Sprintf("the cloud provider returned no credential: %s", ocierr.SafeText(err))
	}
	return out
}
