// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// front is the reverse proxy in front of the registry.
type front struct {
	recorder
	endpoint
	proxy http.Handler
	// blobHost is the address of the BlobHost, for Redirect.
	blobHost string

	faulty sync.Mutex
	// general is the fault of SetFault, faults are the faults of Fail.
	general *activeFault
	faults  []*activeFault
}

func newFront(b *backend, blobHost string, config *tls.Config) (*front, error) {
	f := &front{blobHost: blobHost, proxy: newProxy(b.url, b.transport, damage)}
	f.endpoint = endpoint{addr: "127.0.0.1:0", handler: f, tls: config}
	return f, f.listen()
}

// newProxy returns a proxy that forwards requests to a server. modify may change the answers.
func newProxy(to *url.URL, transport http.RoundTripper, modify func(*http.Response) error) http.Handler {
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			// The registry derives the locations of uploads from these fields.
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		ModifyResponse: modify,
		// Clients must receive each byte of a Drip at once.
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}

func (f *front) close() error {
	f.faulty.Lock()
	defer f.faulty.Unlock()
	for _, fault := range append(f.faults, f.general) {
		fault.end()
	}
	return f.endpoint.close()
}

// ServeHTTP records the request, and forwards it or fails.
func (f *front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	f.record(w, req, func(w http.ResponseWriter, request Request) {
		fault := f.faultFor(request)
		if fault != nil && fault.answer(w, req, f.blobHost) {
			return
		}
		isLost := fault != nil && fault.Mode == LoseAnswer
		if isLost {
			w = discarded{http.Header{}}
		}
		f.proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), faultKey{}, fault)))
		if isLost {
			breakOff(req)
		}
	})
}

// recorder records requests when they arrive. It updates the record before it sends the answer: a client that has its
// answer finds the record complete.
type recorder struct {
	mu       sync.Mutex
	requests []*Request
}

// record serves a request and records the request with its answer.
func (r *recorder) record(w http.ResponseWriter, req *http.Request, serve func(http.ResponseWriter, Request)) {
	request := requestOf(req)
	remembered := request
	r.mu.Lock()
	r.requests = append(r.requests, &remembered)
	r.mu.Unlock()
	serve(&meteredWriter{ResponseWriter: w, bodiless: req.Method == http.MethodHead, note: func(code, bytes int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if remembered.Code == 0 {
			remembered.Code = code
		}
		remembered.Bytes += int64(bytes)
	}}, request)
}

func (r *recorder) all() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := make([]Request, 0, len(r.requests))
	for _, request := range r.requests {
		requests = append(requests, *request)
	}
	return requests
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

// requestOf returns the record of a request, without the answer.
func requestOf(req *http.Request) Request {
	request := classify(req.Method, req.URL.Path)
	request.Time, request.UserAgent, request.Host = time.Now(), req.UserAgent(), req.Host
	request.Authorization, request.User = authorizationOf(req)
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		request.ClientCert = req.TLS.PeerCertificates[0].Subject.CommonName
	}
	return request
}

// meteredWriter reports the status of an answer, and the number of bytes of the body before they are sent.
type meteredWriter struct {
	http.ResponseWriter
	// bodiless is set for HEAD, where a body is discarded.
	bodiless bool
	note     func(code, bytes int)
}

// WriteHeader reports the final status, but not informational ones.
func (m *meteredWriter) WriteHeader(code int) {
	if code >= http.StatusOK {
		m.note(code, 0)
	}
	m.ResponseWriter.WriteHeader(code)
}

// Write counts the bytes of the body.
func (m *meteredWriter) Write(data []byte) (int, error) {
	if m.bodiless {
		m.note(http.StatusOK, 0)
		return m.ResponseWriter.Write(data)
	}
	m.note(http.StatusOK, len(data))
	n, err := m.ResponseWriter.Write(data)
	// The client may have disconnected before it received all bytes.
	m.note(http.StatusOK, n-len(data))
	return n, err
}

// Unwrap enables the proxy to flush.
func (m *meteredWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }
