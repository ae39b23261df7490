// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"testing"
)

func TestClip(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", maxMessage) + ", end"
	for _, tc := range []struct {
		text string
		wide bool
		want string
	}{
		{"a\nb  c", false, "a b c"},
		{long, true, long},
		{long, false, strings.Repeat("ü", maxMessage) + "..."},
	} {
		if got := Clip(tc.text, tc.wide); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
