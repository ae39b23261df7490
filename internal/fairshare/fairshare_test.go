// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPoolLeavesSlotsToOthers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		base, size int
		// want is the number of slots that each holder gets if the holders take all that they may, one after the other.
		want []int
	}{
		{base: 20, size: 18, want: []int{15, 2, 1, 0}},
		{base: 8, size: 8, want: []int{6, 1, 1, 0}},
		{base: 8, size: 7, want: []int{6, 1, 0}},
		{base: 3, size: 3, want: []int{2, 1, 0}},
		{base: 2, size: 2, want: []int{1, 1, 0}},
		{base: 1, size: 1, want: []int{1, 0}},
		{base: 40, size: 35, want: []int{30, 4, 1, 0}},
	} {
		p := NewPool[int](tc.base, tc.size)
		for holder, want := range tc.want {
			for p.Admits(holder) {
				p.Take(holder)
			}
			if got := p.Held(holder); got != want {
				t.Errorf("of %d places, holder %d has %d, want %d", tc.size, holder, got, want)
			}
		}
		for holder := range tc.want {
			for p.Held(holder) > 0 {
				p.GiveBack(holder)
			}
		}
		if p.Total() != 0 || len(p.held) != 0 {
			t.Errorf("something is left: %+v", p)
		}
	}
}

// serve pops one item and returns its slot.
func serve(t *testing.T, pool *Pool[string], queue *Queue[string, int]) (holder string, item int) {
	t.Helper()
	holder, item, ok := queue.Pop()
	if !ok {
		t.Fatal("nothing is ready")
	}
	pool.GiveBack(holder)
	return holder, item
}

// TestQueueAlternatesBetweenHolders checks that a holder with one item waits for at most one item of each other holder,
// however many items they have.
func TestQueueAlternatesBetweenHolders(t *testing.T) {
	t.Parallel()
	pool := NewPool[string](4, 4)
	queue := NewQueue[string, int](pool)
	for i := range 1000 {
		queue.Push("big", i)
		if ahead := queue.Ahead("big"); ahead != i {
			t.Fatalf("%d items before item %d", ahead, i)
		}
	}
	serve(t, pool, queue)
	queue.Push("small", 1)
	if ahead := queue.Ahead("small"); ahead > 1 {
		t.Errorf("%d items before that of the small holder", ahead)
	}
	queue.Push("small", 2)
	if ahead := queue.Ahead("small"); ahead > 3 {
		t.Errorf("%d items before the second one of the small holder", ahead)
	}
	var order []string
	for range 5 {
		holder, _ := serve(t, pool, queue)
		order = append(order, holder)
	}
	if got := slices.Index(order, "small"); got > 1 {
		t.Errorf("served: %v", order)
	}
	// A holder that always adds one item is not served more often than a holder with a thousand items.
	small := 0
	for i := range 100 {
		queue.Push("small", 10+i)
		for range 2 {
			if holder, _ := serve(t, pool, queue); holder == "small" {
				small++
			}
		}
	}
	if small < 98 || small > 102 {
		t.Errorf("in 200 turns the small holder had %d", small)
	}
}

// TestQueueSkipsHoldersAtTheirShare checks that the queue continues with other holders.
func TestQueueSkipsHoldersAtTheirShare(t *testing.T) {
	t.Parallel()
	pool := NewPool[string](4, 4)
	queue := NewQueue[string, int](pool)
	for i := range 9 {
		queue.Push("a", i)
	}
	for i := range 3 {
		if _, item, ok := queue.Pop(); !ok || item != i {
			t.Fatalf("popped %d, %t", item, ok)
		}
	}
	if queue.Ready() {
		t.Error("a holder may have all places")
	}
	queue.Push("b", 1)
	if holder, _, ok := queue.Pop(); !ok || holder != "b" {
		t.Errorf("popped one of %q, %t", holder, ok)
	}
	if !queue.Remove("a", 5) || queue.Remove("a", 5) || queue.Remove("c", 0) || queue.Len() != 5 {
		t.Errorf("%d items wait", queue.Len())
	}
}

// TestQueueServesAllHolders checks random orders of events. Each item is served once, the items of one holder are
// served in their order, and no state of absent holders is kept.
func TestQueueServesAllHolders(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		pool := NewPool[string](5, 5)
		queue := NewQueue[string, int](pool)
		var running []string
		last, served, pushed := map[string]int{}, 0, 0
		for step := 0; served < 400; step++ {
			if pushed < 400 && random.IntN(2) == 0 {
				pushed++
				queue.Push(fmt.Sprint(random.IntN(1+step)), pushed)
				continue
			}
			if len(running) > 0 && random.IntN(2) == 0 {
				at := random.IntN(len(running))
				pool.GiveBack(running[at])
				running = slices.Delete(running, at, at+1)
			}
			holder, item, ok := queue.Pop()
			if !ok {
				if queue.Len() > 0 && len(running) == 0 {
					t.Fatalf("seed %d: no request has a slot and %d wait", seed, queue.Len())
				}
				continue
			}
			if item <= last[holder] {
				t.Fatalf("seed %d: item %d of %s after %d", seed, item, holder, last[holder])
			}
			last[holder] = item
			served++
			running = append(running, holder)
		}
		if left := len(queue.lines) + len(queue.order) + len(queue.next); left != 0 {
			t.Errorf("seed %d: %+v is left", seed, queue)
		}
	}
}

// TestQueueOrdersItemsOfHolderByPriority checks that a priority changes the order of the items of one holder, and not
// how often others are served.
func TestQueueOrdersItemsOfHolderByPriority(t *testing.T) {
	t.Parallel()
	pool := NewPool[string](4, 4)
	queue := NewQueue[string, int](pool)
	for i := range 3 {
		queue.PushWithPriority("a", i, -1)
		queue.Push("b", i)
	}
	queue.Push("a", 7)
	queue.Raise("a", 2, 0)
	queue.Raise("a", 7, -5)
	queue.Raise("a", 9, 5)
	var order []string
	for range 7 {
		holder, item := serve(t, pool, queue)
		order = append(order, fmt.Sprint(holder, item))
	}
	if want := []string{"a7", "b0", "a2", "b1", "a0", "b2", "a1"}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}
