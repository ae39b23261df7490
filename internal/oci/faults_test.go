// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// hang blocks until the client cancels the request.
func hang(r *http.Request) { <-r.Context().Done() }

func TestUnresponsiveRegistryEndsAtDeadline(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(o *Options, limit time.Duration)
		serve  func(w http.ResponseWriter, r *http.Request)
	}{
		{name: "no answer", change: func(o *Options, limit time.Duration) { o.Timeout = limit },
			serve: func(_ http.ResponseWriter, r *http.Request) { hang(r) }},
		{name: "body stops", change: func(o *Options, limit time.Duration) { o.Timeout = limit },
			serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("ll"))
				_ = http.NewResponseController(w).Flush()
				hang(r)
			}},
		{name: "body drips", change: func(o *Options, limit time.Duration) { o.PullTimeout = limit },
			serve: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000")
				tick := time.NewTicker(40 * time.Millisecond)
				defer tick.Stop()
				for r.Context().Err() == nil {
					_, _ = w.Write([]byte("l"))
					_ = http.NewResponseController(w).Flush()
					select {
					case <-tick.C:
					case <-r.Context().Done():
					}
				}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			dgst := r.push("1.0.0", "1.0.0", []byte(strings.Repeat("l", 1000)))
			// The limit must not apply to the pull of the manifest: another client stores it.
			dir := t.TempDir()
			fetch := func(change func(*Options)) *Content {
				content, err := newClient(t, func(o *Options) { o.Dir = dir }, change).Fetch(t.Context(), r.url(), dgst, r.access())
				if err != nil {
					t.Fatal(err)
				}
				return content
			}
			fetch(func(*Options) {})
			var served atomic.Int32
			r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
				served.Add(1)
				tc.serve(w, req)
				return true
			})
			// On a busy machine, a short limit ends before the registry gets the request.
			for limit := 150 * time.Millisecond; served.Load() == 0 && limit < time.Minute; limit *= 4 {
				content := fetch(func(o *Options) { tc.change(o, limit) })
				_, err := content.ReadLayer(t.Context(), content.Layers[0])
				if !errors.Is(err, ocierr.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error = %v, want ErrUnreachable by deadline", err)
				}
			}
			if served.Load() == 0 {
				t.Error("the registry got no request")
			}
		})
	}
}

func TestResolveOfUnresponsiveRegistryEndsAtTimeout(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.intercept = func(_ http.ResponseWriter, req *http.Request) bool { hang(req); return true }
	c := newClient(t, func(o *Options) { o.Timeout = 150 * time.Millisecond })
	_, err := c.Resolve(t.Context(), r.source(Reference{Semver: "*"}))
	if !errors.Is(err, ocierr.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want ErrUnreachable by deadline", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Resolve(ctx, r.source(Reference{Tag: "1.0.0"})); !errors.Is(err, context.Canceled) ||
		errors.Is(err, ocierr.ErrUnreachable) {
		t.Errorf("error = %v, want context.Canceled alone", err)
	}
}

// closedAddress returns an address that refuses connections. A socket that does not listen reserves the address, so no
// other program can use it during the test.
func closedAddress(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", address.(*syscall.SockaddrInet4).Port)
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	_, err := newClient(t).Resolve(t.Context(), Source{URL: scheme + closedAddress(t) + "/x", Ref: Reference{Tag: "1"}})
	if !errors.Is(err, ocierr.ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error = %v, want ErrUnreachable that says refused", err)
	}
}

func TestTemporaryFailuresAreRetried(t *testing.T) {
	t.Parallel()
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.push("1.0.0", "1.0.0", []byte("x"))
			var failures atomic.Int32
			r.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				if failures.Add(1) > 2 {
					return false
				}
				w.WriteHeader(status)
				return true
			}
			if _, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"})); err != nil {
				t.Error(err)
			}
			r.wantRequests(map[string]int{"HEAD manifest": 3, "GET manifest": 1})
		})
	}
}

func TestRetryAfterIsRespected(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("1.0.0", "1.0.0", []byte("x"))
	var asked atomic.Bool
	r.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Swap(true) {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	start := time.Now()
	if _, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"})); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("came back after %s, the registry asked for 1s", took)
	}
}

func TestInsecureIsPlainHTTP(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	r.push("1.0.0", "1.0.0", []byte("x"))
	plain := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(plain.Close)
	host := strings.TrimPrefix(plain.URL, "http://")
	src := Source{URL: scheme + host + "/" + testRepo, Ref: Reference{Tag: "1.0.0"},
		Access: Access{Insecure: true, DockerConfigs: [][]byte{dockerConfigFor(host, testUser, testPassword)}}}
	if _, err := newClient(t).Resolve(t.Context(), src); err != nil {
		t.Error(err)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	var opened sync.Map
	r.intercept = func(_ http.ResponseWriter, req *http.Request) bool {
		opened.Store(req.RemoteAddr, true)
		return false
	}
	r.push("1.0.0", "1.0.0", []byte("x"))
	c := newClient(t)
	for range 10 {
		if _, err := c.Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"})); err != nil {
			t.Fatal(err)
		}
	}
	// Another credential uses the same connections.
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), "a", "b")}
	if _, err := c.Resolve(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	connections := 0
	opened.Range(func(any, any) bool { connections++; return true })
	if connections > 2 {
		t.Errorf("%d connections for 11 resolutions", connections)
	}
}

// TestRegistryTextIsNotShown checks that errors contain no text from the body and the headers of a response. A registry
// may write anything there.
func TestRegistryTextIsNotShown(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 418, 429, 500} {
		r := newRegistry(t)
		r.basic = true
		r.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "planted-1")
			w.WriteHeader(status)
			_,
				_ = w.Write([]byte(`{"errors":[{"code":"planted-code","message":"planted-message","detail":"planted-password"}]}`))
			return true
		}
		_, err := newClient(t).Resolve(t.Context(), r.source(Reference{Tag: "1.0.0"}))
		if err == nil {
			t.Fatalf("%d: no error", status)
		}
		noSecrets(t, err)
	}
}

func TestTokenServiceOnAnotherPrivateHostIsRefused(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"169.254.169.254", "10.1.2.3", "172.16.0.1:8443", "192.168.1.1", "[fd12::1]"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+host+`/planted-token",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			src := r.source(Reference{Tag: "1.0.0"})
			src.Access.DockerConfigs = [][]byte{dockerConfigFor(r.host(), testUser, testPassword)}
			_, err := newClient(t).Resolve(t.Context(), src)
			if !errors.Is(err, ocierr.ErrUnauthorized) || !strings.Contains(err.Error(), "token service is refused") {
				t.Fatalf("error = %v, want ErrUnauthorized that says why", err)
			}
			noSecrets(t, err)
			r.wantRequests(map[string]int{"HEAD manifest": 1})
		})
	}
}
