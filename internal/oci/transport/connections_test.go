// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestRedirectsToLocalAddressesAreRefused checks that a registry cannot redirect to a local address if the
// administrator did not name the registry.
func TestRedirectsToLocalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	storage := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		t.Error("the storage was asked")
	}))
	t.Cleanup(storage.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: storage.Certificate().Raw})
	made, err := NewConnections(Settings{Authorities: [][]byte{authority}, IsStrict: true,
		Environment: func(*http.Request) (*url.URL, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	transport := &hostTransport{registry: "r.example", Connections: made}
	for _, target := range []string{storage.URL, strings.Replace(storage.URL, "127.0.0.1", "localhost", 1)} {
		req := httptest.NewRequest(http.MethodGet, target, nil)
		req.RequestURI, req.Response = "", &http.Response{}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, errLocal) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestRegistryCannotFillBuffers checks how much of a response is buffered before it is read.
func TestRegistryCannotFillBuffers(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 1)
	storage := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		control, total := http.NewResponseController(w), 0
		for {
			n, err := w.Write(make([]byte, 16<<10))
			if total += n; err == nil {
				err = errors.Join(control.SetWriteDeadline(time.Now().Add(time.Second)), control.Flush())
			}
			if err != nil {
				sent <- total
				return
			}
		}
	}))
	storage.EnableHTTP2 = true
	storage.StartTLS()
	t.Cleanup(storage.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: storage.Certificate().Raw})
	made, err := NewConnections(Settings{Authorities: [][]byte{authority},
		Environment: func(*http.Request) (*url.URL, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	for name, transport := range map[string]*http.Transport{"direct": made.direct, "redirected": made.redirected,
		"external": made.external} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, storage.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-sent; resp.ProtoMajor != 2 || got == 0 || got > 2*maxBuffer {
			t.Errorf("%s: %s has sent %d bytes", name, resp.Proto, got)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOnlyRegistryHostUsesDirectTransport checks that other hosts do not use the direct transport. The owner of a name
// can return another address for each lookup.
func TestOnlyRegistryHostUsesDirectTransport(t *testing.T) {
	t.Parallel()
	name := func(kind string, found *string) *http.Transport {
		return &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { *found = kind; return nil, ErrStalled }}
	}
	for _, tc := range []struct {
		registry, target string
		redirected       bool
		want             string
	}{
		{registry: "r.example:5000", target: "https://r.example:5000/v2/", want: "direct"},
		{registry: "r.example", target: "https://R.example:443/v2/", want: "direct"},
		{registry: "r.example:80", target: "http://r.example/v2/", want: "direct"},
		{registry: "r.example:5000", target: "https://r.example:5000/v2/", redirected: true, want: "redirected"},
		{registry: "r.example:5000", target: "https://r.example/v2/", want: "external"},
		{registry: "r.example", target: "https://r.example:5001/token", want: "external"},
		{registry: "r.example", target: "https://s.example/", redirected: true, want: "external"},
		{registry: "r.example", target: "https://token.example/", want: "direct"},
		{registry: "r.example", target: "https://token.example/", redirected: true, want: "redirected"},
	} {
		var got string
		transport := &hostTransport{registry: tc.registry, trusted: []string{"token.example"},
			Connections: &Connections{direct: name("direct", &got), redirected: name("redirected", &got),
				external: name("external", &got)}}
		req := httptest.NewRequest(http.MethodGet, tc.target, nil)
		req.RequestURI = ""
		if tc.redirected {
			req.Response = &http.Response{}
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if got != tc.want {
			t.Errorf("%+v: by %s", tc, got)
		}
	}
}
