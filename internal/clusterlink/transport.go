// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/third_party/forked/golang/netutil"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

const (
	// busyIdle is the idle timeout of the busy connection. busyPing is the time without received data after which a
	// response that is awaited counts as late, and a ping is sent. The HTTP/2 client keeps the memory of a connection
	// for busyPing after it was closed.
	busyIdle, busyPing = 10 * time.Second, 10 * time.Second
	// busyKept is the time after its last request for which the transport of the busy connection is kept.
	busyKept = 2 * busyIdle
	// dialTimeout, keepAlive and handshakeTimeout are the values of client-go.
	dialTimeout, keepAlive, handshakeTimeout = 30 * time.Second, 30 * time.Second, 10 * time.Second
	// maxHeaderBytes is the maximum size of the headers of a response. API servers send about 1 kB.
	maxHeaderBytes = 64 << 10
	// steadyBuffer and busyBuffer are the most bytes that HTTP/2 buffers for a response that is not read yet. This memory
	// is in no budget. One buffer for each round trip is sent, so a buffer of 128 KiB still permits 1.3 MB/s at 100 ms,
	// also for the list at the start of a watch. The limit for the whole busy connection stays at 1 GiB, so that a
	// response that is not read does not block others.
	steadyBuffer, busyBuffer = 128 << 10, 1 << 20
	// steadyBuffers is the limit for the whole steady connection: 500 watches may have a buffer each. If a server fills
	// it faster than the events are decoded, the other responses of this Cluster wait. maxWatchConnections is the number
	// of HTTP/2 connections for watches. API servers usually permit 100 requests for each connection. With one request for
	// each, each watch would have a connection with such a limit.
	steadyBuffers, maxWatchConnections = 1 << 20, 16
	// maxIdlePerHost is the value of client-go. It affects only API servers without HTTP/2.
	maxIdlePerHost = 25
)

var errTooManyConnections = fmt.Errorf("the API server permits too few requests for each connection: %d connections "+
	"already have watches", maxWatchConnections)

// errRedirect means that a server sends requests to another server. No API server needs this, and a kubeconfig must not
// be able to make the manager send requests to other servers in its network.
var errRedirect = errors.New("the API server redirects the request to another server, which HelmOp does not follow")

// connections are the two connections to one API server. A connection keeps the largest buffers that it ever needed: 16
// kB each for TLS records and HTTP/2 frames, and more after one large response. So small and long-lasting responses
// have their own connection with small buffers. The other connection is closed soon after an action.
type connections struct {
	// steady is for probes, watches and reads of metadata.
	steady *http.Transport
	// newBusy returns a transport for all other requests.
	newBusy func() *http.Transport
	pulse   *pulse

	mu sync.Mutex
	// busy is the last result of newBusy, and busyUsed is the time of its last request. busy is nil if there was none
	// within busyKept: a transport takes some kilobytes, also without a connection.
	busy     *http.Transport
	busyUsed time.Time
	// watching has the number of open watches of each HTTP/2 connection. All responses of a connection share its TLS
	// state.
	watching map[*tls.ConnectionState]int
}

// newConnections returns the connections to the API server of a config, without credentials. It sends no request. With
// refuseLocal, it rejects API servers and proxies at addresses of this machine. signs records the signs of life that
// arrive on the steady connection.
func newConnections(settings *clienttransport.Config, refuseLocal bool, signs *pulse) (*connections, error) {
	secured, err := clienttransport.TLSConfigFor(settings)
	if err != nil {
		return nil, err
	}
	if secured == nil {
		secured = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	// The second connection resumes the TLS session of the first. This needs no signatures and no certificates.
	secured.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	if identify := secured.GetClientCertificate; identify != nil {
		// The function of client-go keeps the texts of the certificate, and its parsed form. A handshake needs only its
		// bytes and the key.
		identity, err := identify(nil)
		if err != nil {
			return nil, err
		}
		unparsed := *identity
		unparsed.Leaf = nil
		secured.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &unparsed, nil }
	}
	// The settings have the texts of the kubeconfig. So newBusy must not keep them.
	proxy, uncompressed := settings.Proxy, settings.DisableCompression
	r := &connections{
		steady: newTransport(proxy, uncompressed, secured, refuseLocal),
		newBusy: func() *http.Transport {
			busy := newTransport(proxy, uncompressed, secured.Clone(), refuseLocal)
			busy.HTTP2.MaxReceiveBufferPerStream = busyBuffer
			busy.IdleConnTimeout, busy.HTTP2.SendPingTimeout = busyIdle, busyPing
			return busy
		},
		pulse: signs, watching: map[*tls.ConnectionState]int{},
	}
	r.steady.DialContext = signs.watched(r.steady.DialContext)
	r.steady.HTTP2.MaxReceiveBufferPerStream = steadyBuffer
	r.steady.HTTP2.MaxReceiveBufferPerConnection = steadyBuffers
	r.steady.HTTP2.SendPingTimeout, r.steady.HTTP2.PingTimeout = pingInterval, pingTimeout
	return r, nil
}

// newTransport returns client-go's transport, without tables for header compression. The headers of responses always
// differ, so the tables would take kilobytes to save some bytes. proxy is nil for the proxy of the environment.
func newTransport(proxy func(*http.Request) (*url.URL, error), uncompressed bool, secured *tls.Config, refuseLocal bool,
) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	guard := &dialguard.Guard{Dialer: dialer, Refuse: dialguard.IsLocal}
	dial := dialer.DialContext
	if proxy == nil {
		proxy = guard.Trusted(http.ProxyFromEnvironment)
	}
	if refuseLocal {
		dial = guard.DialContext
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy:                  proxy,
		TLSHandshakeTimeout:    handshakeTimeout,
		TLSClientConfig:        secured,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DialContext:            dial,
		DisableCompression:     uncompressed,
		HTTP2:                  &http.HTTP2Config{MaxDecoderHeaderTableSize: 1, MaxEncoderHeaderTableSize: 1},
	})
}

// RoundTrip implements http.RoundTripper.
func (r *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	way := r.steady
	if !isSmall(req) {
		way = r.useBusy()
	}
	resp, err := way.RoundTrip(req)
	if err == nil && redirectsAway(req, resp) {
		resp, err = nil, errors.Join(errRedirect, resp.Body.Close())
	}
	r.pulse.check(req, resp, err)
	if err == nil && resp.StatusCode == http.StatusOK && isWatch(req) {
		return r.openWatch(resp)
	}
	return resp, err
}

// useBusy returns the transport of the busy connection for one request.
func (r *connections) useBusy() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy = r.newBusy()
		time.AfterFunc(busyKept, r.endBusy)
	}
	r.busyUsed = time.Now()
	return r.busy
}

// endBusy drops the transport of the busy connection if no request has used it for busyKept. A request that still runs
// keeps its connection.
func (r *connections) endBusy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rest := busyKept - time.Since(r.busyUsed); rest > 0 {
		time.AfterFunc(rest, r.endBusy)
		return
	}
	r.busy.CloseIdleConnections()
	r.busy = nil
}

// redirectsAway reports whether a response is a redirect to another server. http.Client would send the request with
// its body there, and the credentials, because the transport adds them to each request.
func redirectsAway(req *http.Request, resp *http.Response) bool {
	location := resp.Header.Get("Location")
	if location == "" || resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode >= http.StatusBadRequest {
		return false
	}
	target, err := req.URL.Parse(location)
	return err != nil || target.Scheme != req.URL.Scheme ||
		!strings.EqualFold(netutil.CanonicalAddr(target), netutil.CanonicalAddr(req.URL))
}

// openWatch counts an open watch until its body is closed. The data that the watch receives are signs of life.
func (r *connections) openWatch(resp *http.Response) (*http.Response, error) {
	body := &watchBody{ReadCloser: resp.Body, from: r}
	if resp.ProtoMajor > 1 && resp.TLS != nil {
		if !r.addWatch(resp.TLS) {
			return nil, errors.Join(errTooManyConnections, resp.Body.Close())
		}
		body.connection = resp.TLS
	}
	resp.Body = body
	return resp, nil
}

// addWatch counts a watch of a connection. It returns false if too many other connections have watches.
func (r *connections) addWatch(connection *tls.ConnectionState) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watching[connection] == 0 && len(r.watching) >= maxWatchConnections {
		return false
	}
	r.watching[connection]++
	return true
}

// removeWatch ends the count of a watch.
func (r *connections) removeWatch(connection *tls.ConnectionState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watching[connection]--; r.watching[connection] == 0 {
		delete(r.watching, connection)
	}
}

// watchBody is the body of the response to a watch.
type watchBody struct {
	io.ReadCloser
	from *connections
	// connection is the HTTP/2 connection of the watch; nil for HTTP/1.
	connection *tls.ConnectionState
	closed     atomic.Bool
}

// Read implements io.Reader.
func (b *watchBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if n > 0 {
		b.from.pulse.recordServed()
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	err := b.ReadCloser.Close()
	if b.connection != nil && b.closed.CompareAndSwap(false, true) {
		b.from.removeWatch(b.connection)
	}
	return err
}

// CloseIdleConnections closes unused connections.
func (r *connections) CloseIdleConnections() {
	r.steady.CloseIdleConnections()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy != nil {
		r.busy.CloseIdleConnections()
	}
}

// isSmall reports whether the response has only small parts: a probe, a watch or metadata.
func isSmall(req *http.Request) bool {
	if req.Method != http.MethodGet || req.Body != nil && req.Body != http.NoBody {
		return false
	}
	accept := req.Header.Get("Accept")
	return accept == "" || strings.Contains(accept, "as=PartialObjectMetadata") || isWatch(req)
}

func isWatch(req *http.Request) bool { return strings.Contains(req.URL.RawQuery, "watch=true") }

// withTransport returns a config for the same server and the same identity as another config. Its transport has the TLS
// settings and the credentials, so the texts of the kubeconfig are not kept. signs receives the signs of life of the
// server.
func withTransport(config *rest.Config, refuseLocal bool, signs *pulse) (*rest.Config, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	if refuseLocal && settings.Proxy == nil && dialguard.IsLocalName(server.Hostname()) {
		return nil, dialguard.ErrRefused // The dialer sees only the address of a proxy in the environment.
	}
	transports, err := newConnections(settings, refuseLocal, signs)
	if err != nil {
		return nil, err
	}
	transport, err := clienttransport.HTTPWrappersForConfig(settings, transports)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: server.String(), Transport: transport, UserAgent: config.UserAgent, Timeout: config.Timeout},
		nil
}
