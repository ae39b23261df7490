// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package truncate

import (
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"empty":                           {"", 5, ""},
		"short":                           {"abc", 5, "abc"},
		"just fits":                       {"abcde", 5, "abcde"},
		"long":                            {"abcdefgh", 6, "abc…"},
		"nothing but the ellipsis":        {"abcd", 3, "…"},
		"cut at the border of characters": {"aäöü", 6, "aä…"},
		"cut before a long character":     {"a😀😀", 7, "a…"},
		"no UTF-8":                        {"a\xff\xfebcdefgh", 8, "abc…"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Text(tc.text, tc.limit)
			if got != tc.want || len(got) > tc.limit || !utf8.ValidString(got) {
				t.Errorf("Text(%q, %d) = %q, want %q", tc.text, tc.limit, got, tc.want)
			}
		})
	}
}
