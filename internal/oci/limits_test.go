// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// limitsOf returns the limits of a registry as a client without proxy sees them.
func limitsOf(c *Client, r *fakeRegistry) *hostLimits {
	return c.clients.limits.of(&url.URL{Scheme: "https", Host: r.host()}, fingerprint())
}

// takeTurns takes turns of a host and does not give them back.
func takeTurns(t *testing.T, host *hostLimits, number int) {
	t.Helper()
	for range number {
		if err := host.slots.acquire(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}

func underWay(host *hostLimits) int {
	host.slots.mu.Lock()
	defer host.slots.mu.Unlock()
	return host.slots.pool.Total()
}

func TestConcurrentRequestsAreLimited(t *testing.T) {
	t.Parallel()
	const limit, callers = 3, 12 // one tenant has three of four
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
		<-full // the first ones stay until there are as many as there may be
		return false
	})
	// Resolutions take several requests, also of tokens and after a challenge.
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

// A body counts until it is closed, and one request at a time is enough for
// challenges, tokens, pages and redirects.
func TestClientWorksWithOneRequestSlot(t *testing.T) {
	t.Parallel()
	r, storage := newRegistry(t), newRegistry(t)
	r.bearer, r.pageSize = true, 1
	r.push("1.0.0", "1.0.0", []byte("layer"))
	r.push("1.1.0", "1.1.0", []byte("layer"))
	storage.push("1.1.0", "1.1.0", []byte("layer"))
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if requestKind(req) != RequestBlob || req.Header.Get("Authorization") == "" {
			return false
		}
		http.Redirect(w, req, storage.srv.URL+req.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	c := newClient(t, func(o *Options) { o.MaxRequests = 1 })
	if err := pullAllOf(t, c, r.source(Reference{Semver: "*"})); err != nil {
		t.Fatal(err)
	}

	host := limitsOf(c, r)
	if n := underWay(host); n != 0 {
		t.Fatalf("%d turns were not given back", n)
	}
	takeTurns(t, host, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Resolve(ctx, r.source(Reference{Tag: "1.0.0"}))
	if !errors.Is(err, ocierr.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want ErrUnreachable by deadline", err)
	}
	if _, err := host.admit(ctx, "u", ""); err == nil ||
		!strings.Contains(err.Error(), "1 request to the host is running") {
		t.Errorf("error = %v, want one that says what was waited for", err)
	}
}

func TestRequestSlotIsReleasedWithContext(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(srv.Close)
	l, err := newLimits(Options{RequestsPerSecond: 10, MaxRequests: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	transport := &limitedTransport{base: http.DefaultTransport, limits: l}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel() // and the body is closed too late
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
}

// TestNoSlotDetail holds that a request whose deadline was over does not blame others that are under way if there are
// none.
func TestNoSlotDetail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		underWay int
		want     string
	}{
		"a free slot":  {0, "the deadline passed before the request was sent"},
		"no free slot": {3, "no free slot within the deadline: 3 requests to the host are running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := newLimits(Options{RequestsPerSecond: 2, MaxRequests: 4})
			if err != nil {
				t.Fatal(err)
			}
			host := l.of(&url.URL{Scheme: "https", Host: "registry.example"}, "")
			takeTurns(t, host, tc.underWay)
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			defer cancel()
			if _, err := host.admit(ctx, allUsers, ""); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if n := underWay(host); n != tc.underWay {
				t.Errorf("%d requests are under way", n)
			}
		})
	}
}

func TestRequestRateIsLimited(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t, func(o *Options) { o.RequestsPerSecond, o.Timeout = 0.5, time.Second })
	// A burst of one: the first resolution's HEAD.
	_, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
	var failure *ocierr.Error
	if !errors.As(err, &failure) || !errors.Is(err, ocierr.ErrRateLimited) || failure.RetryAfter <= 0 ||
		failure.RetryAfter > 2*time.Second {
		t.Errorf("error = %v, want ErrRateLimited for up to 2s", err)
	}
	r.wantRequests(map[string]int{"HEAD manifest": 1})

	quick := newClient(t, func(o *Options) { o.RequestsPerSecond = 20 })
	host := limitsOf(quick, r)
	start := time.Now()
	for range 42 { // two more than the burst
		takeTurns(t, host, 1)
		host.slots.release("")
	}
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("42 requests in %s at 20 per second and a burst of 40", took)
	}
}

func TestRequestsWaitForRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		others int // requests that another user makes
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
				if !errors.As(err, &failure) || !errors.Is(err, kind) || failure.RetryAfter < maxRetryAfter-time.Minute ||
					failure.RetryAfter > maxRetryAfter {
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

func TestRetryAfterGates(t *testing.T) {
	t.Parallel()
	l, err := newLimits(Options{RequestsPerSecond: 1000, MaxRequests: 8, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	host := l.of(&url.URL{Scheme: "https", Host: "r.example"}, "")
	now := time.Now()
	host.applyRetryAfter(now, "a", 429, 5*time.Second)
	host.applyRetryAfter(now, "a", 429, 3*time.Second) // does not shorten the wait
	for user, want := range map[string]time.Duration{"a": 5 * time.Second, "b": 0} {
		if wait, err := host.delay(t.Context(), now, user); wait != want || err != nil {
			t.Errorf("%s waits %s, %v; want %s", user, wait, err, want)
		}
	}
	host.applyRetryAfter(now, "b", 503, 7*time.Second)
	if wait, _ := host.delay(t.Context(), now, "c"); wait != 7*time.Second {
		t.Errorf("all wait %s after a 503", wait)
	}
	if wait, _ := host.delay(t.Context(), now.Add(7*time.Second), "a"); wait != 0 {
		t.Errorf("still %s to wait at the end", wait)
	}
	for i := range 3 * maxGates {
		host.applyRetryAfter(now, fmt.Sprint(i), 429, 9*time.Second)
	}
	if len(host.gates) > maxGates+1 {
		t.Errorf("%d gates are kept", len(host.gates))
	}

	// A short wait is waited for, until the caller leaves.
	other := l.of(&url.URL{Scheme: "https", Host: "other.example"}, "")
	other.applyRetryAfter(time.Now(), "a", 429, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := other.admit(ctx, "a", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	// A wait beyond the deadline, or with an alternative host, fails at once.
	short, cancelShort := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancelShort()
	for name, ctx := range map[string]context.Context{
		"deadline": short, "alternative": context.WithValue(t.Context(), alternativeKey{}, true),
	} {
		if _, err := other.admit(ctx, "a", ""); !errors.Is(err, ocierr.ErrRateLimited) {
			t.Errorf("%s: error = %v, want ErrRateLimited at once", name, err)
		}
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
	c := newClient(t, func(o *Options) { o.Timeout = 100 * time.Millisecond })
	src := r.source(Reference{Tag: "1.0.0"})
	for range breakerLimit {
		if _, err := c.Resolve(t.Context(), src); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error = %v, want one by deadline", err)
		}
	}
	_, err := c.Resolve(t.Context(), src)
	var failure *ocierr.Error
	if !errors.As(err, &failure) || !errors.Is(err, ocierr.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) ||
		failure.RetryAfter <= 0 ||
		!strings.Contains(err.Error(), "not retried yet after earlier failures: no response within the deadline") {
		t.Errorf("error = %v, want ErrUnreachable at once, with the time to wait", err)
	}
	if n := r.count("HEAD manifest"); n > breakerLimit { // fewer if one ended before it arrived
		t.Errorf("%d requests, want %d", n, breakerLimit)
	}

	// Another way to the host is not affected: here, a proxy.
	silent.Store(false)
	other := src
	other.Access.Proxy = &credentials.Proxy{Address: newConnectProxy(t, nil, nil).URL}
	if _, err := c.Resolve(t.Context(), other); err != nil {
		t.Errorf("by a proxy: %v", err)
	}
	// After the pause, one request finds out that the host is back.
	host := limitsOf(c, r)
	host.mu.Lock()
	host.breaker.until = time.Now()
	host.mu.Unlock()
	for range 2 {
		if _, err := c.Resolve(t.Context(), src); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	}
}

// A tenant's dead proxy must not keep the others from a registry.
func TestBrokenProxyDoesNotBlockOtherTenants(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t)
	src := r.source(Reference{Tag: "1.0.0"})
	dead := src
	dead.Access.Proxy = &credentials.Proxy{Address: "http://" + closedAddress(t)}
	for range breakerLimit + 1 {
		if _, err := c.Resolve(t.Context(), dead); !errors.Is(err, ocierr.ErrUnreachable) {
			t.Errorf("error = %v, want ErrUnreachable", err)
		}
	}
	if _, err := c.Resolve(t.Context(), src); err != nil {
		t.Error(err)
	}
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	share, endShare := context.WithCancelCause(t.Context())
	endShare(errStalled)
	dial := func(err error) error { return &url.Error{Err: &net.OpError{Op: "dial", Err: err}} }
	for name, tc := range map[string]struct {
		ctx     context.Context
		err     error
		hadTime bool
		want    outcome
	}{
		"answer":  {want: outcomeAnswer},
		"refused": {err: dial(syscall.ECONNREFUSED), want: outcomeNoAnswer},
		"refused by the proxy": {err: &net.OpError{Op: "proxyconnect", Err: dial(syscall.ECONNREFUSED)},
			want: outcomeNoAnswer},
		"no route":      {err: dial(syscall.EHOSTUNREACH), want: outcomeNoAnswer},
		"dial timeout":  {err: dial(os.ErrDeadlineExceeded), want: outcomeNoAnswer},
		"stalled":       {err: errStalled, hadTime: true, want: outcomeNoAnswer},
		"stalled soon":  {err: errStalled, want: outcomeNone},
		"deadline":      {err: context.DeadlineExceeded, hadTime: true, want: outcomeNoAnswer},
		"caller left":   {ctx: canceled, err: context.Canceled, hadTime: true, want: outcomeNone},
		"share is over": {ctx: share, err: context.Canceled, hadTime: true, want: outcomeNoAnswer},
		"TLS": {err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")},
			want: outcomeAnswer},
		"broken connection":        {err: io.ErrUnexpectedEOF, want: outcomeNone},
		"name that does not exist": {err: dial(&net.DNSError{IsNotFound: true}), want: outcomeNone},
	} {
		ctx := tc.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		if got := outcomeOf(ctx, tc.err, tc.hadTime); got != tc.want {
			t.Errorf("%s: outcome = %d, want %d", name, got, tc.want)
		}
	}
}
