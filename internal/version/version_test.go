// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import "testing"

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ linked, module, want string }{
		{development, "v0.1.0", "v0.1.0"},
		{development, "v0.2.0-rc.1", "v0.2.0-rc.1"},
		{development, "(devel)", development},
		{development, "", development},
		{development, "v0.1.1-0.20261122123000-321c4c4aaaaa", development},
		{development, "v0.1.0+dirty", development},
		{"v0.3.0", "v0.1.0", "v0.3.0"},
	} {
		if got := choose(test.linked, test.module); got != test.want {
			t.Errorf("%s of %s: got %s, want %s", test.linked, test.module, got, test.want)
		}
	}
}
