// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// brokenAfter is the number of requests without a response after which requests fail at once.
const brokenAfter = 3

func TestConcurrentRequestsAreLimited(t *testing.T) {
	t.Parallel()
	const limit, callers = 3, 12 // one tenant has three of four slots
	r := newRegistry(t)
	for i := range callers {
		r.push(fmt.Sprintf("1.0.%d", i), "1.0.0", []byte("x"))
	}
	var running, most, waiting atomic.Int32
	full := make(chan struct{})
	r.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		n := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		if waiting.Add(1) == limit {
			close(full)
		}
		<-full // the first requests block until the limit is reached
		return false
	})
	// A resolution sends several requests, for example for tokens.
	r.bearer = true
	c := newClient(t, func(o *Options) { o.MaxRequests = limit + 1 })
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			if _, err := c.Resolve(t.Context(), r.source(Reference{Tag: fmt.Sprintf("1.0.%d", i)})); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if got := most.Load(); got != limit {
		t.Errorf("%d requests at the same time, want %d", got, limit)
	}
}

// TestClientWorksWithOneRequestSlot checks that one slot is enough for challenges, tokens, pages and redirects. A
// request occupies its slot until its body is closed.
func TestClientWorksWithOneRequestSlot(t *testing.T) {
	t.Parallel()
	r, storage := newRegistry(t), newRegistry(t)
	r.bearer, r.pageSize = true, 1
	r.push("1.0.0", "1.0.0", []byte("layer"))
	r.push("1.1.0", "1.1.0", []byte("layer"))
	storage.push("1.1.0", "1.1.0", []byte("layer"))
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestBlob || req.Header.Get("Authorization") == "" {
			return false
		}
		http.Redirect(w, req, storage.srv.URL+req.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	c := newClient(t, func(o *Options) { o.MaxRequests = 1 })
	if err := pullAllOf(t, c, r.source(Reference{Semver: "*"})); err != nil {
		t.Fatal(err)
	}

	// All slots are free again: the next request gets the only slot and occupies it.
	held, end := make(chan struct{}), make(chan struct{})
	r.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		close(held)
		<-end
		return false
	})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
		failed <- err
	}()
	<-held
	r.setIntercept(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Resolve(ctx, r.source(Reference{Tag: "1.1.0"}))
	if !errors.Is(err, ocierr.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want ErrUnreachable by deadline", err)
	}
	close(end)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func TestRequestRateIsLimited(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t, func(o *Options) { o.RequestsPerSecond, o.Timeout = 0.01, time.Minute })
	// The burst is one request: the HEAD of the first resolution.
	_, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
	var failure *ocierr.Error
	if !errors.As(err, &failure) || !errors.Is(err, ocierr.ErrRateLimited) || failure.RetryAfter <= 0 ||
		failure.RetryAfter > 100*time.Second {
		t.Errorf("error = %v, want ErrRateLimited for up to 100s", err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1})
}

func TestRequestsWaitForRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		others int // the number of requests of another user
	}{
		{http.StatusTooManyRequests, 1}, {http.StatusServiceUnavailable, 0},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.setIntercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", "86400")
				w.WriteHeader(tc.status)
				return true
			})
			c := newClient(t)
			src := r.source(Reference{Tag: "1.0.0"})
			resolve := func(kind error, requests int) {
				t.Helper()
				_, err := c.Resolve(t.Context(), src)
				var failure *ocierr.Error
				if !errors.As(err, &failure) || !errors.Is(err, kind) || failure.RetryAfter < time.Hour-time.Minute ||
					failure.RetryAfter > time.Hour {
					t.Errorf("error = %v with %v, want %v for an hour", err, failure, kind)
				}
				if got := r.count("HEAD manifest"); got != requests {
					t.Errorf("%d requests, want %d", got, requests)
				}
			}
			first := ocierr.ErrRateLimited
			if tc.status == http.StatusServiceUnavailable {
				first = ocierr.ErrUnreachable
			}
			resolve(first, 1)
			resolve(ocierr.ErrRateLimited, 1)
			src.Access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), testUser, testPassword)}
			if tc.others > 0 {
				resolve(first, 2)
			} else {
				resolve(ocierr.ErrRateLimited, 1)
			}
		})
	}
}

func TestBreakerRefusesUnresponsiveHost(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	var silent atomic.Bool
	silent.Store(true)
	r.setIntercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if silent.Load() {
			hang(req)
		}
		return silent.Load()
	})
	c := newClient(t, func(o *Options) { o.Timeout = time.Second })
	src := r.source(Reference{Tag: "1.0.0"})
	// On a busy machine, a request may get too little of its second to prove anything about the host.
	var err error
	for range 3 * brokenAfter {
		if _, err = c.Resolve(t.Context(), src); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	sent := r.count("HEAD manifest")
	_, err = c.Resolve(t.Context(), src)
	var failure *ocierr.Error
	if !errors.As(err, &failure) || !errors.Is(err, ocierr.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) ||
		failure.RetryAfter <= 0 ||
		!strings.Contains(err.Error(), "not retried yet after earlier failures: no response within the deadline") {
		t.Errorf("error = %v, want ErrUnreachable at once, with the time to wait", err)
	}
	if n := r.count("HEAD manifest"); n > sent {
		t.Errorf("%d requests, want %d", n, sent)
	}

	// Another way to the host is not affected, here a way through a proxy.
	silent.Store(false)
	other := src
	other.Access.Proxy = &credentials.Proxy{Address: newConnectProxy(t, nil, nil).URL}
	for range brokenAfter {
		if _, err = c.Resolve(t.Context(), other); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if err != nil {
		t.Errorf("by a proxy: %v", err)
	}
}

// TestBrokenProxyDoesNotBlockOtherTenants checks that the broken proxy of a tenant does not block requests of other
// tenants to the same registry.
func TestBrokenProxyDoesNotBlockOtherTenants(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t)
	src := r.source(Reference{Tag: "1.0.0"})
	dead := src
	dead.Access.Proxy = &credentials.Proxy{Address: "http://" + closedAddress(t)}
	for range brokenAfter + 1 {
		if _, err := c.Resolve(t.Context(), dead); !errors.Is(err, ocierr.ErrUnreachable) {
			t.Errorf("error = %v, want ErrUnreachable", err)
		}
	}
	if _, err := c.Resolve(t.Context(), src); err != nil {
		t.Error(err)
	}
}

// TestTenantsDoNotShareCalls checks that equal calls of two tenants are separate. With a shared call, one tenant would
// wait for the slot of the other.
func TestTenantsDoNotShareCalls(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	entered, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		first := false
		once.Do(func() { first = true })
		if first {
			close(entered)
			<-end
		}
		return false
	})
	c := newClient(t)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Resolve(ForTenant(t.Context(), "a"), r.source(Reference{Tag: "1.0.0"}))
		failed <- err
	}()
	<-entered
	_, err := c.Resolve(ForTenant(t.Context(), "b"), r.source(Reference{Tag: "1.0.0"}))
	if err != nil {
		t.Error(fmt.Errorf("the other tenant: %w", err))
	}
	close(end)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
