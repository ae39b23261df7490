// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
)

// clientsOf returns the clients of a registry for some users.
func clientsOf(t *testing.T, c *Endpoints, users ...string) []*auth.Client {
	t.Helper()
	e, err := c.Endpoint("oci://r.example/x", credentials.Access{})
	if err != nil {
		t.Fatal(err)
	}
	clients := make([]*auth.Client, len(users))
	for i, user := range users {
		clients[i] = c.client(e.hops[0], auth.Credential{Username: user, Password: "p"})
	}
	return clients
}

// setToken stores a token for a scope, and checks the result.
func setToken(t *testing.T, cache auth.Cache, scope, text string) {
	t.Helper()
	got, err := cache.Set(t.Context(), "r.example", auth.SchemeBearer, scope,
		func(context.Context) (string, error) { return text, nil })
	if got != text || err != nil {
		t.Errorf("%s: got %.20q, %v", scope, got, err)
	}
}

// TestTokensAreBounded checks the memory for the large tokens that a registry sends for many repositories. It measures
// memory, so it runs alone.
func TestTokensAreBounded(t *testing.T) {
	c := newEndpoints(t)
	clients := clientsOf(t, c, "a", "b", "c")
	used := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := used()
	for _, size := range []int{maxToken, 4 * maxToken, 10} {
		for _, client := range clients {
			for i := range 500 {
				setToken(t, client.Cache, fmt.Sprintf("repository:%d/%d:pull", size, i), strings.Repeat("t", size))
			}
		}
		if kept := used() - before; kept > 2*maxTokens {
			t.Errorf("%d bytes are used after tokens of %d bytes", kept, size)
		}
	}
	// The last tokens are kept.
	token, err := clients[2].Cache.GetToken(t.Context(), "r.example", auth.SchemeBearer, "repository:10/499:pull")
	if token == "" || err != nil {
		t.Errorf("a small token is not kept: %v", err)
	}
	runtime.KeepAlive(c)
}

// TestTokensAreSeparate checks that a client uses only its own tokens, and each token only for its scope.
func TestTokensAreSeparate(t *testing.T) {
	t.Parallel()
	clients := clientsOf(t, newEndpoints(t), "a", "b")
	setToken(t, clients[0].Cache, "x", "secret")
	for _, tc := range []struct {
		client          int
		registry, scope string
		scheme          auth.Scheme
		want            string
	}{
		{0, "r.example", "x", auth.SchemeBearer, "secret"},
		{0, "r.example", "y", auth.SchemeBearer, ""},
		{0, "r.example", "x", auth.SchemeBasic, ""},
		{0, "o.example", "x", auth.SchemeBearer, ""},
		{1, "r.example", "x", auth.SchemeBearer, ""},
	} {
		cache := clients[tc.client].Cache
		if got, err := cache.GetToken(t.Context(), tc.registry, tc.scheme, tc.scope); got != tc.want ||
			(err == nil) != (tc.want != "") {
			t.Errorf("%+v: got %q, %v", tc, got, err)
		}
	}
	if scheme, err := clients[0].Cache.GetScheme(t.Context(), "r.example"); scheme != auth.SchemeBearer || err != nil {
		t.Errorf("got %v, %v", scheme, err)
	}
	if _, err := clients[1].Cache.GetScheme(t.Context(), "r.example"); err == nil {
		t.Error("the other client has a scheme")
	}
}
