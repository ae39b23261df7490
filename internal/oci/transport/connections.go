// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

const (
	dialTimeout = 10 * time.Second
	// idleConnTimeout is how long an idle connection stays open. It is longer than a short requeue, and shorter than an
	// interval of reconciliation.
	idleConnTimeout = 90 * time.Second
	// maxIdleConns is the maximum number of idle connections to a host.
	maxIdleConns   = 8
	maxHeaderBytes = 64 << 10
	// maxBuffer is the most bytes that HTTP/2 buffers for a response that is not read yet. This memory is in no budget.
	maxBuffer    = 1 << 20
	maxRedirects = 5
)

// errDowngrade means that a registry redirected a request from HTTPS to a protocol without TLS.
var errDowngrade = errors.New("redirected from https to a protocol without TLS")

// errRedirects means that a registry sent too many redirects, for example in a loop.
var errRedirects = fmt.Errorf("more than %d redirects", maxRedirects)

// Connections are the connections to registries for one set of certificates and one proxy.
type Connections struct {
	// direct is for requests to the registry in the source's URL. redirected is for redirects to this registry.
	// external is for other hosts, for example the registry's storage. redirected and external refuse the addresses at
	// which a cloud serves secrets of the machine. external sends no client certificate.
	direct, redirected, external *http.Transport
	// strict is true if URLs must not name local addresses.
	strict bool
}

// errLinkLocal means that a registry redirected a request to an address that no storage of a registry has, or that a
// service has such an address.
var errLinkLocal = errors.New("refused a link-local address or another address of a cloud's own services")

// errLocal means that a local address of the manager was refused. A tenant chose the address, or a registry redirected
// a request to it.
var errLocal = dialguard.ErrRefused

// Settings describe connections.
type Settings struct {
	// Authorities are bundles of PEM certificates. They are trusted in addition to the certificates of the system.
	Authorities [][]byte
	// ClientCert and ClientKey are the PEM certificate chain and key for mutual TLS. Set both or none.
	ClientCert, ClientKey []byte
	// Proxy is used for all requests. If it is nil, Environment selects the proxy.
	Proxy       *url.URL
	Environment dialguard.ProxyFunc
	// IsStrict refuses local addresses in the URL, in Proxy and in redirects, see dialguard.IsLocal.
	IsStrict bool
	// IsProxyStrict refuses local addresses in Proxy, also without IsStrict.
	IsProxyStrict bool
}

// NewConnections returns connections with these settings. A connection opens with its first request.
func NewConnections(settings Settings) (*Connections, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a container image without certificates is valid
	}
	if err := addAuthorities(pool, settings.Authorities...); err != nil {
		return nil, err
	}
	certificates, err := clientCertificates(settings)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	guard := &dialguard.Guard{Dialer: dialer, Refuse: dialguard.IsMetadata, Err: errLinkLocal}
	// With Proxy, the manager connects only to this proxy: the check of connections is then the check of the proxy.
	strict := settings.IsStrict || settings.IsProxyStrict && settings.Proxy != nil
	if strict {
		guard.Refuse, guard.Err = dialguard.IsLocal, errLocal
	}
	environment := settings.Environment
	proxy := guard.Trusted(environment)
	if settings.Proxy != nil {
		environment = http.ProxyURL(settings.Proxy)
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
		MaxIdleConnsPerHost:    maxIdleConns,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: maxBuffer},
		// A compressed body has no length, but the length is needed to limit manifests.
		DisableCompression: true,
	}
	redirected := direct.Clone()
	redirected.Proxy, redirected.DialContext = proxy, guard.DialContext
	if strict {
		direct.Proxy, direct.DialContext = proxy, guard.DialContext
	}
	external := redirected.Clone()
	external.TLSClientConfig.Certificates = nil
	return &Connections{direct: direct, redirected: redirected, external: external, strict: settings.IsStrict}, nil
}

// CheckAuthorities returns an error if data is not empty and contains no PEM certificate.
func CheckAuthorities(data []byte) error { return addAuthorities(x509.NewCertPool(), data) }

func addAuthorities(pool *x509.CertPool, bundles ...[]byte) error {
	for _, bundle := range bundles {
		if len(bundle) > 0 && !pool.AppendCertsFromPEM(bundle) {
			return errors.New("the CA bundle holds no PEM certificate")
		}
	}
	return nil
}

// clientCertificates returns the client certificates for mutual TLS.
func clientCertificates(settings Settings) ([]tls.Certificate, error) {
	if len(settings.ClientCert) == 0 && len(settings.ClientKey) == 0 {
		return nil, nil
	}
	if len(settings.ClientCert) == 0 || len(settings.ClientKey) == 0 {
		return nil, errors.New("a client certificate and its key must be given together")
	}
	certificate, err := tls.X509KeyPair(settings.ClientCert, settings.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("the client certificate and its key cannot be used: %w", err)
	}
	return []tls.Certificate{certificate}, nil
}

// Close closes idle connections.
func (t *Connections) Close() {
	t.direct.CloseIdleConnections()
	t.redirected.CloseIdleConnections()
	t.external.CloseIdleConnections()
}

// hostTransport chooses the transport for a request. It uses direct for the registry and the trusted hosts, redirected
// for redirects to these hosts, and external for other hosts. A host with another port is another host.
type hostTransport struct {
	*Connections
	registry string   // host[:port]
	trusted  []string // host or host:port
}

// RoundTrip implements http.RoundTripper.
func (t *hostTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.strict && dialguard.IsLocalName(req.URL.Hostname()) {
		return nil, errLocal // refuse the name here, because a proxy would resolve it
	}
	known := HostPort(req.URL) == HostPort(&url.URL{Scheme: req.URL.Scheme, Host: t.registry}) ||
		isOneOf(req.URL, t.trusted)
	switch {
	case !known:
		return t.external.RoundTrip(req)
	case req.Response != nil: // set by net/http on requests that follow a redirect
		return t.redirected.RoundTrip(req)
	}
	return t.direct.RoundTrip(req)
}

// HostPort returns host:port of a URL, in lower case.
func HostPort(target *url.URL) string {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(target.Hostname()), port)
}

// isOneOf reports whether the host of a URL is in a list. The entries of the list are host or host:port.
func isOneOf(target *url.URL, hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		return strings.EqualFold(target.Host, host) || strings.EqualFold(target.Hostname(), host)
	})
}

// checkRedirect limits the number of redirects, and refuses redirects to a protocol without TLS. Names of forbidden
// addresses are refused later, when the connection opens.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects { // The first request is no redirect.
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
