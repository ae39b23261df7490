// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestBurstIsOverOnce(t *testing.T) {
	t.Parallel()
	const mebi, live = 1 << 20, 100 << 20
	tests := map[string]struct {
		// allocations are the bytes allocated in each interval. over are the intervals after which a burst is over.
		allocations []uint64
		over        []int
	}{
		"rest":                       {allocations: []uint64{5, 25, 20, 5, 5, 5, 5}},
		"a burst":                    {allocations: []uint64{500, 300, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, over: []int{6}},
		"a burst that goes on":       {allocations: []uint64{500, 5, 5, 5, 5, 26, 5, 5, 5, 5, 5, 5}, over: []int{10}},
		"one burst after the other":  {allocations: []uint64{500, 0, 0, 0, 0, 0, 0, 500, 0, 0, 0, 0, 0}, over: []int{5, 12}},
		"work that never ends":       {allocations: []uint64{500, 300, 300, 300, 300, 300, 300, 300, 300}},
		"the start fills the caches": {allocations: []uint64{100, 0, 0, 0, 0, 0}, over: []int{5}},
	}
	for name, tc := range tests {
		var b burst
		var over []int
		allocated := uint64(0)
		for i, n := range tc.allocations {
			allocated += n * mebi
			if b.isOver(allocated, live) {
				over = append(over, i)
			}
		}
		if !slices.Equal(over, tc.over) {
			t.Errorf("%s: over after %v, not %v", name, over, tc.over)
		}
	}
}

func TestSmallManagersHaveNoBursts(t *testing.T) {
	t.Parallel()
	var b burst
	for i := range uint64(20) {
		if b.isOver((i/10+1)*(minBurst-1), 20<<20) {
			t.Fatalf("over after %d intervals", i)
		}
	}
}

// TestMemoryIsReturnedAfterBurst checks that memory is returned after a burst, and not earlier.
func TestMemoryIsReturnedAfterBurst(t *testing.T) {
	t.Parallel()
	if allocated, live := readHeap(); allocated == 0 || live > allocated {
		t.Fatalf("the runtime says %d bytes, %d of them in use", allocated, live)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	m := &memoryReturner{interval: time.Millisecond, giveBack: cancel, read: func() (allocated, live uint64) {
		reads++
		return 10 * minBurst, minBurst
	}}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if reads < 1+restTicks {
		t.Errorf("given back after %d intervals", reads)
	}
}
