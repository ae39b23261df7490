// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

func fetchLayer(t *testing.T, c *Client, r *fakeRegistry, dgst string) ([]byte, error) {
	t.Helper()
	content, err := c.Fetch(t.Context(), r.url(), dgst, r.access())
	if err != nil {
		return nil, err
	}
	return content.ReadLayer(t.Context(), content.Layers[0])
}

func TestFetchPullsOnceAndOutlivesRestart(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	layer := bytes.Repeat([]byte("layer "), 10_000)
	dgst := r.push("1.0.0", "1.0.0", layer)
	dir := t.TempDir()
	var mu sync.Mutex
	var events []transport.RequestEvent
	var hits, misses int
	observe := func(o *Options) {
		o.Dir = dir
		o.Observer.Request = func(e transport.RequestEvent) { mu.Lock(); events = append(events, e); mu.Unlock() }
		o.Observer.Cache = func(e CacheEvent) {
			mu.Lock()
			defer mu.Unlock()
			if e.Hit {
				hits++
			} else {
				misses++
			}
		}
	}
	c := newClient(t, observe)
	for range 3 {
		got, err := fetchLayer(t, c, r, dgst)
		if err != nil || !bytes.Equal(got, layer) {
			t.Fatalf("layer: %d bytes, %v", len(got), err)
		}
	}
	// Only the layer is pulled as a blob. The config blob is not pulled.
	r.wantRequests(map[string]int{"GET manifest": 1, "GET blob": 1})

	again := newClient(t, observe)
	if got, err := fetchLayer(t, again, r, dgst); err != nil || !bytes.Equal(got, layer) {
		t.Fatalf("after a restart: %d bytes, %v", len(got), err)
	}
	r.wantRequests(map[string]int{})

	mu.Lock()
	defer mu.Unlock()
	if len(events) != 2 || hits == 0 || misses == 0 {
		t.Fatalf("events = %+v, hits %d, misses %d", events, hits, misses)
	}
	if e := events[1]; e.Kind != transport.RequestBlob || e.Status != 200 || e.Bytes != int64(len(layer)) ||
		e.Registry != r.host() {
		t.Errorf("event of the blob = %+v", e)
	}
}

func TestConcurrentReadsShareOneBlobRequest(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	layer := bytes.Repeat([]byte("x"), 1<<20)
	dgst := r.push("1.0.0", "1.0.0", layer)
	c := newClient(t)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got, err := fetchLayer(t, c, r, dgst); err != nil || len(got) != len(layer) {
				t.Errorf("layer: %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	r.wantRequests(map[string]int{"GET manifest": 1, "GET blob": 1})
}

func TestCancelledCallerDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("1.0.0", "1.0.0", []byte("layer"))
	c := newClient(t)
	content, err := c.Fetch(t.Context(), r.url(), dgst, r.access())
	if err != nil {
		t.Fatal(err)
	}
	started, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { close(started) })
		<-gate
		return false
	})
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := content.ReadLayer(leaving, content.Layers[0])
		left <- err
	}()
	<-started
	stayed := make(chan error, 1)
	go func() {
		_, err := content.ReadLayer(t.Context(), content.Layers[0])
		stayed <- err
	}()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v, want context.Canceled", err)
	}
	close(gate)
	if err := <-stayed; err != nil {
		t.Errorf("the caller that stayed got %v", err)
	}
	if got := r.count("GET blob"); got != 1 {
		t.Errorf("%d blob requests, want 1", got)
	}
}

func TestCorruptStoreIsPulledAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"changed":   func(p string) error { return os.WriteFile(p, []byte("l4yer"), 0o600) },
		"truncated": func(p string) error { return os.Truncate(p, 2) },
		"gone":      os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			dgst := r.push("1.0.0", "1.0.0", []byte("layer"))
			c := newClient(t)
			if _, err := fetchLayer(t, c, r, dgst); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(c.opts.Dir, "blobs", "sha256", "*"))
			if err != nil || len(files) != 2 {
				t.Fatalf("files in the store: %v, %v", files, err)
			}
			for _, file := range files {
				if err := os.Chmod(file, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := damage(file); err != nil {
					t.Fatal(err)
				}
			}
			got, err := fetchLayer(t, c, r, dgst)
			if err != nil || string(got) != "layer" {
				t.Errorf("layer %q, %v", got, err)
			}
			r.wantRequests(map[string]int{"GET manifest": 2, "GET blob": 2})
		})
	}
}

func TestBlobFaults(t *testing.T) {
	t.Parallel()
	layer := strings.Repeat("layer ", 1000)
	for _, tc := range []struct {
		name   string
		blob   func(w http.ResponseWriter)
		change func(*Options)
		want   error
		gets   int
	}{
		{name: "corrupt", want: ocierr.ErrIntegrity, gets: 1,
			blob: func(w http.ResponseWriter) { _, _ = w.Write([]byte(strings.Repeat("l4yer ", 1000))) }},
		{name: "other length", want: ocierr.ErrIntegrity, gets: 1,
			blob: func(w http.ResponseWriter) { w.Header().Set("Content-Length", "3"); _, _ = w.Write([]byte("abc")) }},
		{name: "truncated", want: ocierr.ErrIntegrity, gets: 2,
			blob: func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "6000")
				_, _ = w.Write([]byte(layer[:100]))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}},
		{name: "too large", want: ocierr.ErrTooLarge, gets: 0,
			change: func(o *Options) { o.MaxBlobBytes = 5999 }},
		{name: "forbidden", want: ocierr.ErrUnauthorized, gets: 1,
			blob: func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }},
		{name: "server error", want: ocierr.ErrServer, gets: 1 + 3,
			blob: func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }},
		{name: "long wait asked", want: ocierr.ErrRateLimited, gets: 1,
			blob: func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusTooManyRequests)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			dgst := r.push("1.0.0", "1.0.0", []byte(layer))
			r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
				if transport.KindOf(req) != transport.RequestBlob {
					return false
				}
				tc.blob(w)
				return true
			}
			change := tc.change
			if change == nil {
				change = func(*Options) {}
			}
			c := newClient(t, change)
			_, err := fetchLayer(t, c, r, dgst)
			if !errors.Is(err, tc.want) {
				t.Fatalf("error = %v, want %v", err, tc.want)
			}
			if got := r.count("GET blob"); got != tc.gets {
				t.Errorf("%d blob requests, want %d", got, tc.gets)
			}
			var own *ocierr.Error
			if errors.As(err, &own) && errors.Is(tc.want, ocierr.ErrRateLimited) && own.RetryAfter != 10*time.Minute {
				t.Errorf("RetryAfter = %s, want 10m", own.RetryAfter)
			}
			leftover, _ := filepath.Glob(filepath.Join(c.opts.Dir, "ingest", "*"))
			if len(leftover) > 0 {
				t.Errorf("left behind: %v", leftover)
			}
		})
	}
}

func TestBlobRedirectCarriesNoCredentials(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	dgst := r.push("1.0.0", "1.0.0", []byte("layer"))
	storage := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			t.Error("the storage host was given credentials")
		}
		_, _ = w.Write([]byte("layer"))
	}))
	storage.TLS = r.srv.TLS.Clone()
	storage.StartTLS()
	t.Cleanup(storage.Close)
	plain := newPlainServer(t)
	target := storage.URL
	r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestBlob || req.Header.Get("Authorization") == "" {
			return false
		}
		http.Redirect(w, req, target+"/signed?sig=planted-signature", http.StatusTemporaryRedirect)
		return true
	}
	c := newClient(t)
	if got, err := fetchLayer(t, c, r, dgst); err != nil || string(got) != "layer" {
		t.Fatalf("layer %q, %v", got, err)
	}
	target = "http://" + plain
	_, err := fetchLayer(t, newClient(t), r, dgst)
	if !errors.Is(err, ocierr.ErrTLS) {
		t.Fatalf("redirect to plain HTTP: error = %v, want ErrTLS", err)
	}
	noSecrets(t, err)
}

func newPlainServer(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a request came over plain HTTP")
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// TestPullsAreLimitedByStoreShare checks that the size of a running pull counts for the size of the store before its
// bytes arrive. Each host has a limit. A slow registry must not occupy memory or the rest of the store.
func TestPullsAreLimitedByStoreShare(t *testing.T) {
	t.Parallel()
	const size, maxBytes = 1 << 20, 16 << 20 // the pulls of one host may take an eighth: two layers
	slow, other := newRegistry(t), newRegistry(t)
	dir := t.TempDir()
	c := newClient(t, func(o *Options) { o.Dir, o.MaxBytes, o.MaxRequests = dir, maxBytes, 100 })
	content := func(r *fakeRegistry, n int) *Content {
		found, err := c.Fetch(t.Context(), r.url(), r.push("1.0.0", "1.0.0", bytes.Repeat([]byte{byte(n)}, size)), r.access())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	pull := func(from *Content) error { return from.PullLayer(t.Context(), from.Layers[0]) }
	for n := range 15 { // the store is then nearly full
		if err := pull(content(other, n)); err != nil {
			t.Fatal(err)
		}
	}
	gate := make(chan struct{})
	var asked atomic.Int64
	trickled := make([]*Content, 6)
	for n := range trickled {
		trickled[n] = content(slow, 100+n)
	}
	slow.setIntercept(func(http.ResponseWriter, *http.Request) bool {
		asked.Add(1)
		<-gate
		return false
	})
	var wg sync.WaitGroup
	for _, from := range trickled {
		wg.Go(func() {
			if err := pull(from); err != nil {
				t.Error(err)
			}
		})
	}
	g := NewWithT(t)
	g.Eventually(c.pulls.Waiting).Should(Equal(int64(4)), "the rest asks for nothing before there is room")
	g.Eventually(asked.Load).Should(Equal(int64(2)))
	g.Expect(c.pulls.InUse()).To(Equal(int64(2 * size)))
	if err := pull(content(other, 50)); err != nil {
		t.Errorf("of another registry: %v", err)
	}
	if err := pull(&Content{URL: slow.url(), client: c,
		Layers: []Layer{{Digest: trickled[0].Digest, Size: maxBytes + 1}}}); !errors.Is(err, ocierr.ErrTooLarge) {
		t.Errorf("what never fits: %v", err)
	}
	close(gate)
	wg.Wait()
	// If the store still reserved room for a pull that has ended, it would hold fewer layers.
	if err := pull(content(other, 51)); err != nil {
		t.Error(err)
	}
	if number, bytes := storedFiles(t, dir); bytes > maxBytes || bytes < 15*size {
		t.Errorf("%d bytes are stored in %d files, want at most %d and 15 layers", bytes, number, maxBytes)
	}
}
