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

// front is the server before the registry.
type front struct {
	recorder
	endpoint
	proxy http.Handler
	// elsewhere is where Redirect leads.
	elsewhere string

	faulty sync.Mutex
	// general is the fault of SetFault, faults are those of Fail.
	general *activeFault
	faults  []*activeFault
}

func newFront(b *backend, elsewhere string, config *tls.Config) (*front, error) {
	f := &front{elsewhere: elsewhere, proxy: newProxy(b.url, b.transport, damage)}
	f.endpoint = endpoint{addr: "127.0.0.1:0", handler: f, tls: config}
	return f, f.listen()
}

// newProxy passes requests on to a server, answers pass modify.
func newProxy(to *url.URL, transport http.RoundTripper, modify func(*http.Response) error) http.Handler {
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			// The registry builds the locations of uploads from these.
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		ModifyResponse: modify,
		// What drips is to be seen to drip.
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

// ServeHTTP fails as told, or passes the request on, and records it.
func (f *front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	f.record(w, req, func(w http.ResponseWriter, request Request) {
		fault := f.faultFor(request)
		if fault != nil && fault.answer(w, req, f.elsewhere) {
			return
		}
		isLost := fault != nil && fault.Mode == LoseAnswer
		if isLost {
			w = nowhere{http.Header{}}
		}
		f.proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), faultKey{}, fault)))
		if isLost {
			breakOff(req)
		}
	})
}

// recorder remembers requests from when they come. What it knows of an answer it knows before the client does, so
// a client that has its answer finds the request complete.
type recorder struct {
	mu       sync.Mutex
	requests []*Request
}

// record serves a request and remembers it with what it is answered.
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

// requestOf tells what a request is about and who makes it.
func requestOf(req *http.Request) Request {
	request := classify(req.Method, req.URL.Path)
	request.Time, request.UserAgent, request.Host = time.Now(), req.UserAgent(), req.Host
	request.Authorization, request.User = authorizationOf(req)
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		request.ClientCert = req.TLS.PeerCertificates[0].Subject.CommonName
	}
	return request
}

// meteredWriter notes what an answer is: its status, and how many bytes of its body are about to go.
type meteredWriter struct {
	http.ResponseWriter
	// bodiless is set for HEAD: what is written then goes nowhere.
	bodiless bool
	note     func(code, bytes int)
}

// WriteHeader notes the final status, which an informational one is not.
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
	// A client that went away has not got all.
	m.note(http.StatusOK, n-len(data))
	return n, err
}

// Unwrap lets the proxy flush.
func (m *meteredWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }
