// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// takeTurns acquires slots of a host and does not release them.
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

func TestRequestSlotIsReleasedWithContext(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}))
	t.Cleanup(srv.Close)
	l := newLimits(Options{RequestsPerSecond: 10, MaxRequests: 1, Timeout: time.Minute})
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
		cancel() // the body is closed only at the end of the test
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
}

// TestNoSlotDetail checks the message for a request whose deadline has passed. The message must not mention running
// requests if there are none.
func TestNoSlotDetail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		most, underWay int
		want           string
	}{
		"a free slot":  {4, 0, "the deadline passed before the request was sent"},
		"no free slot": {4, 3, "no free slot within the deadline: 3 requests to the host are running"},
		"one slot":     {1, 1, "no free slot within the deadline: 1 request to the host is running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimits(Options{RequestsPerSecond: 2, MaxRequests: tc.most})
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

func TestRetryAfterGates(t *testing.T) {
	t.Parallel()
	l := newLimits(Options{RequestsPerSecond: 1000, MaxRequests: 8, Timeout: time.Minute})
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

	// A request waits for a short time, until its caller cancels it.
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
		"deadline": short, "alternative": WithAlternative(t.Context()),
	} {
		if _, err := other.admit(ctx, "a", ""); !errors.Is(err, ocierr.ErrRateLimited) {
			t.Errorf("%s: error = %v, want ErrRateLimited at once", name, err)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	share, endShare := context.WithCancelCause(t.Context())
	endShare(ErrStalled)
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
		"stalled":       {err: ErrStalled, hadTime: true, want: outcomeNoAnswer},
		"stalled soon":  {err: ErrStalled, want: outcomeNone},
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

// TestRequestRate checks that requests above the burst wait.
func TestRequestRate(t *testing.T) {
	t.Parallel()
	slots := newRequestSlots(20, 8)
	start := time.Now()
	for range 42 { // the burst and two more requests
		if err := slots.acquire(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		slots.release("")
	}
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("42 requests in %s at 20 per second and a burst of 40", took)
	}
}

// TestBreakerAdmitsAfterPause checks that one request probes whether a host answers again.
func TestBreakerAdmitsAfterPause(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	silent.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if silent.Load() {
			<-req.Context().Done()
		}
	}))
	t.Cleanup(srv.Close)
	l := newLimits(Options{RequestsPerSecond: 1000, MaxRequests: 8, Timeout: 500 * time.Millisecond})
	transport := &limitedTransport{base: http.DefaultTransport, limits: l}
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if !silent.Load() {
			ctx = t.Context()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	// A request that begins late on a slow machine does not count.
	var err error
	for tries := 0; !errors.Is(err, ocierr.ErrUnreachable); tries++ {
		if err = get(); tries < breakerLimit && !errors.Is(err, context.DeadlineExceeded) || tries > 3*breakerLimit {
			t.Fatalf("error %d = %v, want one by deadline", tries, err)
		}
	}
	silent.Store(false)
	if err := get(); !errors.Is(err, ocierr.ErrUnreachable) {
		t.Fatalf("error = %v, want ErrUnreachable during the pause", err)
	}
	target, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	host := l.of(target, "")
	host.mu.Lock()
	host.breaker.until = time.Now()
	host.mu.Unlock()
	for range 2 {
		if err := get(); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	}
}

// TestMessagesOfLimitsAreStable checks that the messages do not contain the length of the wait. Each new message would
// cause an Event.
func TestMessagesOfLimitsAreStable(t *testing.T) {
	t.Parallel()
	failure := func(wait time.Duration) *ocierr.Error {
		host := &hostLimits{gates: map[string]time.Time{}}
		host.applyRetryAfter(time.Now(), "user", http.StatusTooManyRequests, wait)
		var own *ocierr.Error
		if err := host.waitUntilAllowed(t.Context(), "user"); !errors.As(err, &own) {
			t.Fatal(err)
		}
		return own
	}
	first, second := failure(time.Minute), failure(2*time.Minute)
	if first.Error() != second.Error() || first.Detail == "" || first.RetryAfter < time.Minute/2 {
		t.Errorf("%q for %s, then %q", first, first.RetryAfter, second)
	}
}
