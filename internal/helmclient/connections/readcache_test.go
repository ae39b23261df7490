// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// cachedServer returns the number of the request, and counts requests.
type cachedServer struct {
	t      *testing.T
	url    string
	cache  *readCache
	now    time.Time
	served atomic.Int64
	// answer replaces the response, if set.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

func newCachedServer(t *testing.T) *cachedServer {
	t.Helper()
	s := &cachedServer{t: t, now: helmtest.Now}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.served.Add(1)
		if s.answer != nil && s.answer(w, r) {
			return
		}
		_, _ = fmt.Fprintf(w, "%d", n)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.cache = newReadCache(http.DefaultTransport, "/k8s/one", records.NewNameSet(), time.Now)
	s.cache.now = func() time.Time { return s.now }
	return s
}

// do sends a request through the cache and returns the status and the body.
func (s *cachedServer) do(method, path string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/k8s/one"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.cache.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const (
	cachedObject = "/apis/apps/v1/namespaces/a/deployments/d"
	otherObject  = "/api/v1/namespaces/a/configmaps/c"
)

// TestReadCacheTTLAndWrites checks how long a response is used again, and which requests drop it.
func TestReadCacheTTLAndWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object string
		// between is called between the first and the second read.
		between func(s *cachedServer)
		fresh   bool
	}{
		"nothing":        {object: cachedObject},
		"cluster-scoped": {object: "/apis/rbac.authorization.k8s.io/v1/clusterroles/r"},
		"a namespace":    {object: "/api/v1/namespaces/a"},
		"half a second":  {object: cachedObject, between: func(s *cachedServer) { s.now = s.now.Add(readTTL / 2) }},
		"a second": {object: cachedObject, between: func(s *cachedServer) { s.now = s.now.Add(readTTL) },
			fresh: true},
		"write to another": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodPatch, otherObject) }},
		"write to a sibling": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodPut, cachedObject+"2") }},
		"read of another": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodGet, otherObject) }},
		"patch": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodPatch, cachedObject) }, fresh: true},
		"deletion": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodDelete, cachedObject) }, fresh: true},
		"write to its status": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodPut, cachedObject+"/status") }, fresh: true},
		"creation in its list": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodPost, "/apis/apps/v1/namespaces/a/deployments") }, fresh: true},
		"deletion of namespace": {object: otherObject,
			between: func(s *cachedServer) { s.do(http.MethodDelete, "/api/v1/namespaces/a") }, fresh: true},
		"watch": {object: cachedObject,
			between: func(s *cachedServer) { s.do(http.MethodGet, "/apis/batch/v1/namespaces/a/jobs?watch=true") }, fresh: true},
		"list":                   {object: "/api/v1/namespaces/a/configmaps", fresh: true},
		"list of all":            {object: "/api/v1/configmaps", fresh: true},
		"part":                   {object: cachedObject + "/scale", fresh: true},
		"Helm's record":          {object: "/api/v1/namespaces/a/secrets/sh.helm.release.v1.demo.v1", fresh: true},
		"a Secret of the chart":  {object: "/api/v1/namespaces/a/secrets/token"},
		"version of the server":  {object: "/version", fresh: true},
		"kinds of a version":     {object: "/apis/apps/v1", fresh: true},
		"old way to watch a pod": {object: "/api/v1/watch/namespaces/a/pods/p", fresh: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCachedServer(t)
			_, first := s.do(http.MethodGet, test.object)
			if test.between != nil {
				test.between(s)
			}
			if _, second := s.do(http.MethodGet, test.object); (second != first) != test.fresh {
				t.Errorf("first %s, then %s", first, second)
			}
		})
	}
}

// TestReadCacheKeepsFewHeaders checks that a server cannot fill the memory with headers.
func TestReadCacheKeepsFewHeaders(t *testing.T) {
	t.Parallel()
	s := newCachedServer(t)
	s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Large", strings.Repeat("a", 1<<10))
		return false
	}
	s.do(http.MethodGet, cachedObject)
	for _, read := range s.cache.reads {
		if len(read.header) != 1 || read.header.Get("Content-Type") != "application/json" {
			t.Errorf("got %v", read.header)
		}
	}
	if len(s.cache.reads) != 1 {
		t.Errorf("%d responses are cached", len(s.cache.reads))
	}
}

// TestReadCacheDropsReadDuringWrite checks that the response to a read during a write is not cached.
func TestReadCacheDropsReadDuringWrite(t *testing.T) {
	t.Parallel()
	s := newCachedServer(t)
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && s.served.Load() == 1 {
			s.do(http.MethodPatch, cachedObject)
		}
		return false
	}
	_, first := s.do(http.MethodGet, cachedObject)
	if _, second := s.do(http.MethodGet, cachedObject); second == first {
		t.Error("a response from before a write was used after the write")
	}
}

// TestReadCachePassesThroughResponses checks which responses are not cached but returned unchanged.
func TestReadCachePassesThroughResponses(t *testing.T) {
	t.Parallel()
	s := newCachedServer(t)
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/large") {
			_, _ = w.Write(make([]byte, maxReadBytes+1))
			return true
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	for range 2 {
		if status, body := s.do(http.MethodGet, "/api/v1/namespaces/a/configmaps/large"); status != http.StatusOK ||
			len(body) != maxReadBytes+1 {
			t.Errorf("got %d and %d bytes", status, len(body))
		}
		if status, _ := s.do(http.MethodGet, cachedObject); status != http.StatusServiceUnavailable {
			t.Errorf("got %d", status)
		}
	}
	if n := s.served.Load(); n != 4 || len(s.cache.reads) != 0 {
		t.Errorf("%d requests, %d responses are cached", n, len(s.cache.reads))
	}
	s.answer = nil
	for i := range 3 * maxReads {
		s.do(http.MethodGet, fmt.Sprintf("/api/v1/namespaces/a/configmaps/c%d", i))
	}
	if n := len(s.cache.reads); n > maxReads {
		t.Errorf("%d answers are kept", n)
	}
}

// TestReadCacheMissingNamespace checks that no object is read in a missing namespace until the namespace may exist.
func TestReadCacheMissingNamespace(t *testing.T) {
	t.Parallel()
	s := newCachedServer(t)
	var exists atomic.Bool
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && (!exists.Load() || !strings.HasSuffix(r.URL.Path, "/namespaces/a")) {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	}
	look := func(from, to int) (requests int64) {
		before := s.served.Load()
		for i := from; i < to; i++ {
			status, body := s.do(http.MethodGet, fmt.Sprintf("/apis/apps/v1/namespaces/a/deployments/d%d", i))
			if status != http.StatusNotFound {
				t.Fatalf("got %d", status)
			}
			if body != "" && !strings.Contains(body, fmt.Sprintf(`deployments.apps \"d%d\" not found`, i)) {
				t.Errorf("got %s", body)
			}
		}
		return s.served.Load() - before
	}
	if n := look(0, 9); n != 2 {
		t.Errorf("nine objects need %d requests", n)
	}
	s.now = s.now.Add(readTTL)
	if n := look(10, 19); n != 2 {
		t.Errorf("nine objects after the TTL need %d requests", n)
	}
	s.do(http.MethodPost, "/api/v1/namespaces")
	exists.Store(true)
	// One request is for the namespace.
	if n := look(20, 29); n != 10 {
		t.Errorf("nine objects after the creation of the namespace need %d requests", n)
	}
	// An existing namespace is checked only once.
	other := newCachedServer(t)
	exists.Store(true)
	other.answer = s.answer
	for i := range 3 {
		other.do(http.MethodGet, fmt.Sprintf("/apis/apps/v1/namespaces/a/deployments/d%d", i))
	}
	if n := other.served.Load(); n != 4 {
		t.Errorf("three objects in an existing namespace need %d requests", n)
	}
}

// TestReadCacheAssumesMissingNamespace checks that, after assumeMissing, reads of objects in this namespace find
// nothing and need no request, until a namespace is written. assumeMissing does nothing for a namespace that is known
// to exist.
func TestReadCacheAssumesMissingNamespace(t *testing.T) {
	t.Parallel()
	s := newCachedServer(t)
	if !s.cache.assumeMissing("a") {
		t.Error("an unknown namespace cannot be assumed to be missing")
	}
	for _, path := range []string{cachedObject, otherObject} {
		if status, _ := s.do(http.MethodGet, path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if n := s.served.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if status, _ := s.do(http.MethodGet, "/api/v1/namespaces/b/configmaps/c"); status != http.StatusOK {
		t.Errorf("an object in another namespace: %d", status)
	}
	s.do(http.MethodPost, "/api/v1/namespaces")
	if status, _ := s.do(http.MethodGet, cachedObject); status != http.StatusOK {
		t.Errorf("after a write: %d", status)
	}
	s.cache.existing.Add("a")
	if s.cache.assumeMissing("a") {
		t.Error("a namespace that exists is assumed to be missing")
	}
}
