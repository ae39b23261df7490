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

package cutproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// headerTimeout bounds how long a client may take to send the header of a request.
const headerTimeout = 10 * time.Second

// Cut says at which request the proxy goes dead.
type Cut struct {
	// At is the number of the request, from 1, among those that count. Zero is never.
	At int
	// Forward carries that request out and loses its answer. Without it, the request does not reach the API server.
	Forward bool
	// All counts discovery and watches, too. Without it, only requests for objects count.
	All bool
}

// Request is one that a client sent while the proxy lived.
type Request struct {
	Method, Path string
	// Counted says whether it counts for [Cut].At.
	Counted bool
}

// String returns method and path.
func (r Request) String() string { return r.Method + " " + r.Path }

// Proxy is a running proxy. Its methods may be called concurrently.
type Proxy struct {
	address string
	forward http.Handler
	base    http.RoundTripper

	mu       sync.Mutex
	server   *http.Server
	cut      Cut
	counted  int
	requests []Request
}

// Start starts a proxy in front of the API server of a configuration. The caller stops it.
func Start(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	base, err := rest.TransportFor(rest.CopyConfig(config))
	if err != nil {
		return nil, fmt.Errorf("the connection to the API server: %w", err)
	}
	p := &Proxy{address: "127.0.0.1:0", base: base}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		Transport:     base,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		// The client learns no more than that the connection broke.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return p, p.Heal()
}

// Config returns a configuration that reaches the API server through the proxy.
func (p *Proxy) Config() *rest.Config { return &rest.Config{Host: "http://" + p.address} }

// Cut counts requests anew and makes the proxy go dead at the one that is asked for. A dead proxy stays dead.
func (p *Proxy) Cut(cut Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.counted, p.requests = cut, 0, nil
}

// Requests returns the requests since the last call of Cut or Heal.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.requests...)
}

// Dead reports whether the proxy refuses connections.
func (p *Proxy) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server == nil
}

// Heal makes a dead proxy live again, at the same address, and cuts nothing any more.
func (p *Proxy) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.counted, p.requests = Cut{}, 0, nil
	if p.server != nil {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return fmt.Errorf("listen again: %w", err)
	}
	p.address = listener.Addr().String()
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	go func(server *http.Server) { _ = server.Serve(listener) }(p.server)
	return nil
}

// Die breaks all connections and refuses new ones.
func (p *Proxy) Die() error {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server == nil {
		return nil
	}
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the proxy: %w", err)
	}
	return nil
}

// Stop ends the proxy.
func (p *Proxy) Stop() error {
	defer func() {
		if idle, ok := p.base.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}()
	return p.Die()
}

// ServeHTTP forwards a request unless the proxy dies of it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	cut, forward := p.count(req)
	if !cut {
		p.forward.ServeHTTP(w, req)
		return
	}
	if forward {
		// Once begun, the request is carried out whoever still waits for it.
		p.forward.ServeHTTP(&lostAnswer{header: http.Header{}}, req.WithContext(context.WithoutCancel(req.Context())))
	}
	_ = p.Die()
	panic(http.ErrAbortHandler)
}

// count notes a request and says whether the proxy dies of it, and whether it is carried out before.
func (p *Proxy) count(req *http.Request) (cut, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return true, false
	}
	counted := p.cut.All || isForObjects(req)
	p.requests = append(p.requests, Request{Method: req.Method, Path: req.URL.Path, Counted: counted})
	if !counted || p.cut.At == 0 {
		return false, false
	}
	p.counted++
	switch {
	case p.counted < p.cut.At:
		return false, false
	case p.counted == p.cut.At:
		return true, p.cut.Forward
	default:
		return true, false
	}
}

// isForObjects reports whether a request is neither discovery nor a watch.
func isForObjects(req *http.Request) bool {
	if watch := req.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return false
	}
	segments := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch segments[0] {
	case "api":
		return len(segments) > 2
	case "apis":
		return len(segments) > 3
	default:
		return false
	}
}

// lostAnswer is where an answer goes that nobody gets.
type lostAnswer struct{ header http.Header }

// Header implements http.ResponseWriter.
func (l *lostAnswer) Header() http.Header { return l.header }

// Write implements http.ResponseWriter.
func (l *lostAnswer) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (l *lostAnswer) WriteHeader(int) {}
