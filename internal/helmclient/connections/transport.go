// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// maxResponseBytes bounds the body of a response that is not a watch. Ten revisions of 1 MiB, in base64 and JSON, take
// less than half of it.
const maxResponseBytes = 64 << 20

// maxRetryAfter is the longest time, in seconds, that a cluster may demand before client-go repeats a request.
// client-go waits outside the transport and repeats a request at most ten times. Helm passes no context, so neither the
// end of the action nor its timeout would end a longer wait.
const maxRetryAfter = 2

// firstEvents is the size of the events, in bytes, for which a watch of an action first reserves memory. Most hooks
// have smaller events.
const firstEvents = 2 * bytebudget.Free

var (
	errResponseTooLarge = fmt.Errorf("the response of the cluster is larger than %d MiB", maxResponseBytes>>20)
	errTooMuchToDecode  = errors.New("the response of the cluster would take more memory than one cluster may use")
)

// boundedTransport adds a deadline to each request and a size limit to each response, because Helm passes no context to
// its requests. It also limits Retry-After, and reports changes of the kinds that a cluster serves.
type boundedTransport struct {
	base http.RoundTripper
	// parent bounds all requests together.
	parent context.Context
	// timeout bounds each request that is not a watch. It starts when the limiter admits the request.
	timeout time.Duration
	// limiter, if set, limits the rate of requests.
	limiter flowcontrol.RateLimiter
	// bytes is the memory budget that responses share; nil if there is no bound.
	bytes *bytebudget.Budget
	// owner is the owner to whom the memory for responses is charged.
	owner bytebudget.Owner
	// metersWatches is true if the events of a watch take memory from the budget, all together, until the watch ends. The
	// clients of an action decode events of up to 16 MiB. Other users of watches have their own limits.
	metersWatches bool
	// kindsChanged, if set, is called after a request that may have changed the kinds that the cluster serves.
	kindsChanged func()
}

// RoundTrip implements http.RoundTripper.
func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	caller, watch := req.Context(), isWatch(req)
	ctx, release := caller, func() {}
	var cancel context.CancelCauseFunc
	if !watch || t.parent.Done() != nil { // A watch that only its caller ends needs no context of its own.
		ctx, cancel = context.WithCancelCause(caller)
		stop := context.AfterFunc(t.parent, func() { cancel(context.Cause(t.parent)) })
		release = func() { stop(); cancel(nil) }
	}
	if t.limiter != nil {
		if err := t.limiter.Wait(ctx); err != nil {
			defer release()
			return nil, causeOf(ctx, caller, err)
		}
	}
	if !watch {
		release = t.limitTime(cancel, release)
	}

	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		defer release()
		return nil, causeOf(ctx, caller, err)
	}
	limitRetryAfter(resp.Header)
	if watch && resp.StatusCode != http.StatusOK { // The clients read an error response as a whole.
		watch = false
		if cancel == nil {
			ctx, cancel = context.WithCancelCause(caller)
			stop := closeAtEnd(ctx, caller, resp.Body)
			release = func() { stop(); cancel(nil) }
		}
		release = t.limitTime(cancel, release)
	}
	if watch {
		resp = detached(resp)
	}
	// The body of a long watch must not keep the whole request in memory.
	body := &boundedBody{body: resp.Body, from: resp.Body, remaining: -1, release: release,
		cause: func(err error) error { return causeOf(ctx, caller, err) }}
	if !watch {
		body.remaining = maxResponseBytes
	}
	if !watch || t.metersWatches {
		form, err := formOf(req, resp)
		if err != nil {
			defer release()
			return nil, errors.Join(err, resp.Body.Close())
		}
		body.form = form
		size := resp.ContentLength
		if watch {
			size = firstEvents
		}
		body.share = bytebudget.NewIntake(t.bytes, t.owner, form.form, size)
		body.from = bytebudget.NewReader(ctx, form.content(resp.Body), body.share)
	}
	resp.Body = body
	if t.kindsChanged != nil && changesKinds(req) && resp.StatusCode < http.StatusMultipleChoices {
		t.kindsChanged()
	}
	return resp, nil
}

// limitTime cancels a request at its deadline. It returns the function that ends the request.
func (t *boundedTransport) limitTime(cancel context.CancelCauseFunc, release func()) func() {
	timer := time.AfterFunc(t.timeout, func() { cancel(helmerr.ErrRequestDeadline) })
	return func() { timer.Stop(); release() }
}

// closeAtEnd closes a body at the end of a context that began after the request, so that a read of the body ends. The
// transport does this at the end of the caller's context, with another error.
func closeAtEnd(ctx, caller context.Context, body io.Closer) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if caller.Err() == nil {
			_ = body.Close() // The read reports the cause.
		}
	})
}

// limitRetryAfter limits the wait that a response demands to maxRetryAfter. client-go ignores a Retry-After that is not
// a number of seconds.
func limitRetryAfter(header http.Header) {
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > maxRetryAfter {
		header.Set("Retry-After", strconv.Itoa(maxRetryAfter))
	}
}

// detached returns a copy of a response, and empties the original. The HTTP/2 connection keeps the original until the
// body ends. For a watch, the original must not keep the request and the headers of both for so long.
func detached(resp *http.Response) *http.Response {
	copied := *resp
	resp.Request, resp.Header, resp.TLS = nil, nil, nil
	return &copied
}

// causeOf returns the cause if this transport cancelled the request. It returns other errors unchanged, including a
// cancellation by the caller.
func causeOf(ctx, caller context.Context, err error) error {
	if ctx.Err() == nil || caller.Err() != nil {
		return err
	}
	return context.Cause(ctx)
}

// isWatch reports whether a request is a watch or follows a log.
func isWatch(req *http.Request) bool {
	query := req.URL.Query()
	return query.Get("watch") == "true" || query.Get("watch") == "1" || query.Get("follow") == "true"
}

// changesKinds reports whether a request may change the kinds that the cluster serves.
func changesKinds(req *http.Request) bool {
	return req.Method != http.MethodGet && !req.URL.Query().Has("dryRun") &&
		(strings.Contains(req.URL.Path, "/apis/apiextensions.k8s.io/") ||
			strings.Contains(req.URL.Path, "/apis/apiregistration.k8s.io/"))
}

// boundedBody is the body of a response. Close releases the request's deadline. Read returns an error if the body is
// too large.
type boundedBody struct {
	body io.Closer
	from io.Reader
	// form is the form of the body. started is true after the start of the body was checked.
	form    bodyForm
	started bool
	// remaining is the number of bytes that may still be read; negative if there is no limit.
	remaining int64
	release   func()
	cause     func(error) error
	closed    atomic.Bool

	// reading is held by Read. share is the memory for the body; nil if there is none.
	reading sync.Mutex
	share   *bytebudget.Intake
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	n, err := b.from.Read(p)
	if b.remaining >= 0 {
		if b.remaining -= int64(n); b.remaining < 0 {
			return 0, errResponseTooLarge
		}
	}
	if !b.started && n > 0 {
		var wrong error
		if b.started, wrong = b.form.checkStart(p[:n]); wrong != nil {
			return 0, wrong
		}
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
	case errors.Is(err, bytebudget.ErrTooLarge):
		err = errTooMuchToDecode
	case errors.Is(err, bytebudget.ErrExhausted):
		err = helmerr.ErrNoMemory
	default:
		err = b.cause(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	err := b.body.Close()
	if b.closed.CompareAndSwap(false, true) {
		b.release()
		if b.share != nil {
			// The client of a watch may still read. The read ends now, and then uses the share no more.
			b.reading.Lock()
			defer b.reading.Unlock()
			b.share.ReleaseSoon()
		}
	}
	return err
}
