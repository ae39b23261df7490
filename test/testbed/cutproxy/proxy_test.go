// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cutproxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// backend replaces an API server, and records the requests that it gets.
type backend struct {
	*httptest.Server

	mu  sync.Mutex
	got []string
}

func startBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.got = append(b.got, req.Method+" "+req.URL.Path)
		_, _ = io.WriteString(w, "answer to "+req.Header.Get("Impersonate-User"))
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *backend) reached() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

func startProxy(t *testing.T, b *backend) *Proxy {
	t.Helper()
	p, err := Start(&rest.Config{Host: b.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// post sends a POST request, because a transport never sends a POST twice.
func post(t *testing.T, p *Proxy, path string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Config().Host+path, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Impersonate-User", "alice")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestCut(t *testing.T) {
	t.Parallel()
	const objects, discovery, watch = "/api/v1/namespaces/a/configmaps", "/apis/apps/v1", "/api/v1/configmaps?watch=true"
	tests := map[string]struct {
		cut     Cut
		paths   []string
		passed  int
		reached int
	}{
		"never":                              {Cut{}, []string{objects, objects}, 2, 2},
		"first, not sent":                    {Cut{At: 1}, []string{objects, objects}, 0, 0},
		"first, answer lost":                 {Cut{At: 1, Forward: true}, []string{objects, objects}, 0, 1},
		"second, not sent":                   {Cut{At: 2}, []string{objects, objects, objects}, 1, 1},
		"second, answer lost":                {Cut{At: 2, Forward: true}, []string{objects, objects, objects}, 1, 2},
		"discovery and watches do not count": {Cut{At: 1}, []string{discovery, watch, "/version", objects}, 3, 3},
		"all count":                          {Cut{At: 2, All: true}, []string{discovery, watch}, 1, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBackend(t)
			p := startProxy(t, b)
			p.Cut(test.cut)
			for i, path := range test.paths {
				body, err := post(t, p, path)
				if passed := err == nil; passed != (i < test.passed) {
					t.Errorf("request %d: %q, %v", i+1, body, err)
				}
				if err == nil && body != "answer to alice" {
					t.Errorf("request %d: %q", i+1, body)
				}
			}
			if got := b.reached(); len(got) != test.reached {
				t.Errorf("reached the API server: %v, want %d", got, test.reached)
			}
			if dead := p.Dead(); dead != (test.passed < len(test.paths)) {
				t.Errorf("dead: %t", dead)
			}
		})
	}
}

func TestHeal(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	p := startProxy(t, b)
	before := p.Config().Host
	p.Cut(Cut{At: 1})
	if _, err := post(t, p, "/api/v1/nodes/a"); err == nil {
		t.Error("the cut request was answered")
	}
	if _, err := post(t, p, "/api/v1/nodes/b"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a dead proxy: %v", err)
	}
	if err := p.Heal(); err != nil {
		t.Fatal(err)
	}
	if p.Config().Host != before {
		t.Error("the address changed")
	}
	if _, err := post(t, p, "/api/v1/nodes/c"); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(p.Requests()); got != "[POST /api/v1/nodes/c]" {
		t.Errorf("requests since: %s", got)
	}
}

// TestOnce checks that the proxy serves the next request after it broke one connection.
func TestOnce(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	p := startProxy(t, b)
	p.Cut(Cut{At: 2, Forward: true, Once: true})
	for i, ok := range []bool{true, false, true, true} {
		if _, err := post(t, p, "/api/v1/nodes/a"); (err == nil) != ok {
			t.Errorf("request %d: %v", i+1, err)
		}
	}
	if got := b.reached(); len(got) != 4 || !p.WasCut() || p.Dead() {
		t.Errorf("reached %v, cut %t, dead %t", got, p.WasCut(), p.Dead())
	}
}

func TestStartRefusesAddresses(t *testing.T) {
	t.Parallel()
	if _, err := Start(&rest.Config{Host: "http://[::1"}); err == nil {
		t.Error("a wrong address is accepted")
	}
}
