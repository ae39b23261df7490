// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// object1 is the response of an API server for an object of a kind with generations.
const object1 = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  uid: u
  generation: 3
  resourceVersion: "7"
  labels: {a: b, c: d}
  annotations: {x: one, deployment.kubernetes.io/revision: "4"}
  managedFields:
  - {manager: helmop, operation: Update, time: "2026-01-01T00:00:05Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}
  - {manager: kubectl-edit, operation: Update, time: "2026-01-01T00:00:01Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}
  - {manager: kube-controller-manager, operation: Update, subresource: status, time: "2026-01-01T00:00:09Z", fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}
`

func decode(t *testing.T, text string, change func(map[string]any)) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(content["metadata"].(map[string]any))
	}
	obj := &unstructured.Unstructured{Object: content}
	data, err := obj.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

func fingerprintOf(obj metav1.Object, kind schema.GroupKind) uint64 {
	return fingerprint(kind, obj, managedEntries(obj))
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	set := func(key string, value any) func(map[string]any) {
		return func(m map[string]any) { m[key] = value }
	}
	entry := func(i int, key string, value any) func(map[string]any) {
		return func(m map[string]any) { m["managedFields"].([]any)[i].(map[string]any)[key] = value }
	}
	deployments, services, configMaps := schema.GroupKind{Group: "apps", Kind: "Deployment"},
		schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "ConfigMap"}
	same := func(map[string]any) {}
	withoutGeneration := func(m map[string]any) { delete(m, "generation") }
	locked := func(holder string) func(map[string]any) {
		return func(m map[string]any) { m["annotations"].(map[string]any)[leaderAnnotation] = holder }
	}
	for _, tt := range []struct {
		name    string
		kind    schema.GroupKind
		change  func(map[string]any)
		both    func(map[string]any)
		differs bool
	}{
		{"nothing", deployments, same, same, false},
		{"generation", deployments, set("generation", 4), same, true},
		{"uid", deployments, set("uid", "v"), same, true},
		{"deletion", deployments, set("deletionTimestamp", "2026-01-01T00:00:00Z"), same, true},
		{"labels", deployments, set("labels", map[string]any{"a": "b", "c": "e"}), same, true},
		{"labels that only look alike", deployments, set("labels", map[string]any{"a": "bc", "d": ""}), same, true},
		{"annotations", deployments, set("annotations", map[string]any{"x": "two"}), same, true},
		{"annotations of controllers", deployments,
			set("annotations", map[string]any{"x": "one", "deployment.kubernetes.io/revision": "5"}), same, false},
		{"owners", deployments, set("ownerReferences", []any{map[string]any{"kind": "K", "uid": "o"}}), same, true},
		{"a status", deployments, set("resourceVersion", "8"), same, false},
		{"times of managers, where there is a generation", deployments, entry(1, "time", "2026-01-01T00:00:07Z"), same,
			false},
		{"times of managers", services, entry(1, "time", "2026-01-01T00:00:07Z"), withoutGeneration, true},
		{"fields of managers", services, entry(1, "fieldsV1", map[string]any{"f:spec": map[string]any{}}), withoutGeneration,
			true},
		{"a status, without generation", services, entry(2, "time", "2026-01-01T00:00:11Z"), withoutGeneration, false},
		{"the holder of a lock", configMaps, func(m map[string]any) {
			m["resourceVersion"] = "8"
			locked("another")(m)
		}, locked("one"), false},
		{"any change of what has no status", configMaps, set("resourceVersion", "8"), withoutGeneration, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := decode(t, object1, tt.both)
			after := decode(t, object1, func(m map[string]any) { tt.both(m); tt.change(m) })
			if differs := fingerprintOf(before, tt.kind) != fingerprintOf(after, tt.kind); differs != tt.differs {
				t.Errorf("differs: %t", differs)
			}
			// Both representations of an object give the same result.
			data, err := after.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			partial := &metav1.PartialObjectMetadata{}
			if err := json.Unmarshal(data, partial); err != nil {
				t.Fatal(err)
			}
			if fingerprintOf(partial, tt.kind) != fingerprintOf(after, tt.kind) {
				t.Error("metadata alone has another fingerprint")
			}
			if lastOther(managedEntries(partial)) != lastOther(managedEntries(after)) {
				t.Error("metadata alone has another manager")
			}
		})
	}
}

// TestFingerprintDoesNotDependOnProcess checks the result of the algorithm. If the algorithm changes, HelmOp compares
// every release once after its upgrade.
func TestFingerprintDoesNotDependOnProcess(t *testing.T) {
	t.Parallel()
	const want = 3396377862868254690
	if got := fingerprintOf(decode(t, object1, nil), schema.GroupKind{Group: "apps", Kind: "Deployment"}); got != want {
		t.Errorf("got %d", got)
	}
}

func TestLastOtherManager(t *testing.T) {
	t.Parallel()
	if got := lastOther(managedEntries(decode(t, object1, nil))); got != "kubectl-edit" {
		t.Errorf("got %q", got)
	}
	odd := decode(t, object1, func(m map[string]any) { m["managedFields"] = []any{"x", map[string]any{"manager": 7}} })
	if got := lastOther(managedEntries(odd)); got != "" {
		t.Errorf("got %q", got)
	}
	if got := lastOther(managedEntries(&unstructured.Unstructured{Object: map[string]any{}})); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestOptsOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key, value string
		want       bool
	}{
		{"annotations", "Disabled", true}, {"labels", "Disabled", true}, {"annotations", "Enabled", false},
		{"finalizers", "Disabled", false},
	} {
		obj := decode(t, object1, func(m map[string]any) {
			m[tt.key] = map[string]any{"addons.cluster.x-k8s.io/drift-detection": tt.value}
		})
		if got := optedOut(obj); got != tt.want {
			t.Errorf("%s %s: %t", tt.key, tt.value, got)
		}
	}
}
