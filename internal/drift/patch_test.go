// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// inPod returns a Deployment with a container that has some fields.
func inPod(fields string) string {
	return `{"spec":{"template":{"spec":{"containers":[{"name":"main",` + fields + `}]}}}}`
}

// manyVariables returns a list of variables, each twice. The list is so long that sorting may change the order of equal
// elements.
func manyVariables(more string) string {
	var list []string
	for i := range 40 {
		list = append(list, fmt.Sprintf(`{"name":"V%d","value":"%d"}`, i%20, i))
	}
	return `"env":[` + strings.Join(list, ",") + more + `]`
}

func TestMakePatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, apiVersion, kind, desired, live, want string }{
		{"equal", "apps/v1", "Deployment", inPod(`"image":"a"`), inPod(`"image":"a"`), `{}`},
		{"what others add", "apps/v1", "Deployment", inPod(`"image":"a"`), inPod(`"image":"a","env":[{"name":"X"}]`), `{}`},
		{"variable of others: the API server decides whether the order matters", "apps/v1", "Deployment",
			inPod(`"env":[{"name":"A","value":"1"}]`),
			inPod(`"env":[{"name":"X","value":"2"},{"name":"A","value":"1"}]`),
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"$setElementOrder/env":[{"name":"A"}],` +
				`"name":"main"}]}}}}`},
		{"changed variable", "apps/v1", "Deployment", inPod(`"env":[{"name":"A","value":"1"}]`),
			inPod(`"env":[{"name":"A","value":"2"}]`),
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"$setElementOrder/env":[{"name":"A"}],` +
				`"env":[{"name":"A","value":"1"}],"name":"main"}]}}}}`},
		{"missing container", "apps/v1", "Deployment", inPod(`"image":"a"`),
			`{"spec":{"template":{"spec":{"containers":[{"name":"b"}]}}}}`,
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"image":"a","name":"main"}]}}}}`},
		{"arguments are one value", "apps/v1", "Deployment", inPod(`"args":["a"]`), inPod(`"args":["a","b"]`),
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"args":["a"],"name":"main"}]}}}}`},
		{"field that the API does not know", "apps/v1", "Deployment", inPod(`"typo":{"a":1}`), inPod(`"image":"a"`),
			`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"name":"main","typo":{"a":1}}]}}}}`},
		{"variables given twice", "apps/v1", "Deployment", inPod(manyVariables("")), inPod(manyVariables("")), `{}`},
		{"variables given twice, and one of others", "apps/v1", "Deployment", inPod(manyVariables("")),
			inPod(manyVariables(`,{"name":"X"}`)), `{}`},
		{"ports of both protocols", "v1", "Service", `{"spec":{"ports":[{"port":53},{"port":53,"protocol":"UDP"}]}}`,
			`{"spec":{"ports":[{"port":53,"protocol":"UDP","targetPort":1},{"port":53,"protocol":"TCP","targetPort":2}]}}`,
			`{}`},
		{"port of one protocol missing", "v1", "Service", `{"spec":{"ports":[{"port":53},{"port":53,"protocol":"UDP"}]}}`,
			`{"spec":{"ports":[{"port":53,"protocol":"UDP","targetPort":1}]}}`,
			`{"spec":{"ports":[{"port":53},{"port":53,"protocol":"UDP","targetPort":1}]}}`},
		{"port of one protocol missing, and one of others", "v1", "Service",
			`{"spec":{"ports":[{"port":53},{"port":53,"protocol":"UDP"}]}}`,
			`{"spec":{"ports":[{"port":1},{"port":53,"protocol":"TCP"}]}}`,
			`{"spec":{"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"UDP"},{"port":1}]}}`},
		{"port that others add for the other protocol", "v1", "Service", `{"spec":{"ports":[{"port":53,"targetPort":9}]}}`,
			`{"spec":{"ports":[{"port":53,"protocol":"UDP","targetPort":1},{"port":53,"protocol":"TCP","targetPort":2}]}}`,
			`{"spec":{"ports":[{"port":53,"protocol":"UDP","targetPort":1},{"port":53,"protocol":"TCP","targetPort":9}]}}`},
		{"init containers of a CronJob", "batch/v1", "CronJob",
			`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"name":"a","ports":[{"containerPort":1},{"containerPort":1,"protocol":"UDP"}]}]}}}}}}`,
			`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"name":"a","ports":[{"containerPort":1,"protocol":"TCP"}]}]}}}}}}`,
			`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"initContainers":[{"name":"a","ports":[{"containerPort":1,"protocol":"TCP"},` +
				`{"containerPort":1,"protocol":"UDP"}]}]}}}}}}`},
		{"lists of custom resources", "example.com/v1", "Thing", `{"spec":{"l":[{"name":"a"}],"m":{"k":1}}}`,
			`{"spec":{"l":[{"name":"a"},{"name":"b"}],"m":{"k":1,"theirs":2}}}`, `{"spec":{"l":[{"name":"a"}]}}`},
		{"other shapes", "v1", "ConfigMap", `{"data":{"a":"1"}}`, `{"data":["a"]}`, `{"data":{"a":"1"}}`},
	} {
		ref := refOf(test.apiVersion, test.kind)
		desired, live := parseJSON(t, test.desired), parseJSON(t, test.live)
		desiredBefore, liveBefore := fmt.Sprint(desired), fmt.Sprint(live)
		got, err := makePatch(ref, desired, live)
		if err != nil || string(got.data) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got.data, err, test.want)
		}
		if fmt.Sprint(desired) != desiredBefore || fmt.Sprint(live) != liveBefore {
			t.Errorf("%s: the objects were changed", test.name)
		}
		if got.exact && got.kind != types.MergePatchType {
			t.Errorf("%s: exact, but %s", test.name, got.kind)
		}
	}
}

func refOf(apiVersion, kind string) inventory.Ref {
	return inventory.Of(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a", "namespace": "n"},
	}})
}

func TestMergeErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	_, err := makePatch(refOf("apps/v1", "Deployment"),
		parseJSON(t, inPod(`"env":[{"value":"hunter2"}]`)), parseJSON(t, inPod(`"env":[{"name":"A","value":"hunter2"}]`)))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestMakePatchInvalidShapes(t *testing.T) {
	t.Parallel()
	shapes := []string{`null`, `1`, `"x"`, `{}`, `[]`, `[null]`, `[1,"x"]`, `[{}]`, `[[{}]]`, `{"name":[]}`,
		`[{"name":1},{"name":{}}]`, `[{"port":1},{"port":1},null]`}
	fields := []string{"containers", "ports", "hostAliases", "template", "volumes"}
	for _, kind := range []string{"Service", "Pod", "PodTemplate", "ConfigMap"} {
		for _, field := range fields {
			for _, desired := range shapes {
				for _, live := range shapes {
					object := func(shape string) map[string]any {
						return parseJSON(t, `{"spec":{"`+field+`":`+shape+`},"`+field+`":`+shape+`,"data":`+shape+`}`)
					}
					// Any result is valid, but makePatch must not panic.
					if p, err := makePatch(refOf("v1", kind), object(desired), object(live)); err == nil && desired == live &&
						!p.empty() {
						t.Errorf("%s %s: %s differs from itself: %s", kind, field, desired, p.data)
					}
				}
			}
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u",
		"resourceVersion": "7"}}}
	for _, test := range []struct {
		exact bool
		want  string
	}{
		{false, `{"metadata":{"labels":{"a":"b"},"uid":"u"}}`},
		{true, `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7","uid":"u"}}`},
	} {
		p := patch{data: []byte(`{"metadata":{"labels":{"a":"b"}}}`), exact: test.exact}
		if err := p.guard(live); err != nil || string(p.data) != test.want {
			t.Errorf("%s, %v; want %s", p.data, err, test.want)
		}
	}
}

func TestToCompare(t *testing.T) {
	t.Parallel()
	secret := &unstructured.Unstructured{Object: parseJSON(t, `{
		"apiVersion":"v1","kind":"Secret",
		"metadata":{"name":"a","namespace":"wrong","uid":"x","creationTimestamp":null,"labels":{"app.kubernetes.io/managed-by":"other"},"annotations":null},
		"stringData":{"text":"hi","number":null},"data":{"text":"eA==","raw":"AAE="},"status":{"x":1}}`)}
	release := Release{Namespace: "n", Name: "r"}
	desired, err := newDesired(secret, "n", release)
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{Object: parseJSON(t, `{"data":{"raw":"live"}}`)}
	got := toCompare(desired, live, [][]string{{"data", "raw"}})
	want := parseJSON(t, `{
		"apiVersion":"v1","kind":"Secret",
		"metadata":{"name":"a","namespace":"n","labels":{"app.kubernetes.io/managed-by":"Helm"},
			"annotations":{"meta.helm.sh/release-name":"r","meta.helm.sh/release-namespace":"n"}},
		"data":{"text":"aGk=","raw":"live"}}`)
	if paths := diff(nil, nil, got, want, false); len(paths) > 0 {
		t.Errorf("differs at %s: %v", formatAll(paths), got)
	}
	if desired.Object["stringData"] == nil {
		t.Error("what would be created was changed")
	}
	odd := &unstructured.Unstructured{Object: map[string]any{"metadata": []any{"x"}, "f": func() {}}}
	if _, err := newDesired(odd, "", release); err == nil {
		t.Error("a function became JSON")
	}
	delete(odd.Object, "f")
	if got, err := newDesired(odd, "", release); err != nil ||
		got.GetLabels()[inventory.ManagedByLabel] != inventory.ManagedByHelm {
		t.Errorf("%v, %v", got, err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, a, b string
		partial    bool
		want       string
	}{
		{"equal", `{"a":[1,{"b":null}]}`, `{"a":[1,{}]}`, false, ""},
		{"kinds of values", `{"a":1,"b":"1","c":{},"d":[],"e":1}`, `{"a":"1","b":1,"c":[],"d":{},"e":null}`, false,
			"/a /b /c /d /e"},
		{"keys", `{"a":{"x/y":1}}`, `{"a":{"z":1}}`, false, "/a/x~1y /a/z"},
		{"keys, partial", `{"a":{"x/y":1}}`, `{"a":{"z":1}}`, true, "/a/z"},
		{"lists", `{"a":[1,2,[3,4]],"b":[1]}`, `{"a":[1,5,[3,6]],"b":[]}`, false, "/a/1 /a/2/1 /b"},
		{"siblings below a shared path", `{"a":{"b":{"c":1,"d":1},"e":{"f":1}}}`, `{"a":{"b":{"c":2,"d":2},"e":{"f":2}}}`,
			false,
			"/a/b/c /a/b/d /a/e/f"},
	} {
		var got []string
		for _, path := range diff(nil, nil, any(parseJSON(t, test.a)), parseJSON(t, test.b), test.partial) {
			got = append(got, FormatPointer(path))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.name, got, test.want)
		}
	}
}

func TestDifferingPaths(t *testing.T) {
	t.Parallel()
	parse := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: parseJSON(t, text)}
	}
	live := parse(`{"metadata":{"generation":1,"resourceVersion":"1","annotations":{"touched":"1","ours":"1"}},"spec":{"l":[{"a":1,"b":1}]},"status":{"a":1}}`)
	corrected := parse(`{"metadata":{"generation":2,"resourceVersion":"2","annotations":{"touched":"2","ours":"1"}},"spec":{"l":[{"a":1,"b":1}]},"status":{"a":2}}`)
	desired := parseJSON(t, `{"metadata":{"annotations":{"ours":"1"}},"spec":{"l":[{"a":1}]}}`)
	if got := differingPaths(live, corrected, desired); len(got) > 0 {
		t.Errorf("differs at %s, which the manifest does not set", formatAll(got))
	}
	corrected = parse(`{"metadata":{"annotations":{"touched":"2","ours":"2"}},"spec":{"l":[{"a":1,"b":2}]}}`)
	if got := len(differingPaths(live, corrected, desired)); got != 2 {
		t.Errorf("%d paths, want 2", got)
	}
}

func TestDifferenceIsBounded(t *testing.T) {
	t.Parallel()
	var paths [][]string
	for i := range 25 {
		paths = append(paths, []string{"data", fmt.Sprintf("%02d\n", i) + strings.Repeat("ü", 1000)})
	}
	d := Difference{Ref: refOf("v1", "ConfigMap"), Manager: "kubectl"}
	d.name(&unstructured.Unstructured{}, paths)
	if len(d.Paths) != 10 || d.More != 15 || !strings.HasPrefix(d.Paths[0], "/data/00 ü") {
		t.Errorf("%d paths, %d more, first %q", len(d.Paths), d.More, d.Paths[0])
	}
	d.Manager = "kubectl"
	if text := d.String(); len(text) > 11*maxPathLength || !strings.HasSuffix(text, " and 15 more, changed by kubectl") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestLastManager(t *testing.T) {
	t.Parallel()
	live := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(parseJSON(t, `{
		"spec":{"replicas":3,"list":[{"name":"a","v":1},{"name":"b","v":2}],"set":["x","y"],"atomic":{"k":[1]}},
		"metadata":{"managedFields":[
			{"manager":"helmop","operation":"Update","time":"2026-01-09T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{}}}},
			{"manager":"kubelet","operation":"Update","subresource":"status","time":"2026-01-09T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{}}}},
			{"manager":"early","operation":"Update","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{},"f:atomic":{}}}},
			{"manager":"late","operation":"Update","subresource":"scale","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{}}}},
			{"manager":"lists","operation":"Apply","time":"2026-01-03T00:00:00Z","fieldsV1":{"f:spec":{
				"f:list":{"k:{\"name\":\"b\"}":{".":{},"f:v":{}}},"f:set":{"v:\"y\"":{}}}}},
			{"manager":"broken","operation":"Apply","time":"2026-01-04T00:00:00Z","fieldsV1":{"f:spec":{"f:set":{"v:":{},"k:1":{},"z":{},"i:x":1}}}},
			{"manager":"nothing","operation":"Apply","time":"2026-01-05T00:00:00Z"}]}}`))}
	for text, want := range map[string]string{
		"/spec/replicas":   "late",
		"/spec/atomic/k/0": "early",
		"/spec/list/1/v":   "lists",
		"/spec/list/0/v":   "",
		"/spec/set/1":      "lists",
		"/spec/set/0":      "",
		"/spec/set/7":      "",
		"/spec/gone":       "",
		"/spec/list":       "lists",
	} {
		pointer, err := parsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := lastManager(live, [][]string{pointer}); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
