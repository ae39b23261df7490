/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package oci

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// idleConnTimeout keeps connections over a few short requeues, not over an
	// interval.
	idleConnTimeout = 90 * time.Second
	maxHeaderBytes  = 64 << 10
	// maxErrorBody is far above any error list a registry writes.
	maxErrorBody = 16 << 10
	maxRedirects = 5
)

// errStalled says that the other side was silent for the timeout. It wraps
// os.ErrDeadlineExceeded, so it counts as a timeout everywhere.
var errStalled = fmt.Errorf("no progress: %w", os.ErrDeadlineExceeded)

// errDowngrade says that a registry redirected from HTTPS to HTTP.
var errDowngrade = errors.New("redirected from https to http")

// newTransport returns a transport that trusts ca beside the system's
// authorities.
func newTransport(ca []byte) (*http.Transport, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image without authorities is no mistake
	}
	if len(ca) > 0 && !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA bundle holds no PEM certificate")
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// A body that was compressed on the way has no length, and the length is
		// needed to bound manifests.
		DisableCompression: true,
	}, nil
}

// checkRedirect bounds redirects and keeps them from leaving TLS.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errDowngrade
	}
	return nil
}

// exchange collects, for one operation, what the protocol library does not
// hand on. It travels in the context of the operation's requests.
type exchange struct {
	registry string

	mu         sync.Mutex
	notFound   string
	retryAfter time.Duration
}

type exchangeKey struct{}

// withExchange returns a context whose requests are recorded under a registry.
func withExchange(ctx context.Context, registry string) (context.Context, *exchange) {
	x := &exchange{registry: registry}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

func exchangeFrom(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// record notes the wait that a registry asked for and the code of a 404.
func (x *exchange) record(resp *http.Response) {
	wait := retryAfter(resp, time.Now())
	var code string
	if resp.StatusCode == http.StatusNotFound && resp.Request.Method == http.MethodGet {
		code = peekErrorCode(resp)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.retryAfter = wait
	if code != "" {
		x.notFound = code
	}
}

func (x *exchange) outcome() (notFound string, retryAfter time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.notFound, x.retryAfter
}

// peekErrorCode reads the first code of a registry's error list and leaves the
// body readable.
func peekErrorCode(resp *http.Response) string {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(data), resp.Body), Closer: resp.Body}
	var list struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if err != nil || json.Unmarshal(data, &list) != nil || len(list.Errors) == 0 {
		return ""
	}
	return list.Errors[0].Code
}

type peekedBody struct {
	io.Reader
	io.Closer
}

// watchedTransport reports each request to the observer, and cancels those
// that make no progress for the timeout, in their headers or in their body.
type watchedTransport struct {
	base     http.RoundTripper
	timeout  time.Duration
	observer Observer
}

// RoundTrip implements http.RoundTripper.
func (t *watchedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeFrom(req.Context())
	event := RequestEvent{Registry: x.registry, Kind: requestKind(req), Method: req.Method}
	start := time.Now()

	ctx, cancel := context.WithCancel(req.Context())
	watch := &watch{timeout: t.timeout, cancel: cancel}
	watch.timer = time.AfterFunc(t.timeout, watch.stall)
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		watch.stop()
		event.Duration = time.Since(start)
		t.observer.request(event)
		return nil, watch.explain(err)
	}
	watch.timer.Reset(t.timeout)
	event.Status = resp.StatusCode
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: watch, done: func(n int64) {
		event.Bytes, event.Duration = n, time.Since(start)
		t.observer.request(event)
	}}
	x.record(resp)
	return resp, nil
}

// requestKind names what a request is for.
func requestKind(req *http.Request) string {
	path := req.URL.Path
	switch {
	case req.Response != nil: // set by net/http on requests that follow a redirect
		return RequestRedirect
	case !strings.HasPrefix(path, "/v2/"):
		return RequestToken
	case strings.HasSuffix(path, "/tags/list"):
		return RequestTags
	case strings.Contains(path, "/blobs/"):
		return RequestBlob
	case strings.Contains(path, "/manifests/"):
		return RequestManifest
	default:
		return RequestToken
	}
}

// watch cancels a request that stalls.
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

// explain names the stall behind the cancellation it caused.
func (w *watch) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && w.stalled.Load() {
		return errStalled
	}
	return err
}

type watchedBody struct {
	io.ReadCloser
	watch *watch
	read  int64
	done  func(n int64)
	once  sync.Once
}

// Read implements io.Reader and restarts the timer when bytes came.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if n > 0 {
		b.watch.timer.Reset(b.watch.timeout)
	}
	return n, b.watch.explain(err)
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
