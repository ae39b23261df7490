// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// backend is the registry behind the front.
type backend struct {
	url *url.URL
	// transport sends requests to the registry with the client's credentials. owner sends requests with all permissions.
	transport, owner http.RoundTripper
	process          *process.Process
	server           *endpoint
}

func (b *backend) stop() error {
	if b.process != nil {
		return errors.Join(b.process.Unexpected(), b.process.Kill())
	}
	return b.server.close()
}

func (b *backend) pids() []int {
	if b.process == nil || !b.process.Running() {
		return nil
	}
	return []int{b.process.PID()}
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// withPassword sends the first user's password with all requests.
func withPassword(base http.RoundTripper, users *accounts) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.SetBasicAuth(username, users.password(username))
		return base.RoundTrip(req)
	})
}

// startInProcess serves the registry of go-containerregistry, which itself has no users.
func startInProcess(users *accounts, auth Auth) (*backend, error) {
	handler := ggcr.New(ggcr.WithReferrersSupport(true), ggcr.Logger(log.New(io.Discard, "", 0)))
	if auth == AuthBasic {
		handler = guarded(handler, users)
	}
	server := &endpoint{addr: "127.0.0.1:0", handler: handler}
	if err := server.listen(); err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: idleConnections}
	return &backend{
		url:       &url.URL{Scheme: "http", Host: server.addr},
		transport: transport,
		owner:     withPassword(transport, users),
		server:    server,
	}, nil
}

// guarded requires a password before a handler.
func guarded(next http.Handler, users *accounts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); !users.valid(user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="helmop-testbed"`)
			writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return
		}
		next.ServeHTTP(w, req)
	})
}

// idleConnections is how many idle connections to a server of the registry are kept.
const idleConnections = 64

// connKey is the key of the net.Conn in the context of a request.
type connKey struct{}

// endpoint is an HTTP server on a loopback address.
type endpoint struct {
	// addr is the address to listen on. listen replaces port 0 by the port in use.
	addr    string
	handler http.Handler
	// tls is nil for plain HTTP.
	tls    *tls.Config
	server *http.Server
}

func (e *endpoint) scheme() string {
	if e.tls == nil {
		return "http"
	}
	return "https"
}

// listen starts serving.
func (e *endpoint) listen() error {
	l, err := e.listener()
	if err != nil {
		return err
	}
	e.addr = l.Addr().String()
	server := &http.Server{
		Handler: e.handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	e.server = server
	if e.tls == nil {
		go func() { _ = server.Serve(l) }()
		return nil
	}
	server.TLSConfig = e.tls.Clone()
	go func() { _ = server.ServeTLS(l, "", "") }()
	return nil
}

// listener listens on the address. It replaces port 0 by a port that no outgoing connection takes, because the endpoint
// listens on the same port again after an outage.
func (e *endpoint) listener() (net.Listener, error) {
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil || port != "0" {
		return net.Listen("tcp", e.addr)
	}
	for range 100 {
		free, err := process.FreePort()
		if err != nil {
			return nil, err
		}
		// Another process may have taken the port meanwhile.
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(free))); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no free port was found in 100 attempts")
}

// close drops all connections and refuses new ones, until the next listen.
func (e *endpoint) close() error {
	if e.server == nil {
		return nil
	}
	err := e.server.Close()
	e.server = nil
	return err
}
