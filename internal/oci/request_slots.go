// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

type tenantKey struct{}

// ForTenant returns a context whose requests count for a tenant: all tenants have the same share of the requests to a
// host, whatever the number of requests that each of them makes. Requests of contexts without a tenant count for one
// more tenant.
func ForTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

func tenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// sharedKey is the key of a call that callers of one tenant share. Between tenants, one would wait for the turn of the
// other.
func sharedKey(ctx context.Context, e *endpoint, content string) string {
	return strings.Join([]string{e.key, content, tenantOf(ctx)}, "\n")
}

// turns are the requests to one host that may run at the same time, and their rate. Tenants share both, see fairshare.
// They are safe for concurrent use.
type requestSlots struct {
	mu    sync.Mutex
	pool  *fairshare.Pool[string]
	queue *fairshare.Queue[string, *slotWaiter]
	rate  *rate.Limiter

	// timer ends when the rate allows the next request; nil if nobody waits for that.
	timer *time.Timer
}

// turn is a request that waits.
type slotWaiter struct{ granted chan struct{} }

func newRequestSlots(perSecond float64, running int) *requestSlots {
	pool := fairshare.NewPool[string](running, running)
	return &requestSlots{
		pool: pool, queue: fairshare.NewQueue[string, *slotWaiter](pool),
		rate: rate.NewLimiter(rate.Limit(perSecond), int(math.Ceil(2*perSecond))),
	}
}

// acquire waits for a turn of a tenant. After it, release must be called. Errors are ErrRateLimited at once where the
// rate leaves no turn within the deadline, and that of the context.
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
	err := waitError(ctx, t.noSlot())
	if !t.queue.Remove(tenant, waiting) {
		t.giveBack(tenant)
	}
	return err
}

// enter puts a request into the queue, unless its deadline leaves no time for its turn.
func (t *requestSlots) enter(ctx context.Context, tenant string, waiting *slotWaiter) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		if t.pool.Admits(tenant) {
			return waitError(ctx, "the deadline passed before the request was sent")
		}
		return waitError(ctx, t.noSlot())
	}
	now := time.Now()
	ahead := t.queue.Push(tenant, waiting)
	// A deadline may be over a moment before its context says so: that is not for the rate, and the request ends by it.
	if wait := t.untilTokens(now, ahead+1); wait > 0 && wait > untilDeadline(ctx) {
		t.queue.Remove(tenant, waiting)
		return &Error{Kind: ErrRateLimited, RetryAfter: wait,
			Detail: fmt.Sprintf("the manager's limit of %g requests per second to the host is reached", t.rate.Limit())}
	}
	t.grant(now)
	return nil
}

// release gives a turn back.
func (t *requestSlots) release(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveBack(tenant)
}

// giveBack is release for a caller that holds mu, as do all below.
func (t *requestSlots) giveBack(tenant string) {
	t.pool.GiveBack(tenant)
	t.grant(time.Now())
}

// grant gives turns to those that wait, as many as rate and number allow.
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

// untilTokens is how long it takes until the rate allows so many requests.
func (t *requestSlots) untilTokens(now time.Time, requests int) time.Duration {
	missing := float64(requests) - t.rate.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(t.rate.Limit()) * float64(time.Second))
}

// noSlot says why a request got no slot.
func (t *requestSlots) noSlot() string {
	if n := t.pool.Total(); n != 1 {
		return fmt.Sprintf("no free slot within the deadline: %d requests to the host are running", n)
	}
	return "no free slot within the deadline: 1 request to the host is running"
}
