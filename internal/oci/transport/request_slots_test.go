// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// TestTenantsShareRequestSlots checks that a tenant whose requests get no response does not occupy all slots.
func TestTenantsShareRequestSlots(t *testing.T) {
	t.Parallel()
	const most, share = 8, 6
	stuck, end := make(chan struct{}, 100), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hangs" {
			stuck <- struct{}{}
			<-end
		}
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(srv.Close)
	l := newLimits(Options{RequestsPerSecond: 1e6, MaxRequests: most, Timeout: time.Minute})
	transport := &limitedTransport{base: http.DefaultTransport, limits: l}
	ask := func(tenant, path string) error {
		req, err := http.NewRequestWithContext(ForTenant(t.Context(), tenant), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := ask("a", "/hangs"); err != nil {
				t.Error(err)
			}
		})
	}
	for range share {
		<-stuck
	}
	for range 10 {
		if err := ask("b", "/"); err != nil {
			t.Fatal(err)
		}
	}
	if more := len(stuck); more != 0 {
		t.Errorf("one tenant has %d of %d requests", share+more, most)
	}
	close(end)
	all.Wait()
}

// TestTenantsShareRequestRate checks that a tenant with a thousand requests in the queue does not use the whole rate.
func TestTenantsShareRequestRate(t *testing.T) {
	t.Parallel()
	turns := newRequestSlots(50, 8)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if err := turns.acquire(ctx, "a"); err == nil {
				turns.release("a")
			}
		})
	}
	waitUntil(t, func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		return turns.queue.Len() > 500
	})
	// The requests of the first tenant in the queue need more than 10 s.
	soon, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if err := turns.acquire(soon, "b"); err != nil {
		t.Errorf("another tenant has no turn: %v", err)
	} else {
		turns.release("b")
	}
	if err := turns.acquire(soon, "a"); !errors.Is(err, ocierr.ErrRateLimited) {
		t.Errorf("error = %v, want ErrRateLimited at once for the first tenant", err)
	}
	cancel()
	all.Wait()
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.queue.Len() != 0 || turns.pool.Total() != 0 {
		t.Errorf("%d requests wait and %d are under way", turns.queue.Len(), turns.pool.Total())
	}
}

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing happened for a minute")
		}
	}
}

// lateContext is a context whose deadline passes a moment before the context ends, as on a busy machine.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestPassedDeadlineIsNotRateLimited checks that the error is not ErrRateLimited if the rate limit would admit the
// request.
func TestPassedDeadlineIsNotRateLimited(t *testing.T) {
	t.Parallel()
	turns := newRequestSlots(1, 1)
	if err := turns.acquire(lateContext{t.Context()}, "a"); err != nil {
		t.Fatalf("error = %v, want none: the request ends by the deadline", err)
	}
	turns.release("a")
	used := turns.rate.AllowN(time.Now(), 1)
	if err := turns.acquire(lateContext{t.Context()}, "a"); !used || !errors.Is(err, ocierr.ErrRateLimited) {
		t.Errorf("without a token: %v, want ErrRateLimited", err)
	}
}
