/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package manager

import (
	"testing"
)

// TestPlanMemory: what the parts take never exceeds the limit, and what is under way fits beside a large fleet at rest.
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
