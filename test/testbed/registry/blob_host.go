// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net"
	"net/http"
)

// BlobHost is another host, "localhost" instead of 127.0.0.1, that serves the registry's content without credentials.
// It is like the object storage to which large registries redirect their clients for blobs. It records the requests.
type BlobHost struct {
	recorder
	endpoint endpoint
	content  http.Handler
}

func (r *Registry) startBlobHost() (*BlobHost, error) {
	h := &BlobHost{content: newProxy(r.backend.url, r.backend.owner, nil)}
	h.endpoint = endpoint{addr: "127.0.0.1:0", handler: h, tls: r.tlsConfig()}
	return h, h.endpoint.listen()
}

func (h *BlobHost) close() error { return h.endpoint.close() }

// Host returns the address to which clients are redirected, "localhost:port".
func (h *BlobHost) Host() string {
	_, port, _ := net.SplitHostPort(h.endpoint.addr)
	return net.JoinHostPort("localhost", port)
}

// URL returns the address with its scheme.
func (h *BlobHost) URL() string { return h.endpoint.scheme() + "://" + h.Host() }

// Requests returns all requests since the start. A client must not send its credential to this host: a request with an
// Authorization is a leak.
func (h *BlobHost) Requests() []Request { return h.all() }

// ServeHTTP serves content and records the request.
func (h *BlobHost) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.record(w, req, func(w http.ResponseWriter, _ Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			writeError(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this host is read-only")
			return
		}
		h.content.ServeHTTP(w, req)
	})
}
