// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// release is the JSON of a HelmOpRelease of a HelmOp in one of many Clusters.
func release(i int) []byte {
	const digest = "sha256:a16cb2aa5d348332ec89bc53697350a3a590190653a82da3c0b80c761bdc5feb"
	now := metav1.Unix(1_800_000_000, 0)
	r := addonsv1.HelmOpRelease{TypeMeta: metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(),
		Kind: "HelmOpRelease"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet", Name: fmt.Sprintf("web-cluster-%d", i), UID: "b981a32e-4e0e-4ea8-bbac-fecc11b28499",
		Labels: map[string]string{"addons.cluster.x-k8s.io/helmop-name": "web",
			"cluster.x-k8s.io/cluster-name": fmt.Sprintf("cluster-%d", i)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: addonsv1.GroupVersion.String(), Kind: "HelmOp", Name: "web",
			UID: "9d251cfe-650f-4b98-8726-14f9ff20d20b"}},
	}}
	r.Spec.ClusterRef.Name = fmt.Sprintf("cluster-%d", i)
	r.Spec.Artifact = addonsv1.ResolvedArtifact{URL: "oci://registry.example.com/charts/web", Digest: digest, Tag: "1.0.0"}
	r.Spec.ValuesDigest = digest
	for _, kind := range []string{"Ready", "ClusterReachable", "Healthy", "Released", "Paused"} {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue,
			Reason: kind + "Reason", Message: "Helm revision 1 is deployed", LastTransitionTime: now})
	}
	r.Status.History = []addonsv1.ReleaseAction{{Action: "Install", Reason: "NotInstalled", ArtifactDigest: digest,
		ValuesDigest: digest, Time: now}}
	r.Status.Release = &addonsv1.ReleaseObservation{Status: "deployed", Chart: "web", ArtifactDigest: digest}
	data, err := json.Marshal(&r)
	if err != nil {
		panic(err)
	}
	return data
}

// TestCompactKeepsContent checks that objects have the same content as before, and that equal strings share memory.
func TestCompactKeepsContent(t *testing.T) {
	t.Parallel()
	for name, decode := range map[string]func() metav1.Object{
		"typed":        func() metav1.Object { return &addonsv1.HelmOpRelease{} },
		"unstructured": func() metav1.Object { return &unstructured.Unstructured{} },
	} {
		// Two strings of an object may have the same hash value, and replace each other. This is rare.
		shares := false
		for range 5 {
			pool := New()
			first, second := compacted(t, pool, decode), compacted(t, pool, decode)
			shares = shares || isSame(first.GetNamespace(), second.GetNamespace()) &&
				isSame(nameKey(first), nameKey(second))
		}
		if !shares {
			t.Errorf("%s: equal strings do not share memory", name)
		}
	}
}

// compacted decodes an object and compacts it.
func compacted(t *testing.T, pool *Pool, decode func() metav1.Object) metav1.Object {
	t.Helper()
	object, want := decode(), decode()
	for _, into := range []any{object, want} {
		if err := json.Unmarshal(release(1), into); err != nil {
			t.Fatal(err)
		}
	}
	pool.Compact(object)
	if !reflect.DeepEqual(object, want) {
		t.Fatalf("got %+v, want %+v", object, want)
	}
	return object
}

// nameKey returns the key of a label as the object has it.
func nameKey(object metav1.Object) string {
	for key := range object.GetLabels() {
		if strings.HasSuffix(key, "helmop-name") {
			return key
		}
	}
	return ""
}

// isSame reports whether two strings have the same memory.
func isSame(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }

// TestSlicesHaveNoUnusedCapacity checks typed and unstructured lists.
func TestSlicesHaveNoUnusedCapacity(t *testing.T) {
	t.Parallel()
	object := &struct {
		Strings, None, Empty []string
		Bytes                []byte
		Any                  map[string]any
	}{
		Strings: make([]string, 1, 4), Empty: make([]string, 0, 4), Bytes: make([]byte, 1, 4),
		Any: map[string]any{"list": make([]any, 1, 4)},
	}
	New().Compact(object)
	if cap(object.Strings) != 1 || object.None != nil || object.Empty == nil || cap(object.Empty) != 0 ||
		cap(object.Bytes) != 1 || cap(object.Any["list"].([]any)) != 1 {
		t.Errorf("got %#v", object)
	}
}

// TestCompactIsSafe checks values of all kinds, and concurrent use.
func TestCompactIsSafe(t *testing.T) {
	t.Parallel()
	type part struct {
		Text    string
		private string
		Any     any
		None    *part
		List    []any
		Map     map[string][]byte
	}
	pool := New()
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for i := range 100 {
				long := strings.Repeat("x", maxLength+1)
				object := &part{Text: fmt.Sprint(i), private: "p", Any: "any", List: []any{"a", 1, nil, []any{long}},
					Map: map[string][]byte{"k": nil}}
				pool.Compact(object)
				pool.Compact(*object)
				pool.Compact(nil)
				if object.Text != fmt.Sprint(i) || object.private != "p" || object.Any != "any" ||
					!reflect.DeepEqual(object.List, []any{"a", 1, nil, []any{long}}) {
					t.Errorf("got %+v", object)
				}
			}
		})
	}
	running.Wait()
}

// BenchmarkCompact reports the memory of a HelmOpRelease in a cache, and the time of Compact.
func BenchmarkCompact(b *testing.B) {
	for name, compact := range map[string]func(any){"as decoded": func(any) {}, "compact": New().Compact} {
		b.Run(name, func(b *testing.B) {
			kept := make([]*addonsv1.HelmOpRelease, b.N)
			before := heap()
			for i := range kept {
				b.StopTimer()
				kept[i] = &addonsv1.HelmOpRelease{}
				if err := json.Unmarshal(release(i), kept[i]); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				compact(kept[i])
			}
			b.ReportMetric(float64(heap()-before)/float64(b.N), "B/release")
			runtime.KeepAlive(kept)
		})
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
