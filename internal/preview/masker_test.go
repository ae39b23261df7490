// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"strings"
	"testing"
)

// TestMaskerDocument checks that no document shows a planted secret, and that other documents keep their form.
func TestMaskerDocument(t *testing.T) {
	t.Parallel()
	const applied = `"{\"data\":{\"a\":\"planted-data\"}}"`
	masker := NewMasker([]any{map[string]any{"password": "planted-value"}})
	for name, tc := range map[string]struct{ document, want string }{
		"other":       {"kind: ConfigMap # kept\ndata: {b: 1, a: 2}", "kind: ConfigMap # kept\ndata: {b: 1, a: 2}"},
		"value":       {"kind: ConfigMap\ndata: {url: 'https://planted-value@x'}", "https://[redacted]@x"},
		"base64":      {"kind: X\nspec: cGxhbnRlZC12YWx1ZQ==", "kind: X\nspec: [redacted]"},
		"data":        {"kind: Secret\ndata: {a: planted-data}", "data:\n  a: '[redacted]'"},
		"stringData":  {"kind: Secret\nstringData: {a: planted-data}", "stringData:\n  a: '[redacted]'"},
		"malformed":   {"kind: Secret\ndata: planted-data", "data: '[redacted]'"},
		"list":        {"kind: List\nitems: [{kind: Secret, data: {a: planted-data}}, {kind: X}]", "- kind: X"},
		"annotations": {"kind: Secret\nmetadata: {annotations: {" + lastApplied + ": " + applied + "}}", "[redacted]"},
		"empty":       {"", ""},
		"no object":   {"- planted-value", "- [redacted]"},
		"not YAML":    {"a: [planted-value", "a: [[redacted]"},
	} {
		got := masker.Document(tc.document)
		if strings.Contains(got, "planted") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q in it", name, got, tc.want)
		}
	}
}

// TestMaskerValues checks that values from Secrets are hidden in values, whatever their type is.
func TestMaskerValues(t *testing.T) {
	t.Parallel()
	masker := NewMasker([]any{map[string]any{"port": int64(6443)}, "planted"})
	got, err := masker.Values(map[string]any{"port": int64(6443), "text": "a planted b", "cidr": "10.0.0.0/8"})
	if want := "cidr: 10.0.0.0/8\nport: [redacted]\ntext: a [redacted] b\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
