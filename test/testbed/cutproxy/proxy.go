// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// startTries is how often Start takes another port, because a program took the port at the same time.
const startTries = 5

// headerTimeout is how long a client may take to send the header of a request.
const headerTimeout = 10 * time.Second

// Cut chooses the request at which the proxy fails.
type Cut struct {
	// At is the number of the request, from 1, among the requests that count. Zero means never.
	At int
	// Forward carries the request out and loses its answer. Without Forward, the request does not reach the API server.
	Forward bool
	// Once breaks only the connections of this request, so that later requests pass.
	Once bool
	// All counts discovery and watches, too. Without All, only requests for objects count.
	All bool
}

// Request is a request that a client sent while the proxy was not dead.
type Request struct {
	Method, Path string
	// Counted is true if the request counts for [Cut].At.
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
	done     bool
	requests []Request
}

// Start starts a proxy in front of the API server of a configuration. The caller must stop the proxy.
func Start(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	base, err := rest.TransportFor(rest.CopyConfig(config))
	if err != nil {
		return nil, fmt.Errorf("configure the connection to the API server: %w", err)
	}
	p := &Proxy{base: base}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		Transport:     base,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  abort,
	}
	for range startTries {
		var port int
		// The system does not give this port to a connection while the proxy is dead.
		if port, err = process.FreePort(); err != nil {
			return nil, err
		}
		p.address = process.Loopback(port)
		if err = p.Heal(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return p, err
}

// Config returns a configuration that reaches the API server through the proxy.
func (p *Proxy) Config() *rest.Config { return &rest.Config{Host: "http://" + p.address} }

// Cut counts requests from 1 again and makes the proxy fail at the chosen one. A dead proxy stays dead.
func (p *Proxy) Cut(cut Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.counted, p.done, p.requests = cut, 0, false, nil
}

// Requests returns the requests since the last call of Cut or Heal.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.requests...)
}

// WasCut reports whether the chosen request was sent.
func (p *Proxy) WasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Dead reports whether the proxy refuses connections.
func (p *Proxy) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server == nil
}

// Heal makes a dead proxy serve again, at the same address, and clears the cut.
func (p *Proxy) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.counted, p.done, p.requests = Cut{}, 0, false, nil
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

// Stop stops the proxy.
func (p *Proxy) Stop() error {
	defer func() {
		if idle, ok := p.base.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}()
	return p.Die()
}

// ServeHTTP forwards a request, or cuts it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	cut, ok := p.passes(req)
	if ok {
		p.forward.ServeHTTP(w, req)
		return
	}
	if cut.Forward {
		// A forwarded request is carried out even if the client no longer waits for the answer.
		p.forward.ServeHTTP(&lostAnswer{header: http.Header{}}, req.WithContext(context.WithoutCancel(req.Context())))
	}
	if !cut.Once {
		_ = p.Die()
	}
	panic(http.ErrAbortHandler)
}

// passes records a request. It reports whether the request passes, and otherwise how to cut it.
func (p *Proxy) passes(req *http.Request) (cut Cut, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil || p.done && !p.cut.Once {
		return Cut{}, false
	}
	counted := p.cut.All || isForObjects(req)
	p.requests = append(p.requests, Request{Method: req.Method, Path: req.URL.Path, Counted: counted})
	if counted {
		p.counted++
	}
	if !counted || p.done || p.counted != p.cut.At {
		return Cut{}, true
	}
	p.done = true
	return p.cut, false
}

// isForObjects reports whether a request is neither for discovery nor a watch.
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

// abort breaks a client's connection. The client gets no answer.
func abort(w http.ResponseWriter, _ *http.Request, _ error) {
	if _, lost := w.(*lostAnswer); !lost {
		panic(http.ErrAbortHandler)
	}
}

// lostAnswer discards an answer.
type lostAnswer struct{ header http.Header }

// Header implements http.ResponseWriter.
func (l *lostAnswer) Header() http.Header { return l.header }

// Write implements http.ResponseWriter.
func (l *lostAnswer) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements http.ResponseWriter.
func (l *lostAnswer) WriteHeader(int) {}
