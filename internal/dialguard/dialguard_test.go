// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
)

func TestIsLocal(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ local, metadata bool }{
		"127.0.0.1": {true, false}, "127.9.9.9": {true, false}, "::1": {true, false}, "::ffff:127.0.0.1": {true, false},
		"0.0.0.0": {true, false}, "0.0.0.1": {true, false}, "::": {true, false}, "64:ff9b::7f00:1": {true, false},
		"224.0.0.1":       {true, false},
		"169.254.169.254": {true, true}, "fe80::1": {true, true}, "fe80::1%eth0": {true, true},
		"64:ff9b::a9fe:a9fe": {true, true},
		"::ffff:169.254.0.1": {true, true}, "fd00:ec2::254": {true, true}, "100.100.100.200": {true, true},
		"168.63.129.16": {true, true}, "192.0.0.192": {true, true}, "fd20:ce::254": {true, true},
		"10.0.0.1": {false, false}, "192.168.1.1": {false, false}, "fd00::1": {false, false},
		"203.0.113.1": {false, false},
		"2001:db8::1": {false, false},
	} {
		at := netip.MustParseAddr(address)
		if IsLocal(at) != want.local || IsMetadata(at) != want.metadata {
			t.Errorf("%s: local %t, metadata %t", address, IsLocal(at), IsMetadata(at))
		}
	}
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.": true, "a.localhost": true, "127.0.0.1": true,
		"::1":                  true,
		"registry.example.com": false, "10.0.0.1": false, "localhost.example.com": false} {
		if IsLocalName(host) != want {
			t.Errorf("%s: %t", host, !want)
		}
	}
}

// TestGuard checks that a name with a refused address is refused when it is dialled. Proxies are refused too, unless
// they are trusted.
func TestGuard(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own := errors.New("own")
	proxy := &url.URL{Scheme: "http", Host: server.Listener.Addr().String()}
	for name, tc := range map[string]struct {
		url  string
		make func(*Guard) *http.Transport
		want error
	}{
		"address": {"http://127.0.0.1:" + port,
			func(g *Guard) *http.Transport { return &http.Transport{DialContext: g.DialContext} }, ErrRefused},
		"name": {"http://localhost:" + port,
			func(g *Guard) *http.Transport { return &http.Transport{DialContext: g.DialContext} }, ErrRefused},
		"own error": {"http://localhost:" + port, func(g *Guard) *http.Transport {
			g.Err = own
			return &http.Transport{DialContext: g.DialContext}
		}, own},
		"proxy": {"http://registry.example.com", func(g *Guard) *http.Transport {
			return &http.Transport{DialContext: g.DialContext, Proxy: http.ProxyURL(proxy)}
		}, ErrRefused},
		"trusted proxy": {"http://registry.example.com", func(g *Guard) *http.Transport {
			return &http.Transport{DialContext: g.DialContext, Proxy: g.Trusted(http.ProxyURL(proxy))}
		}, nil},
		"nothing refused": {"http://127.0.0.1:" + port, func(g *Guard) *http.Transport {
			g.Refuse = IsMetadata
			return &http.Transport{DialContext: g.DialContext}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := tc.make(&Guard{Dialer: &net.Dialer{}, Refuse: IsLocal})
			t.Cleanup(transport.CloseIdleConnections)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
