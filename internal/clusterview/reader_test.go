// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
)

// failingReader is a reader whose reads all fail.
type failingReader struct {
	client.Reader
	err error
}

func (r failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.err
}

// TestReadUnreadableKind checks that the error contains advice, and that there is a separate error for a kind that is
// being read for the first time.
func TestReadUnreadableKind(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Group: "infrastructure.example", Kind: "ExampleCluster"}
	for name, tc := range map[string]struct {
		err       error
		want      string
		isPending bool
	}{
		"forbidden": {
			err: &kindcache.UnreadableError{Kind: kind,
				Reason: "the manager may not list exampleclusters.infrastructure.example"},
			want: "cannot be read: the manager may not list exampleclusters.infrastructure.example; allow the manager to " +
				"list and watch its kind",
		},
		"too many": {err: kindcache.ErrTooMany, want: "delete Clusters or correct their references"},
		"pending":  {err: kindcache.ErrPending, want: "its kind is being read for the first time", isPending: true},
	} {
		objects := NewReader(failingReader{err: fmt.Errorf("reading: %w", tc.err)}, nil)
		objects.versions[kind] = knownVersion{version: schema.GroupVersion{Group: kind.Group, Version: "v1"},
			since: time.Now()}
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet"}}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind,
			Name: "one"}
		_, err := objects.Read(t.Context(), apiutil.NewCluster(), cluster)
		if err == nil || !strings.Contains(err.Error(),
			"infrastructure object ExampleCluster.infrastructure.example fleet/one") ||
			!strings.Contains(err.Error(), tc.want) || errors.Is(err, kindcache.ErrPending) != tc.isPending {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

// TestReadClusterScopedKind checks that a reference to a cluster-scoped object is refused: a cache ignores the
// namespace for such a kind, and the object may belong to another tenant.
func TestReadClusterScopedKind(t *testing.T) {
	t.Parallel()
	const want = "its kind is cluster-scoped"
	kind := schema.GroupKind{Group: "infrastructure.example", Kind: "ExampleIdentity"}
	for _, namespace := range []string{"fleet", ""} {
		objects := NewReader(readerOf(namespace), nil)
		objects.versions[kind] = knownVersion{version: schema.GroupVersion{Group: kind.Group, Version: "v1"},
			since: time.Now()}
		_, err := objects.ReadRef(t.Context(), &Objects{}, "infrastructure", "fleet",
			clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: "one"})
		if (err != nil) != (namespace == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("for an object in the namespace %q: %v", namespace, err)
		}
	}
}

// readerOf is a reader whose reads all return an object of a namespace.
type readerOf string

// Get implements client.Reader.
func (r readerOf) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetName(key.Name)
	object.SetNamespace(string(r))
	return nil
}

// List implements client.Reader.
func (r readerOf) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// TestClustersAreConvertedOncePerVersion also checks that the cache never returns another Cluster.
func TestClustersAreConvertedOncePerVersion(t *testing.T) {
	t.Parallel()
	objects := NewReader(nil, nil)
	read := func(name, uid, version string, labels map[string]string) string {
		u := apiutil.NewCluster()
		u.SetName(name)
		u.SetUID(types.UID(uid))
		u.SetResourceVersion(version)
		u.SetLabels(labels)
		cluster, err := objects.Typed(u)
		if err != nil {
			t.Fatal(err)
		}
		return cluster.Labels["cni"]
	}
	calico, cilium := map[string]string{"cni": "calico"}, map[string]string{"cni": "cilium"}
	for _, step := range []struct {
		about, name, uid, version string
		labels                    map[string]string
		want                      string
	}{
		{"first", "one", "1", "10", calico, "calico"},
		{"same resource version", "one", "1", "10", cilium, "calico"},
		{"changed", "one", "1", "11", cilium, "cilium"},
		{"another one of the same version", "two", "2", "11", calico, "calico"},
		{"without a UID", "three", "", "11", calico, "calico"},
		{"another one without a UID", "four", "", "11", cilium, "cilium"},
	} {
		if got := read(step.name, step.uid, step.version, step.labels); got != step.want {
			t.Errorf("%s: the label is %q, want %q", step.about, got, step.want)
		}
	}
}
