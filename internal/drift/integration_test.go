// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// caBundle is a certificate of the kind that other controllers inject.
const caBundle = "" +
	"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJjVENDQVJlZ0F3SUJBZ0lVVDFBZkhtK3lUMFhDODM4aFYrV3YvaE9xTUVFd0NnWUlLb1" +
	"pJemowRUF3SXcKRFRFTE1Ba0dBMVVFQXd3Q1kyRXdJQmNOTWpZeE1USXhNVGswT1RJNFdoZ1BNakV5TmpFd01qZ3hPVFE1TWpoYQpNQTB4Q3pB" +
	"SkJnTlZCQU1NQW1OaE1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRXBSK2FDREV6Ckw2dWE1R1Zid1o5Qy8vcmxDRnQrTEo4MX" +
	"J0eUdPMFNsd3dwZ3NGdExFWlE2NUNvUytXK0dzZ0F5WmNocXVnSlUKS1lBQTUySnErd1pFazZOVE1GRXdIUVlEVlIwT0JCWUVGSzJEZG1lNGxE" +
	"ejlsSkhrZ2JCTWw4K0tZQVNZTUI4RwpBMVVkSXdRWU1CYUFGSzJEZG1lNGxEejlsSkhrZ2JCTWw4K0tZQVNZTUE4R0ExVWRFd0VCL3dRRk1BTU" +
	"JBZjh3CkNnWUlLb1pJemowRUF3SURTQUF3UlFJaEFPNDFyR1lTWE9pVFJzYmVaZjJUM1ZMMnRpM1pHSy9nSmg0bFp0OTUKMUZvNUFpQm9Ecktn" +
	"ak9lT0F1eVc1ak45Z1RyVzdwSG5IZVZuSk9aL1dzWFhzUmNqTlE9PQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="

const pan = `
apiVersion: NAMESPACE.crd.example.com/v1
kind: Pan
metadata: {name: kitchen}
spec:
  text: hello
  nothing: null
  parts: [{name: lid}, {name: handle, nothing: null}]
`

// installKitchen installs an object of each kind that the tests need.
func (b *bench) installKitchen() []*unstructured.Unstructured {
	b.Helper()
	kitchen, err := os.ReadFile("testdata/kitchen.yaml")
	if err != nil {
		b.Fatal(err)
	}
	manifest := b.parse(string(kitchen))
	b.install(manifest...)
	custom := b.parse(pan)
	b.waitServed(schema.GroupVersionKind{Group: b.namespace + ".crd.example.com", Version: "v1", Kind: "Pan"})
	b.install(custom...)
	return append(manifest, custom...)
}

func TestCompareFindsNoDriftAfterInstall(t *testing.T) {
	b := newBench(t)
	manifest := b.installKitchen()
	for _, difference := range b.compare(nil, manifest...) {
		t.Errorf("%s", difference)
	}
	made := b.requests.reset()
	gets := slices.DeleteFunc(slices.Clone(made), func(method string) bool { return method != "GET" })
	if len(gets) != len(manifest) {
		t.Errorf("%d GETs for %d objects", len(gets), len(manifest))
	}
	t.Logf("%d objects: %d requests", len(manifest), len(made))
}

func TestCompareFindsManualEdits(t *testing.T) {
	b := newBench(t)
	manifest := b.installKitchen()
	find := func(kind, name string) *unstructured.Unstructured {
		i := slices.IndexFunc(manifest,
			func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
		if i < 0 {
			t.Fatalf("no %s %s", kind, name)
		}
		return manifest[i]
	}
	for _, test := range []struct {
		name, kind, object, edit string
		// want are the paths that differ; none if the edit is not drift.
		want []string
		// manager is false if the field was removed, or if the API server does not record its manager.
		manager bool
		// asked is true if a dry run is sent although nothing differs.
		asked bool
	}{
		{name: "replicas", kind: "Deployment", edit: `[{"op":"replace","path":"/spec/replicas","value":5}]`,
			want: []string{"/spec/replicas"}, manager: true},
		{name: "variable", kind: "Deployment",
			edit: `[{"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":"2"}]`,
			want: []string{"/spec/template/spec/containers/0/env/0/value"}, manager: true},
		{name: "variable of another owner", kind: "Deployment", asked: true,
			edit: `[{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"Z","value":"1"}}]`},
		{name: "container of another owner", kind: "Deployment", asked: true,
			edit: `[{"op":"add","path":"/spec/template/spec/containers/0","value":{"name":"sidecar","image":"example.invalid/s:1"}}]`},
		{name: "container removed", kind: "Deployment", edit: `[{"op":"remove","path":"/spec/template/spec/containers/2"}]`,
			want: []string{"/spec/template/spec/containers"}, manager: true},
		{name: "container port removed", kind: "Deployment",
			edit: `[{"op":"remove","path":"/spec/template/spec/containers/1/ports/1"}]`,
			want: []string{"/spec/template/spec/containers/1/ports"}},
		{name: "quantity", kind: "Deployment",
			edit: `[{"op":"replace","path":"/spec/template/spec/containers/1/resources/limits/cpu","value":"3"}]`,
			want: []string{"/spec/template/spec/containers/1/resources/limits/cpu"}, manager: true},
		{name: "quantity in other words", kind: "Deployment", asked: true,
			edit: `[{"op":"replace","path":"/spec/template/spec/containers/1/resources/limits/cpu","value":"2000m"}]`},
		{name: "label of another owner", kind: "ConfigMap",
			edit: `[{"op":"add","path":"/metadata/labels/theirs","value":"x"}]`},
		{name: "mark removed", kind: "ConfigMap",
			edit: `[{"op":"remove","path":"/metadata/labels/app.kubernetes.io~1managed-by"}]`,
			want: []string{"/metadata/labels/app.kubernetes.io~1managed-by"}},
		{name: "marks removed", kind: "ConfigMap", edit: `[{"op":"remove","path":"/metadata/annotations"}]`,
			want: []string{"/metadata/annotations"}},
		{name: "data", kind: "ConfigMap", edit: `[{"op":"replace","path":"/data/key","value":"other"}]`,
			want: []string{"/data/key"}, manager: true},
		{name: "data of another owner", kind: "ConfigMap", edit: `[{"op":"add","path":"/data/theirs","value":"other"}]`},
		{name: "secret", kind: "Secret",
			edit: `[{"op":"replace","path":"/data/password","value":"c3RvbGVu"},{"op":"remove","path":"/data/token"}]`,
			want: []string{"/data/password", "/data/token"}, manager: true},
		{name: "port of one protocol removed", kind: "Service", edit: `[{"op":"remove","path":"/spec/ports/1"}]`,
			want: []string{"/spec/ports"}},
		{name: "port of one protocol changed", kind: "Service",
			edit: `[{"op":"replace","path":"/spec/ports/1/targetPort","value":54}]`},
		{name: "port of one protocol renamed", kind: "Service",
			edit: `[{"op":"replace","path":"/spec/ports/1/name","value":"x"}]`,
			want: []string{"/spec/ports/1/name"}, manager: true},
		{name: "port of another owner", kind: "Service",
			edit: `[{"op":"add","path":"/spec/ports/0","value":{"name":"theirs","port":1}}]`},
		{name: "target port", kind: "Service", edit: `[{"op":"replace","path":"/spec/ports/3/targetPort","value":1}]`,
			want: []string{"/spec/ports/3/targetPort"}, manager: true},
		{name: "rules", kind: "Role", edit: `[{"op":"add","path":"/rules/0/verbs/-","value":"delete"}]`,
			want: []string{"/rules/0/verbs"}, manager: true},
		{name: "restriction", kind: "NetworkPolicy",
			edit: `[{"op":"replace","path":"/spec/ingress/0/from/0/podSelector","value":{"matchLabels":{"a":"b"}}}]`,
			want: []string{"/spec/ingress/0/from/0/podSelector/matchLabels"}, manager: true},
		{name: "CA of another owner", kind: "ValidatingWebhookConfiguration", object: b.namespace,
			edit: `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"` + caBundle + `"}]`, asked: true},
		{name: "webhook", kind: "ValidatingWebhookConfiguration", object: b.namespace,
			edit: `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`,
			want: []string{"/webhooks/0/failurePolicy"}, manager: true},
		{name: "CA of an APIService", kind: "APIService", object: "v1." + b.namespace + ".example.com",
			edit: `[{"op":"add","path":"/spec/caBundle","value":"` + caBundle + `"}]`},
		{name: "size of a claim template's owner", kind: "StatefulSet",
			edit: `[{"op":"replace","path":"/spec/replicas","value":4}]`, asked: true},
		{name: "field of a custom resource", kind: "Pan", edit: `[{"op":"replace","path":"/spec/text","value":"x"}]`,
			want: []string{"/spec/text"}, manager: true},
		{name: "list of a custom resource", kind: "Pan", edit: `[{"op":"replace","path":"/spec/parts/0/weight","value":8}]`,
			want: []string{"/spec/parts/0/weight"}, manager: true},
		{name: "field of a custom resource that the chart does not set", kind: "Pan",
			edit: `[{"op":"replace","path":"/spec/size","value":8}]`, asked: true},
	} {
		// The cases run one after the other on the same objects.
		object := test.object
		if object == "" {
			object = "kitchen"
		}
		obj := find(test.kind, object)
		b.edit(obj, test.edit)
		b.requests.reset()
		if len(test.want) == 0 {
			if got := b.compare(nil, obj); len(got) != 0 {
				t.Errorf("%s: %v, want no difference", test.name, got)
			}
			got := b.requests.reset()
			if desired := []string{"GET", "PATCH dry"}; !slices.Equal(got, desired[:1]) &&
				(!test.asked || !slices.Equal(got, desired)) {
				t.Errorf("%s: requests %v", test.name, got)
			}
			continue
		}
		got := b.correct(obj)
		b.wantRequests("GET", "PATCH dry", "PATCH")
		if got.Missing || !slices.Equal(got.Paths, test.want) || (got.Manager == "kubectl-edit") != test.manager {
			t.Errorf("%s: %+v, want %v", test.name, got.String(), test.want)
		}
	}
}

func TestCorrectCreatesDeletedObject(t *testing.T) {
	b := newBench(t)
	manifest := b.parse("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {password: hunter2}}")
	b.install(manifest...)
	if err := b.resource(manifest[0]).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := b.correct(manifest[0])
	b.wantRequests("GET", "POST")
	if want := "Secret " + b.namespace + "/a is missing"; !got.Missing || got.String() != want {
		t.Errorf("%s, want %s", got, want)
	}
	live := b.get(manifest[0])
	if password, _, _ := unstructured.NestedString(live.Object, "data", "password"); password != "aHVudGVyMg==" {
		t.Errorf("password %q", password)
	}
	if live.GetLabels()[inventory.ManagedByLabel] != inventory.ManagedByHelm ||
		live.GetAnnotations()[inventory.HelmReleaseName] != "demo" ||
		live.GetAnnotations()[inventory.HelmReleaseNamespace] != b.namespace {
		t.Errorf("not marked: %v %v", live.GetLabels(), live.GetAnnotations())
	}
	if manifest[0].GetNamespace() != "" || manifest[0].GetLabels() != nil {
		t.Error("the manifest was changed")
	}
}

func TestCompareIgnoresDeletedJobWithTTL(t *testing.T) {
	b := newBench(t)
	manifest := b.parse(strings.Repeat(`---
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  ttlSecondsAfterFinished: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: example.invalid/a}]}
`, 2))
	if got := b.compare(nil, manifest[0]); len(got) != 0 {
		t.Errorf("differences %v", got)
	}
	unstructured.RemoveNestedField(manifest[1].Object, "spec", "ttlSecondsAfterFinished")
	if got := b.compare(nil, manifest[1]); len(got) != 1 || !got[0].Missing {
		t.Errorf("differences %v", got)
	}
}

func TestCompareSkipsExcludedObjects(t *testing.T) {
	b := newBench(t)
	manifest := b.parse(`
{apiVersion: v1, kind: ConfigMap, metadata: {name: ruled, labels: {a: b}}, data: {key: value, other: value}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: whole}, data: {key: value}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: chart, annotations: {addons.cluster.x-k8s.io/drift-detection: Disabled}}, data: {key: value}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: cluster}, data: {key: value}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: going, finalizers: [example.com/stay]}, data: {key: value}}
`)
	rules, err := NewRules([]Rule{
		{Paths: []string{"/data/key"}, Target: &inventory.Selector{LabelSelector: "a=b"}},
		{Paths: []string{""}, Target: &inventory.Selector{Name: "wh.*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.install(manifest...)
	for _, obj := range manifest {
		if obj.GetName() != "chart" {
			b.edit(obj, `[{"op":"replace","path":"/data/key","value":"edited"}]`)
		}
	}
	b.edit(manifest[3],
		`[{"op":"add","path":"/metadata/labels/addons.cluster.x-k8s.io~1drift-detection","value":"Disabled"}]`)
	if err := b.resource(manifest[4]).Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		patch := `[{"op":"remove","path":"/metadata/finalizers"}]`
		_, _ = b.resource(manifest[4]).Patch(context.Background(), "going", "application/json-patch+json", []byte(patch),
			metav1.PatchOptions{})
	})
	if got := b.compare(rules, manifest...); len(got) != 0 {
		t.Errorf("differences %v", got)
	}
	b.wantRequests("GET", "GET", "GET")
	b.edit(manifest[0], `[{"op":"replace","path":"/data/other","value":"edited"}]`)
	got := b.compare(rules, manifest...)
	if len(got) != 1 || !slices.Equal(got[0].Paths, []string{"/data/other"}) {
		t.Fatalf("differences %v", got)
	}
	if err := Correct(t.Context(), b.cluster, got[0]); err != nil {
		t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(b.get(manifest[0]).Object, "data")
	if data["key"] != "edited" || data["other"] != "value" {
		t.Errorf("data %v", data)
	}
}

func TestCorrectLeavesObjectOfOtherRelease(t *testing.T) {
	b := newBench(t)
	manifest := b.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}")
	b.install(manifest...)
	b.edit(manifest[0], `[{"op":"replace","path":"/metadata/annotations/meta.helm.sh~1release-name","value":"theirs"}]`)
	got := b.compare(nil, manifest...)
	b.wantRequests("GET")
	if len(got) != 1 || got[0].Owner != b.namespace+"/theirs" {
		t.Fatalf("differences %v", got)
	}
	if err := Correct(t.Context(), b.cluster, got[0]); err == nil || !strings.Contains(err.Error(), "not corrected") {
		t.Errorf("error %v", err)
	}
	b.wantRequests()
}

func TestCompareReportsRefusedCorrection(t *testing.T) {
	b := newBench(t)
	manifest := b.parse(`
{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {password: hunter2-secret}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  selector: {matchLabels: {app: hunter2-app}}
  template:
    metadata: {labels: {app: hunter2-app}}
    spec: {containers: [{name: main, image: example.invalid/a}]}
`)
	b.install(manifest...)
	b.edit(manifest[0],
		`[{"op":"replace","path":"/data/password","value":"c3RvbGVu"},{"op":"add","path":"/immutable","value":true}]`)
	other := manifest[1].DeepCopy()
	for _, path := range [][]string{{"spec", "selector", "matchLabels", "app"},
		{"spec", "template", "metadata", "labels", "app"}} {
		if err := unstructured.SetNestedField(other.Object, "other", path...); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.resource(other).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.create(other)
	got := b.compare(nil, manifest...)
	if len(got) != 2 {
		t.Fatalf("differences %v", got)
	}
	b.requests.reset()
	for i, field := range []string{"data", "spec.selector"} {
		err := Correct(t.Context(), b.cluster, got[i])
		if !apierrors.IsInvalid(err) || !errors.Is(err, got[i].Refused) {
			t.Fatalf("%s: error %v", got[i], err)
		}
		text := err.Error() + got[i].String()
		if strings.Contains(text, "hunter2") || strings.Contains(text, "stolen") || !strings.Contains(text, "of "+field) ||
			!strings.Contains(text, "delete the object") {
			t.Errorf("text %q", text)
		}
	}
	b.wantRequests()
	if !slices.Contains(got[1].Paths, "/spec/selector/matchLabels/app") ||
		!slices.Equal(got[0].Paths, []string{"/data/password"}) {
		t.Errorf("paths %v, %v", got[0].Paths, got[1].Paths)
	}
}

func TestCompareObjectChangedBetweenRequests(t *testing.T) {
	b := newBench(t)
	manifest := b.parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}")
	b.install(manifest...)
	recreate := func(value string) {
		if err := b.resource(manifest[0]).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		obj := manifest[0].DeepCopy()
		obj.Object["data"] = map[string]any{"key": value}
		if _, err := b.resource(obj).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	b.edit(manifest[0], `[{"op":"replace","path":"/data/key","value":"edited"}]`)
	b.requests.setBefore(func(r *http.Request) error {
		if r.Method == http.MethodPatch {
			b.requests.setBefore(nil)
			recreate("anew")
		}
		return nil
	})
	got := b.compare(nil, manifest...)
	b.wantRequests("GET", "PATCH dry", "GET", "PATCH dry")
	if len(got) != 1 {
		t.Fatalf("differences %v", got)
	}
	recreate("created twice")
	if err := Correct(t.Context(), b.cluster, got[0]); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	if data, _, _ := unstructured.NestedString(b.get(manifest[0]).Object, "data", "key"); data != "created twice" {
		t.Errorf("data %q", data)
	}
	b.correct(manifest...)
}

func TestErrorsOfSingleObjects(t *testing.T) {
	b := newBench(t)
	manifest := b.parse(`
{apiVersion: example.com/v1, kind: Unknown, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}
`)
	manifest[1].Object["data"] = map[string]any{"key": int(1)}
	got, err := Compare(t.Context(), b.cluster, b.release, nil, manifest)
	if err != nil || len(got.Differences) != 1 || !got.Differences[0].Missing {
		t.Fatalf("differences %v, %v", got.Differences, err)
	}
	if !slices.Equal(got.Compared, inventory.FromObjects(manifest[2:])) || len(got.Failed) != 2 {
		t.Fatalf("compared %v, failed %v", got.Compared, got.Failed)
	}
	for i, want := range []string{"does not serve the kind", "has no name"} {
		if !strings.Contains(got.Failed[i].Error(), want) || got.Failed[i].Ref != inventory.Of(manifest[i]) {
			t.Errorf("error %v, want %s", got.Failed[i], want)
		}
	}
}

// TestCorrectRefusesChangedObject checks that a correction leaves an object that changed after the comparison. A change
// of only the status does not matter, because controllers write it all the time.
func TestCorrectRefusesChangedObject(t *testing.T) {
	b := newBench(t)
	manifest := b.parse(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: main, image: example.invalid/a}]}
`)
	b.install(manifest...)
	replicas := func() int64 {
		n, _, _ := unstructured.NestedInt64(b.get(manifest[0]).Object, "spec", "replicas")
		return n
	}
	for name, test := range map[string]struct {
		change func()
		want   int64
	}{
		"the same field": {func() { b.edit(manifest[0], `[{"op":"replace","path":"/spec/replicas","value":7}]`) }, 7},
		"another field":  {func() { b.edit(manifest[0], `[{"op":"add","path":"/spec/paused","value":true}]`) }, 5},
		"an annotation":  {func() { b.edit(manifest[0], `[{"op":"add","path":"/metadata/annotations/a","value":"b"}]`) }, 5},
		"only the status": {func() {
			if _, err := b.resource(manifest[0]).Patch(t.Context(), "a", "application/merge-patch+json",
				[]byte(`{"status":{"observedGeneration":99}}`), metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		b.edit(manifest[0], `[{"op":"replace","path":"/spec/replicas","value":5}]`)
		found := b.compare(nil, manifest...)
		if len(found) != 1 {
			t.Fatalf("%s: differences %v", name, found)
		}
		test.change()
		err := Correct(t.Context(), b.cluster, found[0])
		if apierrors.IsConflict(err) != (test.want != 1) || test.want == 1 && err != nil {
			t.Errorf("%s changed: %v", name, err)
		}
		if got := replicas(); got != test.want {
			t.Errorf("%s changed: %d replicas, want %d", name, got, test.want)
		}
		b.edit(manifest[0], `[{"op":"replace","path":"/spec/replicas","value":1},{"op":"add","path":"/spec/paused","value":false},`+
			`{"op":"add","path":"/metadata/annotations/a","value":""}]`)
	}
}
