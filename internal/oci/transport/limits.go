// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// maxHosts is the maximum number of hosts in memory. A redirect can have any host.
	maxHosts = 1024
	// maxGates is the maximum number of credentials with a Retry-After, for each host.
	maxGates = 256
)

// limits holds the limits that all callers share. Each host and each way to the host has its own limits. A way is a
// protocol and a proxy. A HelmOp with a broken proxy must not block HelmOps that reach the host without this proxy.
type limits struct {
	perSecond float64
	running   int
	timeout   time.Duration

	mu    sync.Mutex
	hosts *lru.LRU[hostKey, *hostLimits]
}

func newLimits(opts Options) *limits {
	hosts, _ := lru.NewLRU[hostKey, *hostLimits](maxHosts, nil) // It fails only if the size is not positive.
	return &limits{perSecond: opts.RequestsPerSecond, running: opts.MaxRequests, timeout: opts.Timeout, hosts: hosts}
}

// of returns the limits for the host of a URL.
func (l *limits) of(target *url.URL, way string) *hostLimits {
	key := hostKey{target.Scheme, target.Host, way}
	l.mu.Lock()
	defer l.mu.Unlock()
	host, ok := l.hosts.Get(key)
	if !ok {
		host = &hostLimits{slots: newRequestSlots(l.perSecond, l.running), gates: map[string]time.Time{}}
		l.hosts.Add(key, host)
	}
	return host
}

type hostKey struct{ protocol, host, way string }

// hostLimits are the limits of one host.
type hostLimits struct {
	slots *requestSlots

	mu      sync.Mutex
	breaker breaker
	// gates holds, for each credential, the time before which its requests must wait. The entry allUsers applies to all
	// credentials.
	gates map[string]time.Time
}

// allUsers is the key of the gate for all credentials.
const allUsers = ""

// admit waits until a request of a tenant may be sent. The caller must call finish after the request, and release the
// slot after the body was read.
func (h *hostLimits) admit(ctx context.Context, user, tenant string) (probe bool, err error) {
	for {
		if err := h.waitUntilAllowed(ctx, user); err != nil {
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

// waitUntilAllowed waits until the breaker and the gates admit the request.
func (h *hostLimits) waitUntilAllowed(ctx context.Context, user string) error {
	for {
		h.mu.Lock()
		wait, err := h.delay(ctx, time.Now(), user)
		h.mu.Unlock()
		if err != nil || wait <= 0 {
			return err
		}
		if wait > min(maxWait(ctx), maxRetryWait) {
			return &ocierr.Error{Kind: ocierr.ErrRateLimited, RetryAfter: wait,
				Detail: "the registry asked to wait"}
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// begin registers a request with the breaker. ok is false if the breaker or a gate closed while the request waited for
// its slot.
func (h *hostLimits) begin(ctx context.Context, now time.Time, user string) (probe, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wait, err := h.delay(ctx, now, user); err != nil || wait > 0 {
		return false, false, err
	}
	return h.breaker.begin(), true, nil
}

// delay returns how long the request must wait, because the host asked for a wait. It returns an error if the breaker
// refuses the request.
func (h *hostLimits) delay(ctx context.Context, now time.Time, user string) (time.Duration, error) {
	if wait, refused := h.breaker.refuses(now, hasAlternative(ctx)); refused {
		return 0, &ocierr.Error{Kind: ocierr.ErrUnreachable, RetryAfter: wait, Hint: ocierr.HintReach,
			Detail: "not retried yet after earlier failures: " + h.breaker.last}
	}
	return max(0, h.gates[allUsers].Sub(now), h.gates[user].Sub(now)), nil
}

// finish reports the outcome of a request to the breaker. It does not release the slot, because the body is not read
// yet.
func (h *hostLimits) finish(now time.Time, probe bool, result outcome, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if result == outcomeNoAnswer {
		failure := ocierr.Error{}
		fromDial(&failure, err)
		h.breaker.last = failure.Detail
	}
	h.breaker.report(now, probe, result, rand.Float64())
}

// applyRetryAfter closes a gate for the time in Retry-After. A 429 closes the gate of the user, or the gate of requests
// without a user. A tenant that used up its quota must not block other tenants. A 503 closes the gate of all users.
func (h *hostLimits) applyRetryAfter(now time.Time, user string, status int, wait time.Duration) {
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

// limitedTransport applies the limits of each host to its requests.
type limitedTransport struct {
	base   http.RoundTripper
	limits *limits
	// way identifies the way to a host. user identifies the credential. Both are hashes.
	way, user string
}

// RoundTrip implements http.RoundTripper. A request holds its slot until its body is closed or its
// context ends.
func (t *limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	host, tenant := t.limits.of(req.URL, t.way), TenantOf(ctx)
	probe, err := host.admit(ctx, t.user, tenant)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	resp, err := t.base.RoundTrip(req)
	now := time.Now()
	host.finish(now, probe, outcomeOf(ctx, err, now.Sub(start) >= t.limits.timeout/10), err)
	if err != nil {
		host.slots.release(tenant)
		return nil, err
	}
	host.applyRetryAfter(now, t.user, resp.StatusCode, RetryAfter(resp, now))
	release := sync.OnceFunc(func() { host.slots.release(tenant) })
	stop := context.AfterFunc(ctx, release)
	resp.Body = OnClose(resp.Body, func() {
		stop()
		release()
	})
	return resp, nil
}

// OnClose returns a body that calls a function when it is closed.
func OnClose(body io.ReadCloser, closed func()) io.ReadCloser {
	return &closingBody{ReadCloser: body, closed: closed}
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

// outcomeOf returns the outcome of a request that ended with an error. hadTime is true if the request ran long enough
// for its timeout to prove something.
func outcomeOf(ctx context.Context, err error, hadTime bool) outcome {
	var dial *net.OpError
	var network net.Error
	late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(context.Cause(ctx), os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
	switch {
	case err == nil:
		return outcomeAnswer
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return outcomeNoAnswer
	case late:
		// The timeout of a dial does not depend on the caller's deadline, so it proves that the host does not answer.
		if hadTime || errors.As(err, &dial) && dial.Op == "dial" {
			return outcomeNoAnswer
		}
		return outcomeNone
	case fromTLS(&ocierr.Error{}, err):
		return outcomeAnswer
	}
	return outcomeNone
}

type alternativeKey struct{}

// WithAlternative returns a context for requests that go to another host if they fail. These requests do not wait and
// are not retried.
func WithAlternative(ctx context.Context) context.Context {
	return context.WithValue(ctx, alternativeKey{}, true)
}

// hasAlternative reports whether another host gets the request if this host fails.
func hasAlternative(ctx context.Context) bool {
	return ctx.Value(alternativeKey{}) != nil
}

// maxWait returns the maximum wait of a request for a host. A request with an alternative host does not wait.
func maxWait(ctx context.Context) time.Duration {
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

// sleep waits for a duration, or returns an error if the context ends first.
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

// waitError returns the error for a context that ends during a wait.
func waitError(ctx context.Context, detail string) error {
	err := ocierr.FromContext("", "", context.Cause(ctx))
	if err.Timeout {
		err.Detail = detail
	}
	return err
}
