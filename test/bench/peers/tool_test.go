// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"testing"
)

// TestConcurrency checks that a tool keeps its defaults unless a concurrency is set.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	if args := (&Fleet{}).concurrency("--a", "--b"); args != nil {
		t.Errorf("flags without a concurrency: %q", args)
	}
	if args := (&Fleet{Concurrency: 7}).concurrency("--a", "--b"); !slices.Equal(args, []string{"--a=7", "--b=7"}) {
		t.Errorf("flags are %q", args)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := New(Fleet{Name: "nothing"}); err == nil {
		t.Error("an unknown tool was accepted")
	}
	for name := range makers {
		if Titles[name] == "" {
			t.Errorf("%s has no title", name)
		}
	}
}
