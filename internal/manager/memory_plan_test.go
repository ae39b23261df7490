// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// TestPlanMemory checks that the parts never exceed the limit, and that a large idle fleet leaves room for data being
// read.
func TestPlanMemory(t *testing.T) {
	t.Parallel()
	const fleet = 379 << 20 // docs/scale.md
	for _, limit := range []int64{0, 256 << 20, 1 << 30, 2 << 30, 3 << 30, 16 << 30} {
		const renderer = 512 << 20
		plan := planMemory(limit, renderer, 0)
		if limit > 0 && plan.heap > limit-min(int64(plan.renderers+1)*renderer, limit/2) {
			t.Errorf("limit %d: heap %d leaves no room for renderers", limit, plan.heap)
		}
		if limit > 0 && plan.underWay > plan.heap || plan.underWay <= 0 {
			t.Errorf("limit %d: %d may be under way, heap %d", limit, plan.underWay, plan.heap)
		}
		if limit >= 2<<30 && fleet+plan.underWay > plan.heap {
			t.Errorf("limit %d: no room for a fleet at rest beside what is under way", limit)
		}
		const perCluster = 179 << 10 // docs/scale.md: a Cluster with one release.
		if fleet := int(plan.heap / perCluster); plan.clusters < max(1, fleet) {
			t.Errorf("limit %d: %d Clusters fit, and %d connections are kept", limit, fleet, plan.clusters)
		}
	}
}

// TestSharesFitIntoHeap checks that all budgets and caches together leave the reserve for the objects of the fleet in
// the heap, for usual limits of the container, and with a memory limit of the Go runtime.
func TestSharesFitIntoHeap(t *testing.T) {
	t.Parallel()
	const renderer = 512 << 20
	for _, limit := range []int64{512 << 20, 1 << 30, 2 << 30, 8 << 30, 64 << 30} {
		for _, goLimit := range []int64{0, 256 << 20, math.MaxInt64} {
			plan := planMemory(limit, renderer, goLimit)
			if goLimit == 256<<20 && plan.heap > goLimit {
				t.Errorf("the heap is %d MiB, and GOMEMLIMIT is less", plan.heap>>20)
			}
			if reserve := plan.heap - plan.shares(); reserve < plan.heap/objectsShare {
				t.Errorf("limit %d MiB, heap %d MiB: the shares leave %d MiB", limit>>20, plan.heap>>20, reserve>>20)
			}
			if plan.missing() != 0 {
				t.Errorf("limit %d MiB: %d bytes are missing", limit>>20, plan.missing())
			}
		}
	}
	if plan := planMemory(2<<30, renderer, 0); plan.heap-plan.shares() < 230<<20 {
		t.Errorf("the default limit leaves %d MiB for the objects of a thousand Clusters", (plan.heap-plan.shares())>>20)
	}
	if plan := planMemory(0, renderer, 0); plan.heap != 0 || plan.shares() > defaultMemory/heapParts*heapTenths {
		t.Errorf("without a limit, the heap is %d and the shares are %d", plan.heap, plan.shares())
	}
}

// TestSmallLimitIsReported checks that the manager logs a limit that is too small, and that the limit in the message is
// enough.
func TestSmallLimitIsReported(t *testing.T) {
	t.Parallel()
	const renderer = 128 << 20
	logged := func(limit int64) string {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		planMemory(limit, renderer, 0).warn(log, limit)
		return strings.Join(lines, "\n")
	}
	message := logged(256 << 20)
	_, number, _ := strings.Cut(message, `"neededMiB"=`)
	needed := int64(0)
	if _, err := fmt.Sscan(number, &needed); err != nil || !strings.Contains(message, "HELMOP_MEMORY_LIMIT") {
		t.Fatalf("the message has no limit, or does not say what to do: %q", message)
	}
	for _, limit := range []int64{needed << 20, 512 << 20, 0} {
		if message := logged(limit); message != "" {
			t.Errorf("limit %d MiB: %s", limit>>20, message)
		}
	}
}
