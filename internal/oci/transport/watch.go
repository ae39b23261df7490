// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

// ErrStalled means that the other side sent nothing for the timeout. It wraps os.ErrDeadlineExceeded, so all callers
// see a timeout.
var ErrStalled = fmt.Errorf("no progress: %w", os.ErrDeadlineExceeded)

// watchedTransport reports each request to the observer. It cancels a request if its headers or its body make no
// progress for the timeout.
type watchedTransport struct {
	base    http.RoundTripper
	timeout time.Duration
	// observe is called for each request. answer is called for each response.
	observe func(RequestEvent)
	answer  func(context.Context, *http.Response)
	// registry is the host name in RequestEvent.
	registry string
	// bytes is the memory budget for all responses, except blobs and indexes. Blobs and indexes are not read into
	// memory as a whole.
	bytes *bytebudget.Budget
	// kindOf returns the kind of a request, for RequestEvent.
	kindOf func(*http.Request) string
}

// RoundTrip implements http.RoundTripper.
func (t *watchedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	event := RequestEvent{Registry: t.registry, Kind: t.kindOf(req), Method: req.Method}
	start := time.Now()

	ctx, cancel := context.WithCancel(req.Context())
	watch := &watch{timeout: t.timeout, cancel: cancel}
	watch.timer = time.AfterFunc(t.timeout, watch.stall)
	sent := req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		sent.Body = &sendingBody{ReadCloser: req.Body, watch: watch}
	}
	resp, err := t.base.RoundTrip(sent)
	if err != nil {
		watch.stop()
		event.Duration = time.Since(start)
		t.observe(event)
		return nil, watch.explain(err)
	}
	watch.timer.Reset(t.timeout)
	event.Status = resp.StatusCode
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: watch, done: func(n int64) {
		event.Bytes, event.Duration = n, time.Since(start)
		t.observe(event)
	}}
	switch event.Kind {
	case RequestBlob, RequestIndex, RequestRedirect:
	default:
		resp.Body = newSharedBody(req.Context(), resp, t.bytes,
			bytebudget.Owner{Tenant: TenantOf(req.Context()), Host: t.registry})
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		_ = resp.Body.Close() // only proxies send this status
		return nil, proxyAnswer(resp.StatusCode)
	}
	t.answer(req.Context(), resp)
	return resp, nil
}

// sharedBody is the body of a response whose memory counts for the shared budget.
type sharedBody struct {
	io.Reader
	body   io.Closer
	intake *bytebudget.Intake
}

func newSharedBody(ctx context.Context, resp *http.Response, budget *bytebudget.Budget,
	owner bytebudget.Owner,
) *sharedBody {
	// All these responses are decoded as JSON, whatever media type they have.
	intake := bytebudget.NewIntake(budget, owner, bytebudget.JSON, resp.ContentLength)
	return &sharedBody{Reader: bytebudget.NewReader(ctx, resp.Body, intake), body: resp.Body, intake: intake}
}

// Close implements io.Closer.
func (b *sharedBody) Close() error {
	b.intake.ReleaseSoon()
	return b.body.Close()
}

// watch cancels a request that makes no progress.
type watch struct {
	timeout time.Duration
	cancel  context.CancelFunc
	timer   *time.Timer
	stalled atomic.Bool
}

func (w *watch) stall() {
	w.stalled.Store(true)
	w.cancel()
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel()
}

// explain returns ErrStalled if the watch cancelled the request. Otherwise, it returns the error unchanged.
func (w *watch) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && w.stalled.Load() {
		return ErrStalled
	}
	return err
}

// sendingBody restarts the timer while the other side accepts the request's body.
type sendingBody struct {
	io.ReadCloser
	watch *watch
}

// Read implements io.Reader.
func (b *sendingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watch.timer.Reset(b.watch.timeout)
	return n, err
}

type watchedBody struct {
	io.ReadCloser
	watch *watch
	read  int64
	done  func(n int64)
	once  sync.Once
}

// Read implements io.Reader and restarts the timer after each received byte.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if n > 0 {
		b.watch.timer.Reset(b.watch.timeout)
	}
	return n, b.watch.explain(brokenOff(err))
}

// brokenOff returns io.ErrUnexpectedEOF if the other side ended the connection within a body, as net/http does for
// HTTP/1. HTTP/2 has other errors for this case.
func brokenOff(err error) error {
	var reset http2.StreamError
	if errors.As(err, &reset) || err != nil && strings.HasPrefix(err.Error(), "http2: server sent GOAWAY") {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close implements io.Closer and reports the request.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() {
		b.watch.stop()
		b.done(b.read)
	})
	return err
}
