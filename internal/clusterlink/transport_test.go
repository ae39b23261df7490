// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

// apiServer records the source address and the protocol of each request, and the open connections.
type apiServer struct {
	*httptest.Server

	mu      sync.Mutex
	open    map[string]bool
	resumed map[string]bool
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{open: map[string]bool{}, resumed: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.resumed[r.RemoteAddr] = r.TLS.DidResume
		s.mu.Unlock()
		_, _ = io.WriteString(w, r.Proto+" "+r.RemoteAddr)
	}))
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[conn.RemoteAddr().String()] = state != http.StateClosed
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) isOpen(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[address]
}

func (s *apiServer) hasResumed(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed[address]
}

// way returns the connections to the server.
func (s *apiServer) way(t *testing.T) *connections {
	t.Helper()
	settings, err := (&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}).TransportConfig()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newConnections(settings, false, newPulse())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.CloseIdleConnections)
	return r
}

// ask sends a request and returns its source address.
func ask(t *testing.T, way http.RoundTripper, req *http.Request) string {
	t.Helper()
	resp, err := way.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	proto, address, _ := strings.Cut(string(data), " ")
	if proto != "HTTP/2.0" {
		t.Errorf("it speaks %s", proto)
	}
	return address
}

func request(t *testing.T, method, url, accept string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return req
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestLargeResponsesUseSeparateConnection checks that a connection with large buffers is closed, and that the next one
// needs no full TLS handshake.
func TestLargeResponsesUseSeparateConnection(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	way := server.way(t)
	way.useBusy().IdleConnTimeout = 100 * time.Millisecond
	steady := ask(t, way, request(t, http.MethodGet, server.URL+"/version", ""))
	busy := ask(t, way, request(t, http.MethodGet, server.URL+"/api/v1/secrets", "application/json"))
	if steady == busy {
		t.Fatal("there is one connection")
	}
	if server.hasResumed(steady) || !server.hasResumed(busy) {
		t.Error("the second connection does not take up the session of the first")
	}
	eventually(t, "the second connection ends", func() bool { return !server.isOpen(busy) })
	if again := ask(t, way, request(t, http.MethodGet, server.URL+"/version", "")); again != steady {
		t.Error("the first one ended, too")
	}
	if again := ask(t, way, request(t, http.MethodPatch, server.URL+"/api/v1/secrets",
		"application/json")); again == steady {
		t.Error("a write uses the first connection")
	}
}

// TestClientCertificateIsNotParsed checks that a link does not keep the parsed form of its client certificate, and that
// it identifies itself on both connections.
func TestClientCertificateIsNotParsed(t *testing.T) {
	t.Parallel()
	certificate, key, err := cert.GenerateSelfSignedCertKey("client", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		var identities atomic.Int32
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.TLS.Version == version && r.TLS.PeerCertificates[0].Subject.CommonName != "" {
				identities.Add(1)
			}
		}))
		server.EnableHTTP2 = true
		server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}
		server.StartTLS()
		t.Cleanup(server.Close)
		settings, err := (&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true,
			CertData: certificate, KeyData: key}}).TransportConfig()
		if err != nil {
			t.Fatal(err)
		}
		way, err := newConnections(settings, false, newPulse())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(way.CloseIdleConnections)
		for _, accept := range []string{"", "application/json"} {
			resp, err := way.RoundTrip(request(t, http.MethodGet, server.URL, accept))
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if got := identities.Load(); got != 2 {
			t.Errorf("TLS version %x: %d of 2 requests have the certificate", version, got)
		}
		kept, err := way.steady.TLSClientConfig.GetClientCertificate(nil)
		if err != nil || kept.Leaf != nil || len(kept.Certificate) == 0 {
			t.Errorf("TLS version %x: the connection keeps %v, %v", version, kept.Leaf, err)
		}
	}
}

// TestUnusedTransportIsDropped checks that the transport for large responses exists only while it is used, and that a
// request that still runs keeps its connection.
func TestUnusedTransportIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newWire()
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			time.Sleep(3 * busyKept)
			_, _ = io.WriteString(w, "end")
		}))
		_ = server.Listener.Close()
		server.Listener, server.EnableHTTP2 = network, true
		server.StartTLS()
		defer server.Close()
		defer network.cut()
		way := (&apiServer{Server: server}).way(t)
		newBusy := way.newBusy
		way.newBusy = func() *http.Transport {
			busy := newBusy()
			busy.DialContext = network.dial
			return busy
		}
		kept := func() *http.Transport {
			way.mu.Lock()
			defer way.mu.Unlock()
			return way.busy
		}
		if kept() != nil {
			t.Error("a transport exists before the first request")
		}
		resp, err := way.RoundTrip(request(t, http.MethodGet, server.URL, "application/json"))
		if err != nil {
			t.Fatal(err)
		}
		first := kept()
		time.Sleep(busyKept - time.Second)
		if way.useBusy() != first {
			t.Error("the second request has another transport")
		}
		time.Sleep(busyKept - time.Second)
		synctest.Wait()
		if kept() != first {
			t.Error("the transport is dropped too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if kept() != nil {
			t.Error("the unused transport is kept")
		}
		if data, err := io.ReadAll(resp.Body); err != nil || string(data) != "end" {
			t.Errorf("the request that runs receives %q, %v", data, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		way.CloseIdleConnections()
		if way.useBusy() == nil {
			t.Error("there is no transport for the next request")
		}
		time.Sleep(busyKept + busyIdle)
	})
}

// TestClosedLinkClosesConnections checks that a closed link closes its connections although other transports wrap its
// transport.
func TestClosedLinkClosesConnections(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	config, err := withTransport(&rest.Config{Host: server.URL, UserAgent: "test", BearerToken: "t",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, false, newPulse())
	if err != nil {
		t.Fatal(err)
	}
	host := &http.Client{Transport: config.Transport}
	if err := askVersion(t.Context(), host, config); err != nil {
		t.Fatal(err)
	}
	address := ask(t, config.Transport, request(t, http.MethodGet, server.URL+"/version", ""))
	known := &link{config: config, client: host}
	known.downLocked()
	eventually(t, "the connection ends", func() bool { return !server.isOpen(address) })
}

// TestFailedProbeClosesConnection checks that a failed probe closes the connection, so that the next attempt may reach
// another API server.
func TestFailedProbeClosesConnection(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	insecure := rest.TLSClientConfig{Insecure: true}
	config, err := withTransport(&rest.Config{Host: server.URL, TLSClientConfig: insecure}, false, newPulse())
	if err != nil {
		t.Fatal(err)
	}
	host := &http.Client{Transport: config.Transport}
	links := New(Options{})
	address := ask(t, config.Transport, request(t, http.MethodGet, server.URL+"/version", ""))
	if err := links.try(t.Context(), host, config); err != nil || !server.isOpen(address) {
		t.Fatalf("after a probe that succeeds: %v, open: %t", err, server.isOpen(address))
	}
	links.probe = func(context.Context, *http.Client, *rest.Config) error { return errors.New("it hangs") }
	if err := links.try(t.Context(), host, config); err == nil {
		t.Error("it succeeded")
	}
	eventually(t, "the connection ends", func() bool { return !server.isOpen(address) })
}

func TestIsSmall(t *testing.T) {
	t.Parallel()
	const metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for name, test := range map[string]struct {
		method, query, accept string
		want                  bool
	}{
		"a probe":              {http.MethodGet, "", "", true},
		"a watch":              {http.MethodGet, "?watch=true", "application/json", true},
		"metadata":             {http.MethodGet, "", metadata, true},
		"an object":            {http.MethodGet, "", "application/json", false},
		"a list":               {http.MethodGet, "?limit=500", "application/json", false},
		"a write for metadata": {http.MethodPatch, "", metadata, false},
	} {
		if got := isSmall(request(t, test.method, "https://server/path"+test.query, test.accept)); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLocalAddressesAreRefused checks that local addresses of API servers and proxies in a kubeconfig are refused,
// unless an option permits them. An address in the URL is refused without a connection, because a proxy in the
// environment of the manager would connect to it.
func TestLocalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	local, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	insecure := rest.TLSClientConfig{Insecure: true}
	if _, err := withTransport(&rest.Config{Host: server.URL, TLSClientConfig: insecure}, false, newPulse()); err != nil {
		t.Errorf("a permitted address: %v", err)
	}
	for _, host := range []string{server.URL, "https://localhost:6443", "https://169.254.169.254", "https://[::1]/path"} {
		config := &rest.Config{Host: host, TLSClientConfig: insecure}
		if _, err := withTransport(config, true, newPulse()); !errors.Is(err, dialguard.ErrRefused) {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, refuse := range []bool{false, true} {
		// The proxy of a kubeconfig may have a network of its own.
		config, err := withTransport(&rest.Config{Host: "https://127.0.0.1", TLSClientConfig: insecure,
			Proxy: http.ProxyURL(local)}, refuse, newPulse())
		if err != nil {
			t.Fatal(err)
		}
		err = askVersion(t.Context(), &http.Client{Transport: config.Transport}, config)
		if err == nil || errors.Is(err, dialguard.ErrRefused) != refuse {
			t.Errorf("a local proxy, refused %t: %v", refuse, err)
		}
	}
}

// TestServerCannotFillBuffers checks how much of a response is buffered before it is read, and that other responses
// still arrive.
func TestServerCannotFillBuffers(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("headers"):
			w.Header().Set("X-Large", strings.Repeat("a", 2*maxHeaderBytes))
		case r.URL.Query().Has("fill"):
			control, total := http.NewResponseController(w), 0
			for {
				n, err := w.Write(make([]byte, 4<<10))
				if total += n; err == nil {
					err = errors.Join(control.SetWriteDeadline(time.Now().Add(time.Second)), control.Flush())
				}
				if err != nil {
					sent <- total
					return
				}
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	way := (&apiServer{Server: server}).way(t)
	for path, limit := range map[string]int{"/a?watch=true": steadyBuffer, "/a": busyBuffer} {
		accept, query := "", "&"
		if limit == busyBuffer {
			accept, query = "application/json", "?"
		}
		filled, err := way.RoundTrip(request(t, http.MethodGet, server.URL+path+query+"fill", accept))
		if err != nil {
			t.Fatal(err)
		}
		other, err := way.RoundTrip(request(t, http.MethodGet, server.URL+path, accept))
		if err != nil {
			t.Fatal(err)
		}
		if got := <-sent; got == 0 || got > limit+limit/2 { // On a full machine, the server may stop before the limit.
			t.Errorf("%s: the server has sent %d bytes", path, got)
		}
		if resp, err := way.RoundTrip(request(t, http.MethodGet, server.URL+path+query+"headers", accept)); err == nil {
			t.Errorf("%s: headers of any size arrived", path)
			_ = resp.Body.Close()
		}
		if err := errors.Join(filled.Body.Close(), other.Body.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestServerCannotFillBuffersOfManyWatches checks how much of all watches of a connection is buffered.
func TestServerCannotFillBuffersOfManyWatches(t *testing.T) {
	t.Parallel()
	const watches = 4 * steadyBuffers / steadyBuffer
	sent := make(chan int, watches)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		total := 0
		defer func() { sent <- total }()
		for control := http.NewResponseController(w); ; {
			n, err := w.Write(make([]byte, 1<<10))
			total += n
			if err := errors.Join(err, control.SetWriteDeadline(time.Now().Add(time.Second)), control.Flush()); err != nil {
				return
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	way, total := (&apiServer{Server: server}).way(t), 0
	for range watches {
		resp, err := way.RoundTrip(request(t, http.MethodGet, server.URL+"?watch=true", ""))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	for range watches {
		total += <-sent
	}
	if total == 0 || total > steadyBuffers*3/2 {
		t.Errorf("the server has sent %d bytes", total)
	}
}

// TestWatchesHaveFewConnections checks that a server that permits only one request for each connection cannot make the
// manager open a connection for each watch.
func TestWatchesHaveFewConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	way := (&apiServer{Server: server}).way(t)
	watch := func() (io.Closer, error) {
		resp, err := way.RoundTrip(request(t, http.MethodGet, server.URL+"?watch=true", ""))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.Body, nil
	}
	var open []io.Closer
	for len(open) < maxWatchConnections {
		body, err := watch()
		if err != nil {
			t.Fatalf("after %d watches: %v", len(open), err)
		}
		open = append(open, body)
	}
	if _, err := watch(); !errors.Is(err, errTooManyConnections) {
		t.Errorf("%d connections have watches: %v", len(way.watching), err)
	}
	for range 2 { // A body may be closed twice.
		if err := open[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
	body, err := watch()
	if err != nil {
		t.Fatalf("after the end of a watch: %v", err)
	}
	if err := body.Close(); err != nil || len(way.watching) != maxWatchConnections-1 {
		t.Errorf("%d connections count, %v", len(way.watching), err)
	}
}

// TestRedirectsToOtherServersAreRefused checks that an API server cannot make the manager send requests to another
// server, on both connections. Redirects to the same server are followed.
func TestRedirectsToOtherServersAreRefused(t *testing.T) {
	t.Parallel()
	var received atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	t.Cleanup(other.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			return
		}
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	config, err := withTransport(&rest.Config{Host: server.URL, BearerToken: "t",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, false, newPulse())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: config.Transport}
	for to, want := range map[string]error{
		other.URL: errRedirect, other.URL + "/version": errRedirect, "//" + other.Listener.Addr().String(): errRedirect,
		strings.Replace(server.URL, "https", "http", 1): errRedirect, "https://user@%zz": errRedirect,
		server.URL + "/version": nil, "/version": nil, strings.ToUpper(server.URL[:5]) + server.URL[5:] + "/version": nil,
	} {
		for _, accept := range []string{"", "application/json"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				req := request(t, method, server.URL+"/?to="+url.QueryEscape(to), accept)
				resp, err := client.Do(req)
				if err == nil {
					err = resp.Body.Close()
				}
				if !errors.Is(err, want) {
					t.Errorf("%s %s: %v", method, to, err)
				}
			}
		}
	}
	if got := received.Load(); got != 0 {
		t.Errorf("another server has received %d requests", got)
	}
}
