// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestScopeOfUnservedVersion checks that an object gets no namespace if its kind is cluster-scoped, although the
// cluster serves the kind only in another version.
func TestScopeOfUnservedVersion(t *testing.T) {
	t.Parallel()
	served := schema.GroupVersion{Group: "example.com", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{served})
	mapper.Add(served.WithKind("ClusterWidget"), meta.RESTScopeRoot)
	mapper.Add(served.WithKind("Widget"), meta.RESTScopeNamespace)
	for name, tc := range map[string]struct{ version, kind, named, want string }{
		"cluster-scoped":                  {"v1", "ClusterWidget", "", ""},
		"cluster-scoped, former version":  {"v1beta1", "ClusterWidget", "", ""},
		"namespaced":                      {"v1", "Widget", "", "apps"},
		"namespaced, former version":      {"v1beta1", "Widget", "", "apps"},
		"namespaced, with its namespace":  {"v1beta1", "Widget", "other", "other"},
		"a kind that is not served":       {"v1", "Gadget", "", "apps"},
		"cluster-scoped with a namespace": {"v1beta1", "ClusterWidget", "other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &Namespaces{mapper: mapper, release: "apps", scoped: map[schema.GroupVersionKind]bool{}}
			gvk := schema.GroupVersionKind{Group: served.Group, Version: tc.version, Kind: tc.kind}
			if got := n.Of(gvk, tc.named); got != tc.want || n.Err != nil {
				t.Errorf("namespace %q, error %v", got, n.Err)
			}
		})
	}
}
