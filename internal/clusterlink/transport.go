// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

const (
	// busyIdle is how long the connection for whatever is large stays when nothing uses it.
	busyIdle = 20 * time.Second
	// dialTimeout, keepAlive and handshakeTimeout are those of client-go.
	dialTimeout, keepAlive, handshakeTimeout = 30 * time.Second, 30 * time.Second, 10 * time.Second
	// maxIdlePerHost is that of client-go; it matters where an API server has no HTTP/2.
	maxIdlePerHost = 25
)

// roads are the two connections to one API server. A connection keeps the largest buffers that it ever needed: 16 kB
// each for TLS records and HTTP/2 frames, and more after a single large response. So long-lived, small responses have a
// connection of their own, which stays small. The other one closes soon after an action.
type roads struct {
	// steady is for probes, watches and reads of metadata, busy for everything else.
	steady, busy *http.Transport
}

// newRoads returns the connections to the API server of a config, without credentials. It sends no request. With
// refuseLocal, it rejects API servers and proxies at addresses of this machine.
func newRoads(settings *clienttransport.Config, refuseLocal bool) (*roads, error) {
	secured, err := clienttransport.TLSConfigFor(settings)
	if err != nil {
		return nil, err
	}
	if secured == nil {
		secured = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	// The second connection takes up the session of the first: no signatures, no certificates.
	secured.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	if identify := secured.GetClientCertificate; identify != nil {
		// It keeps the texts that the certificate was read from.
		certificate, err := identify(nil)
		if err != nil {
			return nil, err
		}
		secured.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	r := &roads{steady: newRoad(settings, secured, refuseLocal), busy: newRoad(settings, secured.Clone(), refuseLocal)}
	r.busy.IdleConnTimeout = busyIdle
	return r, nil
}

// newRoad returns client-go's transport for a config, without header compression tables: the headers of responses
// always differ, so the tables would cost kilobytes to save some bytes.
func newRoad(settings *clienttransport.Config, secured *tls.Config, refuseLocal bool) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	guard := &dialguard.Guard{Dialer: dialer, Refuse: dialguard.IsLocal}
	proxy, dial := guard.Trusted(http.ProxyFromEnvironment), dialer.DialContext
	if settings.Proxy != nil {
		proxy = settings.Proxy
	}
	if refuseLocal {
		dial = guard.DialContext
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               proxy,
		TLSHandshakeTimeout: handshakeTimeout,
		TLSClientConfig:     secured,
		MaxIdleConnsPerHost: maxIdlePerHost,
		DialContext:         dial,
		DisableCompression:  settings.DisableCompression,
		HTTP2:               &http.HTTP2Config{MaxDecoderHeaderTableSize: 1, MaxEncoderHeaderTableSize: 1},
	})
}

// RoundTrip implements http.RoundTripper.
func (r *roads) RoundTrip(req *http.Request) (*http.Response, error) {
	if isSmall(req) {
		return r.steady.RoundTrip(req)
	}
	return r.busy.RoundTrip(req)
}

// CloseIdleConnections closes unused connections.
func (r *roads) CloseIdleConnections() {
	r.steady.CloseIdleConnections()
	r.busy.CloseIdleConnections()
}

// isSmall reports whether the response comes in small pieces: a probe, a watch or metadata.
func isSmall(req *http.Request) bool {
	if req.Method != http.MethodGet || req.Body != nil && req.Body != http.NoBody {
		return false
	}
	accept := req.Header.Get("Accept")
	return accept == "" || strings.Contains(accept, "as=PartialObjectMetadata") ||
		strings.Contains(req.URL.RawQuery, "watch=true")
}

// wayTo returns a config that sends requests to the same server with the same identity as another config. TLS and
// credentials are in its transport: the texts of the kubeconfig are not kept.
func wayTo(config *rest.Config, refuseLocal bool) (*rest.Config, error) {
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	way, err := newRoads(settings, refuseLocal)
	if err != nil {
		return nil, err
	}
	transport, err := clienttransport.HTTPWrappersForConfig(settings, way)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: url.String(), Transport: transport, UserAgent: config.UserAgent, Timeout: config.Timeout},
		nil
}
