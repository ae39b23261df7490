// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import (
	"reflect"
	"testing"
)

func TestFormer(t *testing.T) {
	t.Parallel()
	before := map[string]any{
		"password": "old", "replicas": int64(3), "image": map[string]any{"tag": "1.0", "debug": true},
		"hosts": []any{"a.example.com", "b.example.com"}, "gone": map[string]any{"key": "left"}, "empty": nil,
	}
	now := map[string]any{"password": "new", "count": float64(3), "image": map[string]any{"tag": "1.0"},
		"hosts": []any{"b.example.com"}}
	want := map[string]any{"password": "old", "hosts": []any{"a.example.com"}, "gone": map[string]any{"key": "left"}}
	if got := Former(before, now); !reflect.DeepEqual(got, want) {
		t.Errorf("former values are %v, want %v", got, want)
	}
	if got := Former(now, now); got != nil {
		t.Errorf("former values are %v, want none", got)
	}
}
