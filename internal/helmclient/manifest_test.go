// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// discoveryServer serves ConfigMaps, with a configurable delay.
type discoveryServer struct {
	*httptest.Server
	// asked counts the discoveries. Each discovery takes delay.
	asked atomic.Int64
	delay atomic.Int64
	fails atomic.Bool
	// silent means that an API service for example.com does not respond.
	silent atomic.Bool
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
		if s.silent.Load() {
			version := map[string]any{"groupVersion": "example.com/v2", "version": "v2"}
			answers["/apis"]["groups"] = []any{map[string]any{"name": "example.com", "versions": []any{version},
				"preferredVersion": version}}
		}
		if r.URL.Path == "/version" {
			s.asked.Add(1)
			<-time.After(time.Duration(s.delay.Load()))
		}
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if r.URL.Path == "/apis/example.com/v2" && s.silent.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if !ok || s.fails.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// client returns a client with a cached manifest that has objects of kinds that the server does not serve.
func (s *discoveryServer) client(t *testing.T) (*Client, model.Target) {
	t.Helper()
	c, target := New(testRunner), model.Target{Key: "fleet/one", Config: &rest.Config{Host: s.URL}}
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	for i := range 6 {
		manifest += fmt.Sprintf("---\napiVersion: example.com/v1\nkind: Kind%d\nmetadata:\n  name: b\n", i)
	}
	c.manifests.Put(releaseKey(target, "apps", "web"), 1, manifest)
	return c, target
}

// kubeClient returns a client for a release in the namespace apps.
func (s *discoveryServer) kubeClient(t *testing.T) *apply.Client {
	t.Helper()
	c, target := s.client(t)
	conn, err := c.connections.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	return apply.NewClient(t.Context(), &connections.Getter{Conn: conn, Config: conn.RestConfig(t.Context())}, "apps",
		func(string, ...any) {})
}

// knownKindsOf returns the kinds of a cluster that a client has discovered.
func knownKindsOf(t *testing.T, c *Client, target model.Target) *connections.Kinds {
	t.Helper()
	conn, err := c.connections.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	return conn.Kinds
}

// manifestOf returns the objects of a Helm revision, for tests without a bound for the memory. It caches the manifest.
func manifestOf(ctx context.Context, c *Client, target model.Target, namespace, name string, revision int,
) (objects []*unstructured.Unstructured, err error) {
	err = c.Manifest(ctx, target, namespace, name, revision, true,
		func(all []*unstructured.Unstructured) { objects = all })
	return objects, err
}

// TestManifestDiscoversUnknownKindsOnce checks that one call runs discovery only once for the unknown kinds of a
// manifest. This must also hold if discovery fails or takes longer than the deadline of the caller.
func TestManifestDiscoversUnknownKindsOnce(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	c, target := server.client(t)
	objects, err := manifestOf(t.Context(), c, target, "apps", "web", 1)
	if err != nil || len(objects) != 7 || objects[0].GetNamespace() != "apps" || objects[1].GetNamespace() != "apps" {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	// The known kinds are old enough for another discovery.
	kinds := knownKindsOf(t, c, target)
	age := func() {
		kinds.Mu.Lock()
		defer kinds.Mu.Unlock()
		kinds.UnknownAt = time.Time{}
	}
	for name, fails := range map[string]bool{"answered": false, "refused": true} {
		server.fails.Store(fails)
		server.asked.Store(0)
		age()
		if objects, err := manifestOf(t.Context(), c, target, "apps", "web", 1); err != nil ||
			objects[0].GetNamespace() != "apps" {
			t.Errorf("%s: %v", name, err)
		}
		if asked := server.asked.Load(); asked != 1 {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
	server.fails.Store(false)
	server.asked.Store(0)
	// On a busy machine, a short deadline passes before the server is asked.
	for wait := 50 * time.Millisecond; server.asked.Load() == 0 && wait < time.Minute; wait *= 4 {
		server.delay.Store(int64(2 * wait))
		age()
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := manifestOf(ctx, c, target, "apps", "web", 1)
		cancel()
		if !errors.Is(err, helmerr.ErrUnreachable) {
			t.Errorf("the deadline passed, but: %v", err)
		}
	}
	if asked := server.asked.Load(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestManifestHoldsMemory checks that the memory for the objects of a manifest is reserved while they are used, also if
// the use panics, and only then.
func TestManifestHoldsMemory(t *testing.T) {
	t.Parallel()
	c, target := newDiscoveryServer(t).client(t)
	large := helmtest.ConfigMap("large", strings.Repeat("x", 1<<20))
	c.manifests.Put(releaseKey(target, "apps", "web"), 1, large)
	budget := c.connections.Shared.Actions
	for _, panics := range []bool{false, true} {
		used, held := 0, int64(0)
		use := func(objects []*unstructured.Unstructured) {
			used, held = used+len(objects), budget.Used()
			if panics {
				panic("a bug")
			}
		}
		func() {
			defer func() { _ = recover() }()
			if err := c.Manifest(t.Context(), target, "apps", "web", 1, false, use); err != nil {
				t.Error(err)
			}
		}()
		if used != 1 || held < 1<<20 || budget.Used() != 0 {
			t.Errorf("panics: %t, used %d with %d bytes, %d bytes are left", panics, used, held, budget.Used())
		}
	}
}

// TestManifestWithoutDiscovery checks that no namespace is guessed if discovery fails.
func TestManifestWithoutDiscovery(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	c, target := server.client(t)
	server.fails.Store(true)
	if objects, err := manifestOf(t.Context(), c, target, "apps", "web", 1); err == nil {
		t.Errorf("%d objects", len(objects))
	}
}

// TestUnknownKindIntervalStartsAfterDiscovery checks that the interval between two discoveries begins when the first
// ends.
func TestUnknownKindIntervalStartsAfterDiscovery(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	c, target := server.client(t)
	kinds := knownKindsOf(t, c, target)
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	kinds.Now = func() time.Time {
		// Each discovery takes longer than the interval.
		if server.asked.Load() > 1 {
			return time.Unix(0, now.Load()).Add(2 * connections.UnknownKindInterval)
		}
		return time.Unix(0, now.Load())
	}
	for range 2 {
		if _, err := manifestOf(t.Context(), c, target, "apps", "web", 1); err != nil {
			t.Fatal(err)
		}
	}
	if asked := server.asked.Load(); asked != 2 {
		t.Errorf("asked %d times; once for what the cluster serves and once for what it does not is enough", asked)
	}
	now.Add(int64(4 * connections.UnknownKindInterval))
	if _, err := manifestOf(t.Context(), c, target, "apps", "web", 1); err != nil || server.asked.Load() != 3 {
		t.Errorf("asked %d times, %v", server.asked.Load(), err)
	}
}

// TestManifestWithUnresponsiveAPIService checks that no namespace is guessed if an API service for the kind's group
// does not respond. After the API service is deleted, the kind counts as not served.
func TestManifestWithUnresponsiveAPIService(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	server.silent.Store(true)
	c, target := server.client(t)
	objects, err := manifestOf(t.Context(), c, target, "apps", "web", 1)
	if !errors.Is(err, helmerr.ErrUnreachable) || !strings.Contains(err.Error(), "Kind0 of example.com/v1") {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	mapper := knownKindsOf(t, c, target).Mapper()
	_, kindErr := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Kind0"})
	_, resourceErr := mapper.ResourceFor(schema.GroupVersionResource{Group: "example.com", Resource: "kind0s"})
	for _, err := range []error{kindErr, resourceErr} {
		if meta.IsNoMatchError(err) || !connections.IsUnmapped(err) || !errors.Is(err, &discovery.ErrGroupDiscoveryFailed{}) {
			t.Errorf("taken for a kind that is not served: %v", err)
		}
		// Helm's builders keep only the text of an error.
		flat := fmt.Errorf("unable to build kubernetes objects from release manifest: unable to recognize %q: %v", "",
			err) //nolint:errorlint // as they do
		if kind := helmerr.Classify(flat); !errors.Is(kind, helmerr.ErrUnreachable) ||
			!errors.Is(helmerr.Classify(err), helmerr.ErrUnreachable) {
			t.Errorf("%v is of the kind %v", flat, kind)
		}
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "example.org", Kind: "Other"}); !meta.IsNoMatchError(err) {
		t.Errorf("another group's API service counts: %v", err)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Kind: "ConfigMap"}); err != nil {
		t.Error(err)
	}
	server.silent.Store(false)
	mapper.Reset()
	if objects, err := manifestOf(t.Context(), c, target, "apps", "web", 1); err != nil || len(objects) != 7 {
		t.Errorf("%d objects, %v", len(objects), err)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Kind0"}); !meta.IsNoMatchError(err) {
		t.Errorf("the API service is gone, but: %v", err)
	}
}

// TestUninstallWithUnresponsiveAPIService checks that an uninstallation does not skip an object whose kind may be
// served in another version than the manifest has. It skips the object after the API service is deleted.
func TestUninstallWithUnresponsiveAPIService(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	server.silent.Store(true)
	k := server.kubeClient(t)
	k.Lenient = true
	const manifest = "apiVersion: example.com/v1\nkind: Kind0\nmetadata:\n  name: b\n"
	if resources, err := k.Build(strings.NewReader(manifest), false); !errors.Is(helmerr.Classify(err),
		helmerr.ErrUnreachable) {
		t.Errorf("%d objects, %v", len(resources), err)
	}
	server.silent.Store(false)
	k.Clients.Conn.Kinds.Invalidate()
	if resources, err := k.Build(strings.NewReader(manifest), false); err != nil || len(resources) != 0 {
		t.Errorf("%d objects, %v", len(resources), err)
	}
}

// TestDeletionRediscoversOnce checks that discovery runs once for objects of a kind whose path the cluster does not
// serve.
func TestDeletionRediscoversOnce(t *testing.T) {
	t.Parallel()
	server := newDiscoveryServer(t)
	k := server.kubeClient(t)
	var manifest strings.Builder
	for i := range 20 {
		fmt.Fprintf(&manifest, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a%d\n  namespace: apps\n", i)
	}
	resources, err := k.Build(strings.NewReader(manifest.String()), false)
	if err != nil {
		t.Fatal(err)
	}
	kinds := k.Clients.Conn.Kinds
	before, asked := kinds.Invalid, server.asked.Load()
	k.DeleteAll(resources, apply.Deletion{Policy: metav1.DeletePropagationBackground})
	if n, asked := kinds.Invalid-before, server.asked.Load()-asked; n != 1 || asked != 1 {
		t.Errorf("invalidated %d times, asked %d times", n, asked)
	}
}
