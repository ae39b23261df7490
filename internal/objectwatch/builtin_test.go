// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestBuiltInKindsAreServed compares the table with the discovery of an API server.
func TestBuiltInKindsAreServed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for gvk, known := range builtIn {
		mapping, err := b.conn.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		served := resource{
			GroupVersionResource: mapping.Resource, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		}
		if known != served {
			t.Errorf("%s: got %+v, the API server has %+v", gvk, known, served)
		}
	}
}

func TestBuiltInKindsNeedNoDiscovery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	silent := &mapper{}
	b.conn.Mapper = silent
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	b.watcher.Follow(key("r"), b.conn, Plan{Objects: []inventory.Ref{deployment, config}, Drift: true})
	b.status(key("r"), deployment, health.Current)
	b.status(key("r"), config, health.Current)
	silent.mu.Lock()
	defer silent.mu.Unlock()
	if silent.asked != 0 {
		t.Errorf("%d discoveries", silent.asked)
	}
}

// TestUnservedBuiltInKindIsDiscovered checks a cluster that serves a built-in kind in another way than the table says.
func TestUnservedBuiltInKindIsDiscovered(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	t.Cleanup(w.cancel)
	l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}, Mapper: stubbornMapper{}})
	if err != nil {
		t.Fatal(err)
	}
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	resources := func() schema.GroupVersionResource {
		l.resolveKind(gvk)
		w.mu.Lock()
		defer w.mu.Unlock()
		return l.kinds[gvk].GroupVersionResource
	}
	if got := resources(); got != builtIn[gvk].GroupVersionResource {
		t.Errorf("first: %s", got)
	}
	w.mu.Lock()
	l.unservedLocked(builtIn[gvk].GroupVersionResource, errors.New("404"))
	w.mu.Unlock()
	for range 2 {
		if got := resources(); got.Resource != "nothings" {
			t.Errorf("after the cluster did not serve the resource: %s", got)
		}
	}
}
