// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
)

// TestPlanMemory checks that the parts never exceed the limit, and that a large idle fleet leaves room for data being
// read.
func TestPlanMemory(t *testing.T) {
	t.Parallel()
	const fleet = 379 << 20 // docs/scale.md
	for _, limit := range []int64{0, 256 << 20, 1 << 30, 2 << 30, 3 << 30, 16 << 30} {
		const renderer = 512 << 20
		plan := planMemory(limit, renderer)
		if limit > 0 && plan.heap > limit-min(int64(plan.renderers+1)*renderer, limit/2) {
			t.Errorf("limit %d: heap %d leaves no room for renderers", limit, plan.heap)
		}
		if limit > 0 && plan.underWay > plan.heap || plan.underWay <= 0 {
			t.Errorf("limit %d: %d may be under way, heap %d", limit, plan.underWay, plan.heap)
		}
		if limit >= 2<<30 && fleet+plan.underWay > plan.heap {
			t.Errorf("limit %d: no room for a fleet at rest beside what is under way", limit)
		}
	}
}
