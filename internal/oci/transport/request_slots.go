// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

type tenantKey struct{}

// ForTenant returns a context whose requests count for a tenant, see oci.ForTenant.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant of a context, or "".
func TenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// requestSlots limits the concurrency and the rate of requests to one host. Tenants have equal shares of both, see
// package fairshare. It is safe for concurrent use.
type requestSlots struct {
	mu    sync.Mutex
	pool  *fairshare.Pool[string]
	queue *fairshare.Queue[string, *slotWaiter]
	rate  *rate.Limiter

	// timer fires when the rate limit admits the next request. It is nil if no request waits for the rate limit.
	timer *time.Timer
}

// slotWaiter is a request that waits for a slot.
type slotWaiter struct{ granted chan struct{} }

func newRequestSlots(perSecond float64, running int) *requestSlots {
	pool := fairshare.NewPool[string](running, running)
	return &requestSlots{
		pool: pool, queue: fairshare.NewQueue[string, *slotWaiter](pool),
		rate: rate.NewLimiter(rate.Limit(perSecond), int(math.Ceil(2*perSecond))),
	}
}

// acquire waits for a slot for a request of a tenant. The caller must call release afterwards. If the rate limit cannot
// admit the request before its deadline, acquire returns ErrRateLimited at once. If the context ends first, it returns
// the error of the context.
func (t *requestSlots) acquire(ctx context.Context, tenant string) error {
	waiting := &slotWaiter{granted: make(chan struct{})}
	if err := t.enter(ctx, tenant, waiting); err != nil {
		return err
	}
	select {
	case <-waiting.granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := waitError(ctx, t.noSlotDetail())
	if !t.queue.Remove(tenant, waiting) {
		t.releaseLocked(tenant)
	}
	return err
}

// enter puts a request into the queue. It returns an error if the rate limit cannot admit the request before its
// deadline.
func (t *requestSlots) enter(ctx context.Context, tenant string, waiting *slotWaiter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		if t.pool.Admits(tenant) {
			return waitError(ctx, "the deadline passed before the request was sent")
		}
		return waitError(ctx, t.noSlotDetail())
	}
	now := time.Now()
	t.queue.Push(tenant, waiting)
	// A deadline may pass a moment before its context ends. The rate limit is not the cause then: the request fails
	// with the error of its context.
	if wait := t.untilTokens(now, t.queue.Ahead(tenant)+1); wait > 0 && wait > untilDeadline(ctx) {
		t.queue.Remove(tenant, waiting)
		return &ocierr.Error{Kind: ocierr.ErrRateLimited, RetryAfter: wait,
			Detail: fmt.Sprintf("the manager's limit of %g requests per second to the host is reached", t.rate.Limit())}
	}
	t.grant(now)
	return nil
}

// release frees a slot and gives it to the next waiter.
func (t *requestSlots) release(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked(tenant)
}

// releaseLocked is release for callers that hold mu. The methods below also require that the caller holds mu.
func (t *requestSlots) releaseLocked(tenant string) {
	t.pool.GiveBack(tenant)
	t.grant(time.Now())
}

// grant gives slots to waiters. It stops at the rate limit or at the concurrency limit.
func (t *requestSlots) grant(now time.Time) {
	for t.queue.Ready() {
		if !t.rate.AllowN(now, 1) {
			t.grantIn(t.untilTokens(now, 1))
			return
		}
		_, next, _ := t.queue.Pop()
		close(next.granted)
	}
}

func (t *requestSlots) grantIn(wait time.Duration) {
	if t.timer != nil {
		return
	}
	t.timer = time.AfterFunc(wait, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.timer = nil
		t.grant(time.Now())
	})
}

// untilTokens returns how long the rate limit needs to admit a number of requests.
func (t *requestSlots) untilTokens(now time.Time, requests int) time.Duration {
	missing := float64(requests) - t.rate.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(t.rate.Limit()) * float64(time.Second))
}

// noSlotDetail returns the reason why a request got no slot.
func (t *requestSlots) noSlotDetail() string {
	if n := t.pool.Total(); n != 1 {
		return fmt.Sprintf("no free slot within the deadline: %d requests to the host are running", n)
	}
	return "no free slot within the deadline: 1 request to the host is running"
}
