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

package registry

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Mode is a way in which the registry fails.
type Mode int

// The ways in which the registry fails.
const (
	// None is no failure.
	None Mode = iota
	// Down refuses every connection.
	Down
	// Hang accepts requests and never answers them.
	Hang
	// Status answers with Fault.Code.
	Status
)

// Fault tells the registry how to fail. The zero value ends all failures.
type Fault struct {
	Mode Mode
	// Code is the HTTP status for Status.
	Code int
	// Header is added to the answer for Status, such as Retry-After.
	Header http.Header
	// Match selects the requests that fail. Default: all. Down ignores it.
	Match func(Request) bool
}

// front is the TLS server before the registry.
type front struct {
	addr  string
	proxy http.Handler
	cert  tls.Certificate

	mu       sync.Mutex
	server   *http.Server
	fault    Fault
	requests []Request
	// unhang is closed to let the requests go that a Hang holds.
	unhang chan struct{}
}

func newFront(backend string, transport http.RoundTripper, cert tls.Certificate) (*front, error) {
	f := &front{cert: cert, unhang: make(chan struct{})}
	f.proxy = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: backend})
			// The registry builds the locations of uploads from these.
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f, f.listen("127.0.0.1:0")
}

// listen starts to serve; the caller holds mu.
func (f *front) listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	f.addr = l.Addr().String()
	f.server = &http.Server{
		Handler:           f,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{f.cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	server := f.server
	go func() { _ = server.ServeTLS(l, "", "") }()
	return nil
}

func (f *front) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
	return f.stopListening()
}

// stopListening drops all connections; the caller holds mu.
func (f *front) stopListening() error {
	if f.server == nil {
		return nil
	}
	err := f.server.Close()
	f.server = nil
	return err
}

// release lets hung requests go; the caller holds mu.
func (f *front) release() {
	close(f.unhang)
	f.unhang = make(chan struct{})
}

func (f *front) setFault(fault Fault) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
	f.release()
	switch {
	case fault.Mode == Down:
		return f.stopListening()
	case f.server == nil:
		return f.listen(f.addr)
	}
	return nil
}

// ServeHTTP fails as told, or passes the request on, and records it.
func (f *front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	request := classify(req.Method, req.URL.Path)
	request.Time, request.UserAgent = time.Now(), req.UserAgent()
	_, _, request.Authenticated = req.BasicAuth()

	f.mu.Lock()
	fault, unhang := f.fault, f.unhang
	f.mu.Unlock()

	meter := &meteredWriter{ResponseWriter: w}
	// The proxy panics when the client goes away; the request counts all the same.
	defer func() {
		request.Code, request.Bytes = meter.code, meter.bytes
		f.record(request)
	}()
	if fault.Match == nil || fault.Match(request) {
		switch fault.Mode {
		case Hang:
			select {
			case <-unhang:
			case <-req.Context().Done():
			}
			panic(http.ErrAbortHandler)
		case Status:
			for key, values := range fault.Header {
				meter.Header()[key] = values
			}
			http.Error(meter, http.StatusText(fault.Code), fault.Code)
			return
		}
	}
	f.proxy.ServeHTTP(meter, req)
}

func (f *front) record(r Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
}

// meteredWriter notes what an answer was.
type meteredWriter struct {
	http.ResponseWriter
	code  int
	bytes int64
}

// WriteHeader notes the final status, which an informational one is not.
func (m *meteredWriter) WriteHeader(code int) {
	if m.code == 0 && code >= http.StatusOK {
		m.code = code
	}
	m.ResponseWriter.WriteHeader(code)
}

// Write counts the bytes of the body.
func (m *meteredWriter) Write(data []byte) (int, error) {
	if m.code == 0 {
		m.code = http.StatusOK
	}
	n, err := m.ResponseWriter.Write(data)
	m.bytes += int64(n)
	return n, err
}

// Unwrap lets the proxy flush.
func (m *meteredWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// SetFault makes the registry fail for clients until the next call. It returns
// an error only when the address cannot be listened on again after Down.
func (r *Registry) SetFault(fault Fault) error {
	if fault.Mode == Status && (fault.Code < 400 || fault.Code > 599) {
		return errors.New("a fault's code must be between 400 and 599")
	}
	return r.front.setFault(fault)
}
