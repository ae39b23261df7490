// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// ProxyOptions describe a Proxy.
type ProxyOptions struct {
	// Username and Password are required of clients, if they are set.
	Username, Password string
	// Routes map the address that a client requests to the address to connect to ("registry.example:443" to
	// "127.0.0.1:5000"). A registry can so be reachable through the proxy only. Other addresses are used unchanged.
	Routes map[string]string
}

// Proxy is an HTTP proxy that tunnels (CONNECT), as clients of registries with TLS need. The methods may be called
// concurrently.
type Proxy struct {
	opts     ProxyOptions
	endpoint endpoint

	mu      sync.Mutex
	tunnels []Tunnel
	open    map[net.Conn]struct{}
	closed  bool
}

// Tunnel is one request for a tunnel.
type Tunnel struct {
	// Target is the address that the client requests.
	Target string
	// User is the user of the credentials, empty without credentials.
	User string
	// Code is the HTTP status of the answer, 200 if the tunnel was opened.
	Code int
}

// StartProxy starts a proxy on 127.0.0.1.
func StartProxy(opts ProxyOptions) (*Proxy, error) {
	p := &Proxy{opts: opts, open: map[net.Conn]struct{}{}}
	p.endpoint = endpoint{addr: "127.0.0.1:0", handler: p}
	return p, p.endpoint.listen()
}

// Stop stops the proxy and closes its tunnels.
func (p *Proxy) Stop() error {
	p.mu.Lock()
	p.closed = true
	for conn := range p.open {
		// The client may have closed the connection already.
		_ = conn.Close()
	}
	p.mu.Unlock()
	return p.endpoint.close()
}

// URL returns the address of the proxy, without credentials.
func (p *Proxy) URL() string { return p.endpoint.scheme() + "://" + p.endpoint.addr }

// Tunnels returns all requests for tunnels since the start.
func (p *Proxy) Tunnels() []Tunnel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.tunnels)
}

// ServeHTTP opens a tunnel, or refuses to.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	tunnel := Tunnel{Target: req.Host, Code: http.StatusOK}
	user, password := proxyCredentials(req)
	tunnel.User = user
	var upstream net.Conn
	switch {
	case req.Method != http.MethodConnect:
		tunnel.Code = http.StatusMethodNotAllowed
	case p.opts.Username != "" && (user != p.opts.Username || password != p.opts.Password):
		tunnel.Code = http.StatusProxyAuthRequired
		w.Header().Set("Proxy-Authenticate", `Basic realm="helmop-testbed"`)
	default:
		var err error
		if upstream, err = p.dial(req); err != nil {
			tunnel.Code = http.StatusBadGateway
		}
	}
	p.mu.Lock()
	p.tunnels = append(p.tunnels, tunnel)
	p.mu.Unlock()
	if tunnel.Code != http.StatusOK {
		w.WriteHeader(tunnel.Code)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = upstream.Close()
		return
	}
	p.connect(client, buffered, upstream)
}

func (p *Proxy) dial(req *http.Request) (net.Conn, error) {
	target := req.Host
	if route := p.opts.Routes[target]; route != "" {
		target = route
	}
	return (&net.Dialer{}).DialContext(req.Context(), "tcp", target)
}

// connect copies bytes in both directions until both sides are done.
func (p *Proxy) connect(client net.Conn, buffered *bufio.ReadWriter, upstream net.Conn) {
	defer p.release(client, upstream)
	if !p.hold(client, upstream) {
		return
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		carry(upstream, buffered)
	}()
	carry(client, upstream)
	<-done
}

// carry copies until one side ends, and then closes the other for writing. It ignores errors: if a tunnel breaks, both
// sides notice.
func carry(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok {
		err = errors.Join(err, half.CloseWrite())
	}
	if err != nil {
		_ = to.Close()
	}
}

// hold keeps open connections for Stop. It returns false if Stop was called already.
func (p *Proxy) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.open[conn] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.open, conn)
	}
}

func proxyCredentials(req *http.Request) (user, password string) {
	encoded, _ := strings.CutPrefix(req.Header.Get("Proxy-Authorization"), "Basic ")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", ""
	}
	user, password, _ = strings.Cut(string(decoded), ":")
	return user, password
}
