// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net"
	"net/http"
)

// Elsewhere is another host, "localhost" instead of 127.0.0.1, that has the registry's content for everybody, as
// the object storage to which large registries send their clients for blobs. It remembers what came along.
type Elsewhere struct {
	recorder
	endpoint endpoint
	content  http.Handler
}

func (r *Registry) startElsewhere() (*Elsewhere, error) {
	e := &Elsewhere{content: newProxy(r.backend.url, r.backend.owner, nil)}
	e.endpoint = endpoint{addr: "127.0.0.1:0", handler: e, tls: r.tlsConfig()}
	return e, e.endpoint.listen()
}

func (e *Elsewhere) close() error { return e.endpoint.close() }

// Host returns the address that clients are sent to, "localhost:port".
func (e *Elsewhere) Host() string {
	_, port, _ := net.SplitHostPort(e.endpoint.addr)
	return net.JoinHostPort("localhost", port)
}

// URL returns the address with its scheme.
func (e *Elsewhere) URL() string { return e.endpoint.scheme() + "://" + e.Host() }

// Requests returns all requests since the start. An Authorization in one is a credential that
// a client carried to a host that it was not meant for.
func (e *Elsewhere) Requests() []Request { return e.all() }

// ServeHTTP hands content out and records who asked.
func (e *Elsewhere) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e.record(w, req, func(w http.ResponseWriter, _ Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			writeError(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this host only hands out")
			return
		}
		e.content.ServeHTTP(w, req)
	})
}
