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

package helmclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// discoveryServer serves ConfigMaps and says how long an answer takes.
type discoveryServer struct {
	*httptest.Server
	// asked counts the questions; each takes as long as delay.
	asked atomic.Int64
	delay atomic.Int64
	fails atomic.Bool
}

func newDiscoveryServer(t *testing.T) *discoveryServer {
	t.Helper()
	s := &discoveryServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]map[string]any{
			"/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
			"/api":     {"kind": "APIVersions", "versions": []string{"v1"}},
			"/apis":    {"kind": "APIGroupList", "groups": []any{}},
			"/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
				map[string]any{"name": "configmaps", "kind": "ConfigMap", "namespaced": true},
			}},
		}
		if r.URL.Path == "/version" {
			s.asked.Add(1)
			<-time.After(time.Duration(s.delay.Load()))
		}
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok || s.fails.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// client returns one that remembers a manifest with some objects of kinds that the server does not know.
func (s *discoveryServer) client(t *testing.T) (*Client, Target) {
	t.Helper()
	c, target := New(), Target{Key: "fleet/one", Config: &rest.Config{Host: s.URL}}
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	for i := range 6 {
		manifest += fmt.Sprintf("---\napiVersion: example.com/v1\nkind: Kind%d\nmetadata:\n  name: b\n", i)
	}
	c.manifests.put(manifestKey{cluster: target.Key, namespace: "apps", name: "web"}, 1, manifest)
	return c, target
}

// knownKindsOf returns what a client knows of the kinds of a cluster.
func knownKindsOf(t *testing.T, c *Client, target Target) *kinds {
	t.Helper()
	conn, err := c.connections.get(target)
	if err != nil {
		t.Fatal(err)
	}
	return conn.kinds
}

// TestManifestAsksOnceForUnknownKinds holds that the kinds of a manifest that the cluster does not know are asked for once,
// however long the answer takes and whatever it is, and that the caller's deadline counts.
func TestManifestAsksOnceForUnknownKinds(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	c, target := server.client(t)
	objects, err := c.Manifest(t.Context(), target, "apps", "web", 1)
	if err != nil || len(objects) != 7 || objects[0].GetNamespace() != "apps" || objects[1].GetNamespace() != "" {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	// What is known is old enough for being asked for again.
	kinds := knownKindsOf(t, c, target)
	age := func() {
		kinds.mu.Lock()
		defer kinds.mu.Unlock()
		kinds.unknownAt = time.Time{}
	}
	for name, fails := range map[string]bool{"answered": false, "refused": true} {
		server.fails.Store(fails)
		server.asked.Store(0)
		age()
		if objects, err := c.Manifest(t.Context(), target, "apps", "web", 1); err != nil || objects[0].GetNamespace() != "apps" {
			t.Errorf("%s: %v", name, err)
		}
		if asked := server.asked.Load(); asked != 1 {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
	server.fails.Store(false)
	server.delay.Store(int64(100 * time.Millisecond))
	server.asked.Store(0)
	age()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Manifest(ctx, target, "apps", "web", 1); !errors.Is(err, ErrUnreachable) {
		t.Errorf("the deadline passed, but: %v", err)
	}
	if asked := server.asked.Load(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestManifestOfUnknownCluster holds that no namespace is guessed where it cannot be learned what has one.
func TestManifestOfUnknownCluster(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	c, target := server.client(t)
	server.fails.Store(true)
	if objects, err := c.Manifest(t.Context(), target, "apps", "web", 1); err == nil {
		t.Errorf("%d objects", len(objects))
	}
}

// TestUnknownKindIsAskedForAfterAWhile holds that the interval between two questions begins when the first ends.
func TestUnknownKindIsAskedForAfterAWhile(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	c, target := server.client(t)
	kinds := knownKindsOf(t, c, target)
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	kinds.now = func() time.Time {
		// Each question takes longer than the interval.
		if server.asked.Load() > 1 {
			return time.Unix(0, now.Load()).Add(2 * unknownKindInterval)
		}
		return time.Unix(0, now.Load())
	}
	for range 2 {
		if _, err := c.Manifest(t.Context(), target, "apps", "web", 1); err != nil {
			t.Fatal(err)
		}
	}
	if asked := server.asked.Load(); asked != 2 {
		t.Errorf("asked %d times; once for what the cluster serves and once for what it does not is enough", asked)
	}
	now.Add(int64(4 * unknownKindInterval))
	if _, err := c.Manifest(t.Context(), target, "apps", "web", 1); err != nil || server.asked.Load() != 3 {
		t.Errorf("asked %d times, %v", server.asked.Load(), err)
	}
}
