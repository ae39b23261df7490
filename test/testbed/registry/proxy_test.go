// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestProxy reaches a registry under a name that only the proxy can resolve.
func TestProxy(t *testing.T) {
	t.Parallel()
	const name = "registry.helmop.test"
	r := startRegistry(t, Options{Implementation: InProcess, Auth: AuthNone, Names: []string{name}})
	p, err := StartProxy(ProxyOptions{Username: "user", Password: "secret",
		Routes: map[string]string{name + ":443": r.Host()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	ask := func(user *url.Userinfo, host string) (int, error) {
		t.Helper()
		proxy, err := url.Parse(p.URL())
		if err != nil {
			t.Fatal(err)
		}
		proxy.User = user
		transport := trusting(t, r)
		transport.Proxy = http.ProxyURL(proxy)
		resp, err := (&http.Client{Transport: transport}).Get("https://" + host + "/v2/")
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if code, err := ask(url.UserPassword("user", "secret"), name); err != nil || code != http.StatusOK {
		t.Errorf("got %d, %v", code, err)
	}
	if requests := r.Requests(); len(requests) != 1 || requests[0].Host != name {
		t.Errorf("the registry got the requests %+v", requests)
	}
	if _, err := ask(url.UserPassword("user", "wrong"), name); err == nil ||
		!strings.Contains(err.Error(), "Proxy Authentication Required") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := ask(nil, name); err == nil {
		t.Error("a tunnel was opened without credentials")
	}
	if _, err := ask(url.UserPassword("user", "secret"), "127.0.0.1:1"); err == nil ||
		!strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("no server behind the proxy: %v", err)
	}
	want := []Tunnel{
		{name + ":443", "user", 200}, {name + ":443", "user", 407}, {name + ":443", "", 407}, {"127.0.0.1:1", "user", 502},
	}
	if got := p.Tunnels(); !slices.Equal(got, want) {
		t.Errorf("got the tunnels %+v", got)
	}
}

// TestProxyStopEndsTunnels checks that no tunnel stays open after Stop.
func TestProxyStopEndsTunnels(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess, Auth: AuthNone})
	p, err := StartProxy(ProxyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := trusting(t, r)
	transport.Proxy = http.ProxyURL(proxy)
	hung := make(chan error, 1)
	met := make(chan struct{})
	fail(t, r, Fault{Mode: Hang, Times: 1, Match: func(Request) bool { close(met); return true }})
	go func() {
		resp, err := (&http.Client{Transport: transport}).Get("https://" + r.Host() + "/v2/")
		if err == nil {
			_ = resp.Body.Close()
		}
		hung <- err
	}()
	<-met
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-hung; err == nil {
		t.Error("the tunnel is open after Stop")
	}
}
