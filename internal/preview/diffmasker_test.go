// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestDiffMaskerPair checks that neither version contains a current or former secret, and that changes are visible.
func TestDiffMaskerPair(t *testing.T) {
	t.Parallel()
	masker := NewDiffMasker([]byte("key"), map[string]any{"db": map[string]any{"password": "planted-new"}, "port": 1},
		[]any{"planted-new"}, map[string]any{"db": map[string]any{"password": "planted-old"},
			"list": []any{map[string]any{"apiToken": "planted-token"}}, "cert-manager": map[string]any{"tag": "v1.18.2"}})
	for name, tc := range map[string]struct {
		before, after         string
		wantBefore, wantAfter string
		isSame                bool
	}{
		"a name of a chart is no secret": {before: "{a: v1.18.2}", after: "{a: v1.18.3}", wantBefore: "a: v1.18.2\n"},
		"nothing secret": {before: "{kind: X, a: [1, true, null], b: {}, c: []}",
			after:      "{kind: X, a: [1, false], b: {}, c: []}",
			wantBefore: "a:\n- 1\n- true\n- null\nb: {}\nc: []\nkind: X\n",
			wantAfter:  "a:\n- 1\n- false\nb: {}\nc: []\nkind: X\n"},
		"rotated": {before: "{a: 'x://planted-old@y'}", after: "{a: 'x://planted-new@y'}",
			wantBefore: "x://[redacted]@y [digest "},
		"unknown former": {before: "{a: older-one}", after: "{a: planted-new}", wantBefore: "[redacted] [digest "},
		"no secret now":  {before: "{a: planted-old}", after: "{a: none}", wantAfter: "[redacted] [digest "},
		"sensitive":      {before: "{a: planted-token}", after: "{b: c}", wantAfter: "b: c\n"},
		"unchanged":      {before: "{a: planted-new}", after: "{a: planted-new}", isSame: true},
		"key":            {before: "{planted-old: 1}", after: "{planted-new: 1}", wantBefore: "[redacted] [digest "},
		"other form":     {before: "{a: {b: planted-new}}", after: "{a: [planted-new]}", wantBefore: "b: '[redacted]"},
		"base64":         {before: "{a: cGxhbnRlZC1uZXc=}", after: "{a: b}", wantBefore: "[redacted]"},
		"new":            {after: "{kind: Secret, stringData: {a: planted}}", wantAfter: "a: '[redacted] [digest "},
		"deleted":        {before: "{kind: Secret, data: {a: cGxhbnRlZA==}}", wantBefore: "a: '[redacted] [digest "},
		"data": {before: "{kind: Secret, data: {a: cGxhbnRlZA==}}",
			after: "{kind: Secret, data: {a: cGxhbnRlZA==}}", isSame: true},
		"malformed": {after: "{kind: Secret, data: planted}", wantAfter: "data: '[redacted] [digest "},
		"annotation": {before: "{kind: Secret, metadata: {annotations: {" + lastApplied + ": planted}}}",
			wantBefore: "[redacted] [digest "},
		"list with holes": {before: "{a: [planted-old, b]}", after: "{a: [planted-new]}", wantBefore: "- b\n"},
	} {
		before, after := masker.Pair(parsed(t, tc.before), parsed(t, tc.after))
		textBefore, textAfter := yamlOf(t, before), yamlOf(t, after)
		if strings.Contains(textBefore+textAfter, "planted") || strings.Contains(textBefore+textAfter, "cGxhbnRlZ") {
			t.Errorf("%s shows a secret:\n%s\n%s", name, textBefore, textAfter)
		}
		if !strings.Contains(textBefore, tc.wantBefore) || !strings.Contains(textAfter, tc.wantAfter) ||
			(textBefore == textAfter) != tc.isSame {
			t.Errorf("%s: got\n%s\n%s", name, textBefore, textAfter)
		}
		if (before == nil) != (tc.before == "") || (after == nil) != (tc.after == "") {
			t.Errorf("%s: got %v, %v", name, before, after)
		}
	}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func yamlOf(t *testing.T, object map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDiffMaskerDigests checks that equal secrets have equal digests, and that data and stringData agree.
func TestDiffMaskerDigests(t *testing.T) {
	t.Parallel()
	masker := NewDiffMasker([]byte("key"), nil, nil, nil)
	before, after := masker.Pair(parsed(t, "{kind: Secret, data: {a: cGxhbnRlZA==}}"),
		parsed(t, "{kind: Secret, stringData: {a: planted}}"))
	a, b := before["data"].(map[string]any)["a"], after["stringData"].(map[string]any)["a"]
	if a != b {
		t.Errorf("got %v and %v", a, b)
	}
	other, _ := NewDiffMasker([]byte("other"), nil, nil, nil).
		Pair(parsed(t, "{kind: Secret, data: {a: cGxhbnRlZA==}}"), nil)
	if other["data"].(map[string]any)["a"] == a {
		t.Error("the digest does not depend on the key")
	}
}
