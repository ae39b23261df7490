// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	defaultRequestsPerSecond = 50
	defaultMaxRequests       = 8
	// maxHosts bounds what is remembered about hosts; redirects can name any.
	maxHosts = 1024
	// maxGates bounds the credentials of one host that were told to wait.
	maxGates = 256
)

// limits keeps, for each host and way to it, what all callers share. The way is
// the protocol and the proxy: a HelmOp with a dead proxy must not keep the others
// from a host that they reach.
type limits struct {
	perSecond float64
	running   int
	timeout   time.Duration

	mu    sync.Mutex
	hosts *lru.LRU[string, *hostLimits]
}

func newLimits(opts Options) (*limits, error) {
	hosts, err := lru.NewLRU[string, *hostLimits](maxHosts, nil)
	if err != nil {
		return nil, err
	}
	return &limits{perSecond: opts.RequestsPerSecond, running: opts.MaxRequests, timeout: opts.Timeout, hosts: hosts}, nil
}

// of returns the limits of the host of an URL.
func (l *limits) of(target *url.URL, way string) *hostLimits {
	key := fingerprint(target.Scheme, target.Host, way)
	l.mu.Lock()
	defer l.mu.Unlock()
	host, ok := l.hosts.Get(key)
	if !ok {
		host = &hostLimits{slots: newRequestSlots(l.perSecond, l.running), gates: map[string]time.Time{}}
		l.hosts.Add(key, host)
	}
	return host
}

// hostLimits are the limits of one host.
type hostLimits struct {
	slots *requestSlots

	mu      sync.Mutex
	breaker breaker
	// gates are the times before which a credential, or with the empty key nobody,
	// may ask again.
	gates map[string]time.Time
}

// allUsers is the gate of a host that has to wait for all.
const allUsers = ""

// admit waits for the turn of a request of a tenant. After it, leave must be called.
func (h *hostLimits) admit(ctx context.Context, user, tenant string) (probe bool, err error) {
	for {
		if err := h.pass(ctx, user); err != nil {
			return false, err
		}
		if err := h.slots.acquire(ctx, tenant); err != nil {
			return false, err
		}
		probe, ok, err := h.begin(ctx, time.Now(), user)
		if ok {
			return probe, nil
		}
		h.slots.release(tenant)
		if err != nil {
			return false, err
		}
	}
}

// pass returns when neither breaker nor gate is in the way.
func (h *hostLimits) pass(ctx context.Context, user string) error {
	for {
		h.mu.Lock()
		wait, err := h.obstacle(ctx, time.Now(), user)
		h.mu.Unlock()
		if err != nil || wait <= 0 {
			return err
		}
		if wait > min(patience(ctx), maxRetryWait) {
			return &Error{Kind: ErrRateLimited, RetryAfter: wait,
				Detail: "the registry asked to wait"}
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// begin lets a request go, unless something got in the way while it waited.
func (h *hostLimits) begin(ctx context.Context, now time.Time, user string) (probe, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait, err := h.obstacle(ctx, now, user); err != nil || wait > 0 {
		return false, false, err
	}
	return h.breaker.begin(), true, nil
}

// obstacle returns the error of a host that does not answer, or how long a host
// asked to wait.
func (h *hostLimits) obstacle(ctx context.Context, now time.Time, user string) (time.Duration, error) {
	if wait, refused := h.breaker.refuses(now, hasAlternative(ctx)); refused {
		return 0, &Error{Kind: ErrUnreachable, RetryAfter: wait, Hint: hintReach,
			Detail: "not retried yet after earlier failures: " + h.breaker.last}
	}
	return max(0, h.gates[allUsers].Sub(now), h.gates[user].Sub(now)), nil
}

// leave says what became of a request. The turn is not given back by it, for
// the body of an answer is still to be read.
func (h *hostLimits) leave(now time.Time, probe bool, result outcome, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result == outcomeSilence {
		failure := Error{}
		failure.fromDial(err)
		h.breaker.last = failure.Detail
	}
	h.breaker.report(now, probe, result, rand.Float64())
}

// obey closes the gate as long as an answer asks for. A 429 is about the user,
// or about the address where there is none: one tenant that has used up its
// share must not stop the others. A 503 is about the host.
func (h *hostLimits) obey(now time.Time, user string, status int, wait time.Duration) {
	if wait == 0 {
		return
	}
	if status == http.StatusServiceUnavailable {
		user = allUsers
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, until := range h.gates {
		if !until.After(now) || len(h.gates) >= maxGates {
			delete(h.gates, name)
		}
	}
	if until := now.Add(wait); until.After(h.gates[user]) {
		h.gates[user] = until
	}
}

// politeTransport keeps the limits of the hosts it sends requests to.
type politeTransport struct {
	base   http.RoundTripper
	limits *limits
	// way tells apart the ways to one host, user the credentials; both are hashes.
	way, user string
}

// RoundTrip implements http.RoundTripper. A request counts as running until its
// body is closed or its context ends.
func (t *politeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	host, tenant := t.limits.of(req.URL, t.way), tenantOf(ctx)
	probe, err := host.admit(ctx, t.user, tenant)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	resp, err := t.base.RoundTrip(req)
	now := time.Now()
	host.leave(now, probe, outcomeOf(ctx, err, now.Sub(start) >= t.limits.timeout/10), err)
	if err != nil {
		host.slots.release(tenant)
		return nil, err
	}
	host.obey(now, t.user, resp.StatusCode, retryAfter(resp, now))
	release := sync.OnceFunc(func() { host.slots.release(tenant) })
	stop := context.AfterFunc(ctx, release)
	resp.Body = &closingBody{ReadCloser: resp.Body, closed: func() {
		stop()
		release()
	}}
	return resp, nil
}

// closingBody calls a function when it is closed.
type closingBody struct {
	io.ReadCloser
	closed func()
}

// Close implements io.Closer.
func (b *closingBody) Close() error {
	err := b.ReadCloser.Close()
	b.closed()
	return err
}

// outcomeOf says what an error tells about the host. patient is whether the
// request had time enough for its being late to mean something.
func outcomeOf(ctx context.Context, err error, patient bool) outcome {
	var dial *net.OpError
	var network net.Error
	late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(context.Cause(ctx), os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
	switch {
	case err == nil:
		return outcomeAnswer
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return outcomeSilence
	case late:
		// The time to connect is not the caller's.
		if patient || errors.As(err, &dial) && dial.Op == "dial" {
			return outcomeSilence
		}
		return outcomeNone
	case (&Error{}).fromTLS(err):
		return outcomeAnswer
	}
	return outcomeNone
}

// patience is how long a request may wait for a host to be ready. One that may
// be sent elsewhere does not wait.
func patience(ctx context.Context) time.Duration {
	if hasAlternative(ctx) {
		return 0
	}
	return untilDeadline(ctx)
}

func untilDeadline(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return math.MaxInt64
}

// sleep waits, or returns the error of a context that ends before.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return waitError(ctx, "no free slot within the deadline")
	}
}

// waitError describes the end of a context during a wait.
func waitError(ctx context.Context, detail string) error {
	err := contextError("", "", context.Cause(ctx))
	if err.timeout {
		err.Detail = detail
	}
	return err
}
