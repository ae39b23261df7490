// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseObjects checks that an object in a list is equal to the same object outside of a list.
func TestParseObjects(t *testing.T) {
	t.Parallel()
	objects, err := ParseObjects("---\n# none\n---\napiVersion: v1\nkind: List\nitems:\n" +
		"- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n" +
		"- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: b, namespace: ns}}]}\n" +
		"---\napiVersion: v1\nkind: SecretList\nitems:\n- metadata: {name: c}\n---\napiVersion: v1\nkind: List\nitems: []\n" +
		"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {generateName: d-}\n")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.GetAPIVersion()+" "+ObjectName(object))
	}
	want := []string{"v1 Secret a", "v1 Secret ns/b", "v1 Secret c", "apps/v1 Deployment.apps d-"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for text, want := range map[string]string{
		"a: b: c": "mapping values", "- a": "cannot unmarshal",
		"{apiVersion: v1, kind: List, items: [a]}": "item 0 of a List",
	} {
		if _, err := ParseObjects(text); !errors.Is(err, ErrInvalidChart) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestMergeValues(t *testing.T) {
	t.Parallel()
	base := map[string]any{"a": map[string]any{"b": 1, "c": 2}, "d": 3, "f": map[string]any{"g": 6}, "h": 7, "i": 8}
	over := map[string]any{
		"a": map[string]any{"b": nil, "e": 5}, "f": []any{9}, "h": map[string]any{"j": 10}, "i": nil, "k": nil,
	}
	kept := maps.Clone(base)
	got := MergeValues(base, over)
	want := map[string]any{
		"a": map[string]any{"b": nil, "c": 2, "e": 5}, "d": 3, "f": []any{9}, "h": map[string]any{"j": 10}, "i": nil,
		"k": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !cmp.Equal(base, kept) || len(over["a"].(map[string]any)) != 2 {
		t.Errorf("changed: %v, %v", base, over)
	}
}
