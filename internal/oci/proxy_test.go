// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bufio"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http/httpproxy"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// proxyHint is the hint in the errors of a proxy.
const proxyHint = "; check the proxy's address and credentials, and that it allows connections to the registry"

func certificateOf(srv *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
}

// redirectBlobs redirects requests for blobs to another host.
func redirectBlobs(target string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestBlob {
			return false
		}
		http.Redirect(w, req, target+"/storage", http.StatusTemporaryRedirect)
		return true
	}
}

// testProxy is an HTTP proxy. It supports CONNECT and forwarding, and can require credentials.
type testProxy struct {
	URL string
	// user is the expected credential, "name:password", or empty.
	user    *string
	answer  int
	targets map[string]string // targets replaces the target of an address

	mu    sync.Mutex
	asked []string
}

func newConnectProxy(t *testing.T, user *string, targets map[string]string) *testProxy {
	t.Helper()
	p := &testProxy{user: user, targets: targets}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	p.URL = srv.URL
	return p
}

func (p *testProxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *testProxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, req.Method+" "+req.Host)
	p.mu.Unlock()
	check := http.Request{Header: http.Header{"Authorization": req.Header["Proxy-Authorization"]}}
	if name, password, _ := check.BasicAuth(); p.user != nil && name+":"+password != *p.user {
		w.Header().Set("Proxy-Authenticate", `Basic realm="planted-x"`)
		http.Error(w, "planted-x", http.StatusProxyAuthRequired)
		return
	}
	if p.answer != 0 {
		http.Error(w, "planted-x", p.answer)
		return
	}
	address := req.Host
	if target, ok := p.targets[address]; ok {
		address = target
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, "planted-x", http.StatusBadGateway)
		return
	}
	defer server.Close()
	if req.Method != http.MethodConnect {
		p.forward(w, req, server)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = client.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}

func (p *testProxy) forward(w http.ResponseWriter, req *http.Request, server net.Conn) {
	req.Header.Del("Proxy-Authorization")
	if err := req.Write(server); err != nil {
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(server), req)
	if err != nil {
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func TestAccessProxy(t *testing.T) {
	t.Parallel()
	user := testUser + ":" + testPassword
	for _, tc := range []struct {
		name     string
		user     *string
		given    credentials.Proxy
		insecure bool
		wantErr  error
		wantText string
	}{
		{name: "CONNECT"},
		{name: "plain HTTP", insecure: true},
		{name: "with user", user: &user, given: credentials.Proxy{Username: testUser, Password: testPassword}},
		{name: "plain HTTP with user", user: &user, insecure: true,
			given: credentials.Proxy{Username: testUser, Password: testPassword}},
		{name: "without user", user: &user, wantErr: ocierr.ErrUnauthorized, wantText: "the proxy requires credentials"},
		{name: "plain HTTP without user", user: &user, insecure: true, wantErr: ocierr.ErrUnauthorized,
			wantText: "the proxy requires credentials"},
		{name: "with another user", user: &user, given: credentials.Proxy{Username: testUser, Password: "planted-wrong"},
			wantErr: ocierr.ErrUnauthorized, wantText: "the proxy requires credentials"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.push("1.0.0", "1.0.0", []byte("x"))
			src := r.source(Reference{Tag: "1.0.0"})
			target := r.host()
			if tc.insecure {
				plain := httptest.NewServer(http.HandlerFunc(r.serve))
				t.Cleanup(plain.Close)
				target = strings.TrimPrefix(plain.URL, "http://")
				src.URL, src.Access.Insecure = scheme+target+"/"+testRepo, true
			}
			proxy := newConnectProxy(t, tc.user, nil)
			given := tc.given
			given.Address = proxy.URL
			src.Access.Proxy = &given
			_, err := newClient(t).Resolve(t.Context(), src)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error = %v, want %v", err, tc.wantErr)
			}
			if err != nil {
				noSecrets(t, err)
				if !strings.Contains(err.Error(), tc.wantText) || !strings.Contains(err.Error(), proxyHint) {
					t.Errorf("error = %v, want %q", err, tc.wantText)
				}
			}
			if asked := proxy.requests(); len(asked) == 0 || !strings.HasSuffix(asked[0], " "+target) {
				t.Errorf("the proxy was asked %q", asked)
			}
		})
	}
}

func TestProxyFailures(t *testing.T) {
	t.Parallel()
	refusing := newConnectProxy(t, nil, nil)
	refusing.answer = http.StatusForbidden
	for name, tc := range map[string]struct{ address, want string }{
		"refuses":          {refusing.URL, "the proxy answered 403"},
		"not there":        {"http://" + closedAddress(t), "the proxy: "},
		"SOCKS, not there": {"socks5://" + closedAddress(t), "the proxy: "},
		"not a TLS proxy":  {strings.Replace(refusing.URL, "http", "https", 1), "the proxy: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := newRegistry(t).source(Reference{Tag: "1.0.0"})
			src.Access.Proxy = &credentials.Proxy{Address: tc.address, Username: testUser, Password: testPassword}
			_, err := newClient(t).Resolve(t.Context(), src)
			if !errors.Is(err, ocierr.ErrUnreachable) || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), proxyHint) {
				t.Fatalf("error = %v, want ErrUnreachable with %q", err, tc.want)
			}
			noSecrets(t, err)
		})
	}
}

func TestProxyAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://p.example:3128":                "",
		"https://p.example/":                   "",
		"socks5://[::1]:1080":                  "",
		"":                                     "form",
		"p.example:3128":                       "form",
		"http://:3128":                         "form",
		"http://planted-u:planted-p@p.example": "user",
		"ftp://p.example":                      "start with",
		"http://p.example/planted-x":           "after host:port",
		"http://p.example?planted-x":           "after host:port",
		"http://p.example:planted-x":           "form",
	} {
		src := Source{URL: "oci://127.0.0.1:1/x", Ref: Reference{Tag: "1"},
			Access: Access{Proxy: &credentials.Proxy{Address: address}}}
		got, err := src.Access.Proxy.URL()
		if want == "" {
			if err != nil || got.Path != "" {
				t.Errorf("%s: %v, %v", address, got, err)
			}
			continue
		}
		_, err = newClient(t).Resolve(t.Context(), src)
		if !errors.Is(err, ocierr.ErrInvalidAccess) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want ErrInvalidAccess with %q", address, err, want)
			continue
		}
		noSecrets(t, err)
	}
	if _, err := (&credentials.Proxy{Address: "http://p.example", Password: "planted-x"}).URL(); err == nil {
		t.Error("a password without a username is no mistake")
	}
}

func TestEnvironmentProxy(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	// The environment never selects a proxy for loopback addresses. The names in the test's certificate lead to the
	// registry only through the proxy.
	proxy := newConnectProxy(t, nil, map[string]string{"example.com:443": r.host()})
	environment := httpproxy.Config{HTTPSProxy: proxy.URL, NoProxy: "direct.invalid"}
	c := newClient(t, func(o *Options) {
		o.environmentProxy = func(req *http.Request) (*url.URL, error) { return environment.ProxyFunc()(req.URL) }
	})
	src := r.source(Reference{Tag: "1.0.0"})
	src.URL = "oci://example.com/" + testRepo
	if _, err := c.Resolve(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if asked := proxy.requests(); !slices.Equal(asked, []string{"CONNECT example.com:443"}) {
		t.Errorf("the proxy was asked %q", asked)
	}
	src.URL = "oci://direct.invalid/" + testRepo
	if _, err := c.Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrUnreachable) ||
		strings.Contains(err.Error(), "proxy:") {
		t.Errorf("error = %v, want ErrUnreachable without the proxy", err)
	}
	// The proxy of an Access wins against the proxy of the environment.
	own := newConnectProxy(t, nil, map[string]string{"example.com:443": r.host()})
	src.URL, src.Access.Proxy = "oci://example.com/"+testRepo, &credentials.Proxy{Address: own.URL}
	if _, err := c.Resolve(t.Context(), src); err != nil || len(own.requests()) != 1 || len(proxy.requests()) != 1 {
		t.Errorf("error = %v, the Access's proxy was asked %q, the environment's %q", err, own.requests(), proxy.requests())
	}
}

func TestSOCKSProxy(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	for name, password := range map[string]string{"right password": testPassword, "wrong password": "planted-wrong"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := r.source(Reference{Tag: "1.0.0"})
			src.Access.Proxy = &credentials.Proxy{Address: "socks5://" + newSOCKSProxy(t), Username: testUser,
				Password: password}
			_, err := newClient(t).Resolve(t.Context(), src)
			if password == testPassword {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ocierr.ErrUnreachable) || !strings.Contains(err.Error(), proxyHint) {
				t.Fatalf("error = %v, want ErrUnreachable of the proxy", err)
			}
			noSecrets(t, err)
		})
	}
}

// newSOCKSProxy starts a proxy with RFC 1928 and the passwords of RFC 1929, for IPv4 addresses. It returns the address
// of the proxy.
func newSOCKSProxy(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSOCKS(client)
		}
	}()
	return listener.Addr().String()
}

func serveSOCKS(client net.Conn) {
	defer client.Close()
	read := func(n int) []byte {
		data := make([]byte, n)
		if _, err := io.ReadFull(client, data); err != nil {
			return make([]byte, n)
		}
		return data
	}
	read(int(read(2)[1])) // the methods that the client supports
	_, _ = client.Write([]byte{5, 2})
	user := read(int(read(2)[1]))
	password := read(int(read(1)[0]))
	if string(user) != testUser || string(password) != testPassword {
		_, _ = client.Write([]byte{1, 1})
		return
	}
	_, _ = client.Write([]byte{1, 0})
	read(4) // CONNECT to an IPv4 address
	ip, port := read(4), binary.BigEndian.Uint16(read(2))
	server, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: ip, Port: int(port)})
	if err != nil {
		return
	}
	defer server.Close()
	_, _ = client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}
