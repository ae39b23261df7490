// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"slices"
	"testing"
)

func TestIndices(t *testing.T) {
	t.Parallel()
	first := indices(68, 6, 1, "a")
	if len(first) != 6 || first[0] != 0 || first[5] != 67 || !slices.IsSorted(first) ||
		len(slices.Compact(slices.Clone(first))) != 6 {
		t.Errorf("got %v", first)
	}
	if !slices.Equal(first, indices(68, 6, 1, "a")) {
		t.Error("the same seed returns other indices")
	}
	if slices.Equal(first, indices(68, 6, 2, "a")) || slices.Equal(first, indices(68, 6, 1, "b")) {
		t.Error("another seed or another table returns the same indices")
	}
	if got := indices(3, 1, 1, "a"); !slices.Equal(got, []int{0}) {
		t.Errorf("got %v", got)
	}
}

func TestOf(t *testing.T) {
	cases := []int{1, 2, 3, 4, 5, 6, 7, 8}
	t.Setenv("HELMOP_SAMPLE", "3")
	if got := Of(t, cases); len(got) != 3 || got[0] != 1 || got[2] != 8 {
		t.Errorf("got %v", got)
	}
	t.Setenv("HELMOP_SAMPLE", "all")
	if got := Of(t, cases); len(got) != len(cases) {
		t.Errorf("got %v", got)
	}
	t.Setenv("HELMOP_SAMPLE", "9")
	if got := Of(t, cases); len(got) != len(cases) {
		t.Errorf("got %v", got)
	}
}
