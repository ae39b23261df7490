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
	// idleConnTimeout keeps connections between a few short requeues, but not over an interval of
	// reconciliation.
	idleConnTimeout = 90 * time.Second
	maxHeaderBytes  = 64 << 10
	maxRedirects    = 5
)

// errStalled means that the other side sent nothing for the timeout. It wraps
// os.ErrDeadlineExceeded, so it counts as a timeout everywhere.
var errStalled = fmt.Errorf("no progress: %w", os.ErrDeadlineExceeded)

// errDowngrade means that a registry redirected from HTTPS to a protocol without TLS.
var errDowngrade = errors.New("redirected from https to a protocol without TLS")

// errRedirects means that a registry sent too many redirects, for example in a loop.
var errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)

// transports are the connections to registries with the same certificates and proxy.
type transports struct {
	// direct is for requests to the registry in the source's URL. redirected is for redirects to the
	// registry, and external for other hosts, for example the registry's storage. redirected and
	// external refuse addresses where clouds serve the machine's secrets. external sends no client
	// certificate.
	direct, redirected, external *http.Transport
	// strict is set if all transports refuse local addresses.
	strict bool
}

// errLinkLocal means that a registry redirected to an address where no registry has its storage.
var errLinkLocal = errors.New("refused a redirect to a link-local address or another address of a cloud's own services")

// errLocal means that a tenant chose, or a registry redirected to, a local address of the manager.
var errLocal = dialguard.ErrRefused

// newTransports returns the connections for an Access. authorities are trusted in addition to the
// system's and the Access's. environment selects the proxy if the Access has none. strict refuses
// local addresses, see dialguard.IsLocal, whether they come from the URL, the proxy of the Access,
// or a redirect.
func newTransports(access Access, authorities []byte, environment dialguard.ProxyFunc,
	strict bool,
) (*transports, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image without authorities is valid
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
		address, err := access.Proxy.URL()
		if err != nil {
			return nil, err
		}
		environment = http.ProxyURL(address)
		if proxy = guard.Trusted(environment); strict {
			proxy = environment
		}
	}
	direct := &http.Transport{
		Proxy:                  environment,
		OnProxyConnectResponse: checkConnect,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    defaultMaxRequests,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// A compressed body has no length, and the length is needed to bound manifests.
		DisableCompression: true,
	}
	redirected := direct.Clone()
	redirected.Proxy, redirected.DialContext = proxy, guard.DialContext
	if strict {
		direct.Proxy, direct.DialContext = proxy, guard.DialContext
	}
	external := redirected.Clone()
	external.TLSClientConfig.Certificates = nil
	return &transports{direct: direct, redirected: redirected, external: external, strict: strict}, nil
}

func addAuthorities(pool *x509.CertPool, bundles ...[]byte) error {
	for _, bundle := range bundles {
		if len(bundle) > 0 && !pool.AppendCertsFromPEM(bundle) {
			return errors.New("the CA bundle holds no PEM certificate")
		}
	}
	return nil
}

// clientCertificates returns the client certificates for registries with mutual TLS.
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
	t.direct.CloseIdleConnections()
	t.redirected.CloseIdleConnections()
	t.external.CloseIdleConnections()
}

// hostTransport uses the direct transport for the registry and the trusted hosts, and the
// redirected or external transport for redirects and other hosts. Another port of the registry's
// host is another host.
type hostTransport struct {
	*transports
	registry string   // host[:port]
	trusted  []string // host or host:port
}

// RoundTrip implements http.RoundTripper.
func (t *hostTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.strict && dialguard.IsLocalName(req.URL.Hostname()) {
		return nil, errLocal // a proxy would resolve and reach the name
	}
	known := hostPort(req.URL) == hostPort(&url.URL{Scheme: req.URL.Scheme, Host: t.registry}) ||
		isOneOf(req.URL, t.trusted)
	switch {
	case !known:
		return t.external.RoundTrip(req)
	case req.Response != nil: // set by net/http on requests that follow a redirect
		return t.redirected.RoundTrip(req)
	}
	return t.direct.RoundTrip(req)
}

// hostPort returns the host of a URL in lower case with its port.
func hostPort(target *url.URL) string {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(target.Hostname()), port)
}

// isOneOf reports whether the host of a URL is in a list of host or host:port.
func isOneOf(target *url.URL, hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		return strings.EqualFold(target.Host, host) || strings.EqualFold(target.Hostname(), host)
	})
}

// checkRedirect bounds the number of redirects, and refuses redirects out of TLS. Names that
// resolve to forbidden addresses are refused when they are dialed.
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

// watchedTransport reports each request to the observer. It cancels requests whose headers or body
// make no progress for the timeout.
type watchedTransport struct {
	base     http.RoundTripper
	timeout  time.Duration
	observer Observer
	// registry is the host under which requests are reported.
	registry string
	// bytes is the memory budget of all answers. Blobs and indexes are not included, because they are
	// not read into memory as a whole.
	bytes *bytebudget.Budget
	// kindOf returns the kind of a request for RequestEvent.
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
		t.observer.request(event)
		return nil, watch.explain(err)
	}
	watch.timer.Reset(t.timeout)
	event.Status = resp.StatusCode
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: watch, done: func(n int64) {
		event.Bytes, event.Duration = n, time.Since(start)
		t.observer.request(event)
	}}
	switch event.Kind {
	case RequestBlob, RequestIndex, RequestRedirect:
	default:
		resp.Body = newSharedBody(req.Context(), resp, t.bytes,
			bytebudget.Owner{Tenant: tenantOf(req.Context()), Host: t.registry})
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		_ = resp.Body.Close() // only proxies send this status
		return nil, proxyAnswer(resp.StatusCode)
	}
	exchangeFrom(req.Context()).record(resp)
	return resp, nil
}

// sharedBody is the body of an answer that counts against the shared memory budget.
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

// requestKind returns the kind of a request to a registry for RequestEvent.
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

// explain returns errStalled for an error that the watch caused by its cancellation.
func (w *watch) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && w.stalled.Load() {
		return errStalled
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

// brokenOff returns io.ErrUnexpectedEOF for a body that the other side broke off, as net/http does
// for HTTP/1. HTTP/2 has other errors for it.
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
