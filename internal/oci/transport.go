// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

const (
	dialTimeout = 10 * time.Second
	// idleConnTimeout keeps connections over a few short requeues, not over an
	// interval.
	idleConnTimeout = 90 * time.Second
	maxHeaderBytes  = 64 << 10
	maxRedirects    = 5
)

// errStalled says that the other side was silent for the timeout. It wraps
// os.ErrDeadlineExceeded, so it counts as a timeout everywhere.
var errStalled = fmt.Errorf("no progress: %w", os.ErrDeadlineExceeded)

// errDowngrade says that a registry redirected from HTTPS to something else.
var errDowngrade = errors.New("redirected from https to a protocol without TLS")

// errRedirects says that a registry redirected in a circle, or nearly.
var errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)

// transports are the connections to registries that are reached the same way.
type transports struct {
	// home goes to registries as their URLs say. back goes to them where they send
	// us, and away elsewhere, to their storage for example: neither reaches addresses
	// where clouds answer with the secrets of the machine, and away shows no client
	// certificate.
	home, back, away *http.Transport
	// strict says that none of them reaches addresses of this machine.
	strict bool
}

// errLinkLocal says that a registry sent us where no registry has its storage.
var errLinkLocal = errors.New("refused a redirect to a link-local address or another address of a cloud's own services")

// errLocal says that a tenant named an address that is the manager's own, or a registry sent us there.
var errLocal = dialguard.ErrRefused

// newTransports returns connections as an Access has them. authorities are
// trusted beside the system's and those of the Access, environment says which
// proxy to use if the Access names none.
// strict refuses the addresses that dialguard.IsLocal tells, wherever they come from: the URL, the proxy of the Access,
// redirects.
func newTransports(access Access, authorities []byte, environment dialguard.ProxyFunc,
	strict bool,
) (*transports, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image without authorities is no mistake
	}
	if err := addAuthorities(pool, authorities, access.CA); err != nil {
		return nil, err
	}
	certificates, err := clientCertificates(access)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	guard := &dialguard.Guard{Dialer: dialer, Refuse: dialguard.IsMetadata, Err: errLinkLocal}
	if strict {
		guard.Refuse, guard.Err = dialguard.IsLocal, errLocal
	}
	proxy := guard.Trusted(environment)
	if access.Proxy != nil {
		address, err := access.Proxy.url()
		if err != nil {
			return nil, err
		}
		environment = http.ProxyURL(address)
		if proxy = guard.Trusted(environment); strict {
			proxy = environment
		}
	}
	home := &http.Transport{
		Proxy:                  environment,
		OnProxyConnectResponse: checkConnect,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    defaultMaxRequests,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// A body that was compressed on the way has no length, and the length is
		// needed to bound manifests.
		DisableCompression: true,
	}
	back := home.Clone()
	back.Proxy, back.DialContext = proxy, guard.DialContext
	if strict {
		home.Proxy, home.DialContext = proxy, guard.DialContext
	}
	away := back.Clone()
	away.TLSClientConfig.Certificates = nil
	return &transports{home: home, back: back, away: away, strict: strict}, nil
}

func addAuthorities(pool *x509.CertPool, bundles ...[]byte) error {
	for _, bundle := range bundles {
		if len(bundle) > 0 && !pool.AppendCertsFromPEM(bundle) {
			return errors.New("the CA bundle holds no PEM certificate")
		}
	}
	return nil
}

// clientCertificates returns what registries with mutual TLS are shown.
func clientCertificates(access Access) ([]tls.Certificate, error) {
	if len(access.ClientCert) == 0 && len(access.ClientKey) == 0 {
		return nil, nil
	}
	if len(access.ClientCert) == 0 || len(access.ClientKey) == 0 {
		return nil, errors.New("a client certificate and its key must be given together")
	}
	certificate, err := tls.X509KeyPair(access.ClientCert, access.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("the client certificate and its key cannot be used: %w", err)
	}
	return []tls.Certificate{certificate}, nil
}

func (t *transports) close() {
	t.home.CloseIdleConnections()
	t.back.CloseIdleConnections()
	t.away.CloseIdleConnections()
}

// homeTransport sends requests to the registry, and to the hosts that are trusted
// as much, from home, and where answers lead from back or away. Another port of
// the registry's host is another server.
type homeTransport struct {
	*transports
	registry string   // host[:port]
	trusted  []string // host or host:port
}

// RoundTrip implements http.RoundTripper.
func (t *homeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.strict && dialguard.IsLocalName(req.URL.Hostname()) {
		return nil, errLocal // a proxy would go there
	}
	known := hostPort(req.URL) == hostPort(&url.URL{Scheme: req.URL.Scheme, Host: t.registry}) ||
		isOneOf(req.URL, t.trusted)
	switch {
	case !known:
		return t.away.RoundTrip(req)
	case req.Response != nil: // set by net/http on requests that follow a redirect
		return t.back.RoundTrip(req)
	}
	return t.home.RoundTrip(req)
}

// hostPort is the host of an URL in lower case with its port.
func hostPort(target *url.URL) string {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(target.Hostname()), port)
}

// isOneOf says whether an URL's host is in a list of host or host:port.
func isOneOf(target *url.URL, hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		return strings.EqualFold(target.Host, host) || strings.EqualFold(target.Hostname(), host)
	})
}

// checkRedirect bounds redirects and keeps them from leaving TLS. Names that lead
// to forbidden addresses are found when they are dialled.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errDowngrade
	}
	if address, err := netip.ParseAddr(req.URL.Hostname()); err == nil && dialguard.IsMetadata(address) {
		return errLinkLocal
	}
	return nil
}

// watchedTransport reports each request to the observer, and cancels those
// that make no progress for the timeout, in their headers or in their body.
type watchedTransport struct {
	base     http.RoundTripper
	timeout  time.Duration
	observer Observer
	// registry is the host that is asked, under which its requests are reported.
	registry string
	// bytes is what answers take their share of, but for blobs, which go to the store.
	bytes *bytebudget.Budget
}

// RoundTrip implements http.RoundTripper.
func (t *watchedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	event := RequestEvent{Registry: t.registry, Kind: requestKind(req), Method: req.Method}
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
		t.observer.request(event)
		return nil, watch.explain(err)
	}
	watch.timer.Reset(t.timeout)
	event.Status = resp.StatusCode
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: watch, done: func(n int64) {
		event.Bytes, event.Duration = n, time.Since(start)
		t.observer.request(event)
	}}
	if event.Kind != RequestBlob && event.Kind != RequestRedirect {
		resp.Body = newSharedBody(req.Context(), resp, t.bytes,
			bytebudget.Owner{Tenant: tenantOf(req.Context()), Host: t.registry})
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		_ = resp.Body.Close() // of a proxy: no registry may answer so
		return nil, proxyAnswer(resp.StatusCode)
	}
	exchangeFrom(req.Context()).record(resp)
	return resp, nil
}

// sharedBody is an answer that takes its share of the memory for all of them.
type sharedBody struct {
	io.Reader
	body   io.Closer
	intake *bytebudget.Intake
}

func newSharedBody(ctx context.Context, resp *http.Response, budget *bytebudget.Budget,
	owner bytebudget.Owner,
) *sharedBody {
	intake := bytebudget.NewIntake(budget, owner, resp.Header.Get("Content-Type"), resp.ContentLength)
	return &sharedBody{Reader: bytebudget.NewReader(ctx, resp.Body, intake), body: resp.Body, intake: intake}
}

// Close implements io.Closer.
func (b *sharedBody) Close() error {
	b.intake.ReleaseSoon()
	return b.body.Close()
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
	case strings.Contains(path, "/referrers/"):
		return RequestReferrers
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

// sendingBody restarts the timer as long as the other side takes what it is sent.
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

// Read implements io.Reader and restarts the timer when bytes came.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if n > 0 {
		b.watch.timer.Reset(b.watch.timeout)
	}
	return n, b.watch.explain(brokenOff(err))
}

// brokenOff names a body that the other side broke off as net/http does for
// HTTP/1: HTTP/2 has errors of its own for it.
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
