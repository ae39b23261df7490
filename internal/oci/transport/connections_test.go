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
