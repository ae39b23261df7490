// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countingMapper counts its calls.
type countingMapper struct {
	meta.RESTMapper
	asked int
}

func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.asked++
	return m.RESTMapper.RESTMapping(kind, versions...)
}

func TestMappingsAreCached(t *testing.T) {
	t.Parallel()
	served := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "cluster.x-k8s.io", Version: "v1beta2"}})
	inner := &countingMapper{RESTMapper: served}
	mapper := &steadyMapper{RESTMapper: inner}
	cluster := schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}

	for range 2 {
		if _, err := mapper.RESTMapping(cluster, "v1beta2"); !meta.IsNoMatchError(err) {
			t.Fatalf("the error is %v, want that there is no such kind", err)
		}
	}
	if inner.asked != 2 {
		t.Errorf("asked %d times for what was not served, want each time", inner.asked)
	}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		served.Add(cluster.WithVersion(version), meta.RESTScopeNamespace)
	}
	for range 3 {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			mapping, err := mapper.RESTMapping(cluster, version)
			if err != nil || mapping.Resource.Version != version || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
				t.Fatalf("%s is mapped to %+v, %v", version, mapping, err)
			}
		}
	}
	if inner.asked != 4 {
		t.Errorf("asked %d times, want once for each version that is served", inner.asked)
	}
	for range 2 {
		if _, err := mapper.RESTMapping(cluster); err != nil {
			t.Fatal(err)
		}
	}
	if inner.asked != 6 {
		t.Errorf("asked %d times, want each time for the preferred version", inner.asked)
	}
}
