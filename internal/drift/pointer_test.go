// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func TestParsePointer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                nil,
		"/":               {""},
		"/spec/replicas":  {"spec", "replicas"},
		"/a~1b/c~0d":      {"a/b", "c~d"},
		"/~01":            {"~1"},
		"/spec/0/x":       {"spec", "0", "x"},
		"/metadata/-name": {"metadata", "-name"},
		"/a//b":           {"a", "", "b"},
	} {
		got, err := parsePointer(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		if back := FormatPointer(got); back != text {
			t.Errorf("%q: written as %q", text, back)
		}
	}
	for _, text := range []string{"spec", "#/spec", "/a/-", "/a/-/b", "/a~", "/a~2b", "/~~0"} {
		if got, err := parsePointer(text); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

func FuzzPointer(f *testing.F) {
	document := `{"a":{"b":[1,{"name":"x","c":null}]},"l":[[{"d":1}]],"":{"":1},"~":{"/":2}}`
	for _, text := range []string{"", "/", "/a/b/1/c", "/l/0/0/d", "/~0/~1", "//", "/a/b/01",
		"/a/b/99999999999999999999"} {
		f.Add(text, document, document)
	}
	f.Add("/a/b/0", `{"a":{"b":[{"name":"y"}]}}`, `{"a":{"b":[{"name":"x"},{"name":"y","v":1}]}}`)
	f.Fuzz(func(t *testing.T, text, desiredText, liveText string) {
		pointer, err := parsePointer(text)
		if err != nil {
			return
		}
		if back := FormatPointer(pointer); back != text {
			t.Fatalf("%q written as %q", text, back)
		}
		var desired, live map[string]any
		if json.Unmarshal([]byte(desiredText), &desired) != nil || json.Unmarshal([]byte(liveText), &live) != nil {
			return
		}
		if desired == nil || live == nil {
			return
		}
		before, err := json.Marshal(live)
		if err != nil {
			t.Fatal(err)
		}
		takeOver(desired, live, pointer)
		first, err := json.Marshal(desired)
		if err != nil {
			t.Fatal(err)
		}
		takeOver(desired, live, pointer)
		if second, err := json.Marshal(desired); err != nil || string(first) != string(second) {
			t.Errorf("taking over twice: %s, then %s (%v)", first, second, err)
		}
		if after, err := json.Marshal(live); err != nil || string(after) != string(before) {
			t.Errorf("live changed from %s to %s (%v)", before, after, err)
		}
	})
}

func TestNewRules(t *testing.T) {
	t.Parallel()
	for want, rules := range map[string][]Rule{
		"ignore[1].paths[2]: \"x\" must start with": {{}, {Paths: []string{"", "/a", "x"}}},
		"ignore[0].target.name: ":                   {{Target: &inventory.Selector{Name: "("}}},
		"ignore[0].target.labelSelector: ":          {{Target: &inventory.Selector{LabelSelector: "a in b"}}},
	} {
		if _, err := NewRules(rules); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	rules, err := NewRules([]Rule{
		{Paths: []string{"/a", "/b"}},
		{Paths: []string{"/c"}, Target: &inventory.Selector{Kind: "Deployment"}},
		{Paths: []string{"/d", ""}, Target: &inventory.Selector{Kind: "Secret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"ConfigMap": "[[a] [b]]", "Deployment": "[[a] [b] [c]]", "Secret": "whole"} {
		obj := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		pointers, whole := rules.forObject(obj)
		got := "whole"
		if !whole {
			got = strings.ReplaceAll(formatAll(pointers), "/", "")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	for _, none := range []*Rules{nil, {}} {
		if pointers, whole := none.forObject(&unstructured.Unstructured{}); whole || len(pointers) > 0 {
			t.Errorf("%v: %v, %t", none, pointers, whole)
		}
	}
}

func formatAll(pointers [][]string) string {
	texts := make([]string, 0, len(pointers))
	for _, pointer := range pointers {
		texts = append(texts, "["+FormatPointer(pointer)+"]")
	}
	return "[" + strings.Join(texts, " ") + "]"
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, pointer, desired, live, want string }{
		{"value", "/a/b", `{"a":{"b":1,"c":1}}`, `{"a":{"b":2,"c":2}}`, `{"a":{"b":2,"c":1}}`},
		{"whole map", "/a", `{"a":{"b":1}}`, `{"a":{"c":2}}`, `{"a":{"c":2}}`},
		{"absent in the cluster", "/a/b", `{"a":{"b":1,"c":1}}`, `{"a":{"c":1}}`, `{"a":{"c":1}}`},
		{"parent absent in the cluster", "/a/b", `{"a":{"b":1},"d":1}`, `{"d":1}`, `{"d":1}`},
		{"parent with more absent in the cluster", "/a/b", `{"a":{"b":1,"c":1}}`, `{}`, `{"a":{"c":1}}`},
		{"absent in the manifest", "/a/b", `{"c":1}`, `{"a":{"b":2,"d":2}}`, `{"a":{"b":2},"c":1}`},
		{"absent in both", "/a/b", `{"c":1}`, `{"c":1}`, `{"c":1}`},
		{"absent in both below a map", "/a/b", `{"c":1}`, `{"a":{"d":1}}`, `{"c":1}`},
		{"null in the cluster", "/a", `{"a":1}`, `{"a":null}`, `{"a":null}`},
		{"index", "/a/1", `{"a":[1,2]}`, `{"a":[3,4,5]}`, `{"a":[1,4]}`},
		{"index out of range", "/a/2", `{"a":[1,2]}`, `{"a":[3,4,5]}`, `{"a":[1,2]}`},
		{"index out of range in the cluster", "/a/1", `{"a":[1,2]}`, `{"a":[3]}`, `{"a":[1,2]}`},
		{"no index", "/a/x", `{"a":[1]}`, `{"a":[2]}`, `{"a":[1]}`},
		{"index with a zero in front", "/a/00", `{"a":[1]}`, `{"a":[2]}`, `{"a":[1]}`},
		{"empty token", "/a/", `{"a":[1]}`, `{"a":[2]}`, `{"a":[1]}`},
		{"signed index", "/a/+0", `{"a":[1]}`, `{"a":[2]}`, `{"a":[1]}`},
		{"element of the same name", "/a/0/i", `{"a":[{"name":"x","i":1}]}`, `{"a":[{"name":"y","i":2},{"name":"x","i":3}]}`,
			`{"a":[{"name":"x","i":3}]}`},
		{"whole element of the same name", "/a/0", `{"a":[{"name":"x"}]}`, `{"a":[{"name":"y"},{"name":"x","i":3}]}`,
			`{"a":[{"name":"x","i":3}]}`},
		{"element that is not in the cluster", "/a/0", `{"a":[{"name":"x"}]}`, `{"a":[{"name":"y"}]}`,
			`{"a":[{"name":"x"}]}`},
		{"field of an element that is not in the cluster", "/a/0/i", `{"a":[{"name":"x","i":1}]}`, `{"a":[]}`,
			`{"a":[{"name":"x"}]}`},
		{"field that others add in a list", "/a/0/c/b", `{"a":[{"u":1}]}`, `{"a":[{"u":2,"c":{"b":3}}]}`,
			`{"a":[{"c":{"b":3},"u":1}]}`},
		{"list in the cluster only", "/a/0/b", `{}`, `{"a":[{"b":1}]}`, `{}`},
		{"key with a slash", "/a/x~1y", `{"a":{"x/y":1}}`, `{"a":{"x/y":2}}`, `{"a":{"x/y":2}}`},
		{"below a scalar", "/a/b", `{"a":1}`, `{"a":{"b":2}}`, `{"a":1}`},
		{"scalar in the cluster", "/a/b", `{"a":{"b":1}}`, `{"a":2}`, `{"a":{}}`},
	} {
		desired, live := parseJSON(t, test.desired), parseJSON(t, test.live)
		pointer, err := parsePointer(test.pointer)
		if err != nil {
			t.Fatal(err)
		}
		takeOver(desired, live, pointer)
		if !reflect.DeepEqual(desired, parseJSON(t, test.want)) {
			t.Errorf("%s: %v, want %s", test.name, desired, test.want)
		}
	}
}

func parseJSON(t *testing.T, text string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}
