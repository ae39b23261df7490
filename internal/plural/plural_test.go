// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package plural

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 objects are", 1: "1 object is", 2: "2 objects are"} {
		if got := Count(n, "object is", "objects are"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFew(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"},
	} {
		if got := Few(names, 2); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
