// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestBurstIsOver(t *testing.T) {
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
		"a long rest": {allocations: append([]uint64{500}, make([]uint64, 60)...),
			over: []int{restTicks, restTicks + laterTicks}},
		"work before the second return": {allocations: slices.Concat([]uint64{500}, make([]uint64, restTicks+1),
			[]uint64{500}, make([]uint64, restTicks)), over: []int{restTicks, restTicks + 2 + restTicks}},
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

// TestProgramIsReturnedAtRest checks that the pages of the program are returned again and again at rest, and not during
// a burst or before the memory of a burst is returned.
func TestProgramIsReturnedAtRest(t *testing.T) {
	t.Parallel()
	const live, size, intervals = 100 << 20, 500 << 20, restTicks + laterTicks
	const wait = restTicks + programTicks
	for name, tc := range map[string]struct {
		// bursts are the intervals with a burst. want are the intervals after which the pages are returned.
		bursts, want []int
	}{
		"no burst": {want: []int{programTicks - 1, 2*programTicks - 1, 3*programTicks - 1}},
		"a burst":  {bursts: []int{0}, want: []int{wait, wait + programTicks}},
		"a burst after a return": {bursts: []int{programTicks + 1},
			want: []int{programTicks - 1, programTicks + 1 + wait}},
		"a burst before the second return of memory": {bursts: []int{0, restTicks + 2}, want: []int{restTicks + 2 + wait}},
	} {
		var b burst
		var got []int
		allocated := uint64(0)
		for i := range intervals {
			if slices.Contains(tc.bursts, i) {
				allocated += size
			}
			if !b.isOver(allocated, live) && b.isProgramDue() {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the pages are returned after %v, not %v", name, got, tc.want)
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
	var percents []int
	m := &memoryReturner{
		interval: time.Millisecond, giveBack: cancel, percent: 25,
		setPercent: func(percent int) int {
			percents = append(percents, percent)
			return 0
		},
		read: func() (allocated, live uint64) {
			reads++
			return 10 * minBurst, minBurst
		},
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []int{100, 15}; !slices.Equal(percents, want) {
		t.Errorf("collections start at a growth of %v percent, not %v", percents, want)
	}
	if reads < 1+restTicks {
		t.Errorf("given back after %d intervals", reads)
	}
}

// TestStartIsOnlyTheFirstBurst checks that a later burst has less garbage than the start, and that an election is a
// start.
func TestStartIsOnlyTheFirstBurst(t *testing.T) {
	t.Parallel()
	const live = 128 << 20
	allocated, reads := uint64(0), 0
	elected := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var percents []int
	m := &memoryReturner{
		read: func() (uint64, uint64) {
			switch reads++; reads {
			case 10: // after the rest that follows the start
				allocated += live
			case 20: // after the rest that follows the burst
				close(elected)
			case 40:
				cancel()
			}
			return allocated, live
		},
		giveBack: func() {}, returnProgram: func() {}, percent: 1, interval: time.Millisecond, elected: elected,
		setPercent: func(percent int) int {
			percents = append(percents, percent)
			return 0
		},
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []int{50, 1, 18, 1, 50, 1}; !slices.Equal(percents, want) {
		t.Errorf("collections start at a growth of %v percent, not %v", percents, want)
	}
}

// TestGarbageUntilStartEnds checks that a large heap has the configured percentage at once, because Run starts with a
// larger one.
func TestGarbageUntilStartEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var percents []int
	m := &memoryReturner{
		read: func() (uint64, uint64) {
			cancel()
			return 0, 1 << 30
		},
		percent: 25, interval: time.Hour,
		setPercent: func(percent int) int {
			percents = append(percents, percent)
			return 0
		},
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []int{25}; !slices.Equal(percents, want) {
		t.Errorf("collections start at a growth of %v percent, not %v", percents, want)
	}
}

func TestSmallHeapIsCollectedLessOftenDuringBurst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		burst            burst
		live             uint64
		configured, want int
	}{
		"no burst":                  {burst{}, 20 << 20, 25, 15},
		"no burst, saved memory":    {burst{}, 20 << 20, 10, 10},
		"no burst, saved CPU":       {burst{}, 20 << 20, 26, 26},
		"nothing is known":          {burst{rest: 1}, 0, 25, 100},
		"a small heap":              {burst{rest: 1}, 20 << 20, 25, 100},
		"a middle heap":             {burst{rest: 1}, 64 << 20, 25, 37},
		"a large heap":              {burst{rest: 1}, 1 << 30, 25, 25},
		"a user saves CPU":          {burst{rest: 1}, 20 << 20, 300, 300},
		"a user saves memory":       {burst{rest: 1}, 1 << 30, 10, 10},
		"a middle heap, at a start": {burst{rest: 1, isStart: true}, 128 << 20, 25, 50},
		"a large heap, at a start":  {burst{rest: 1, isStart: true}, 1 << 30, 25, 25},
	} {
		b := test.burst
		if got := b.percent(test.live, test.configured); got != test.want {
			t.Errorf("%s: %d, not %d", name, got, test.want)
		}
	}
}
