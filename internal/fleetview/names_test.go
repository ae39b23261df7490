// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import "testing"

func TestBelongsTo(t *testing.T) {
	t.Parallel()
	others := []string{"calico-extra", "cal"}
	for name, want := range map[string]bool{
		"calico-prod-1-aaaa": true, "calico-7": true, "calico-extra-prod-1-aaaa": false, "cal-prod-1": false,
	} {
		if got := BelongsTo(name, "calico", others); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
