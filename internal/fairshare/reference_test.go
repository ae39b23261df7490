// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// reference is a second implementation of Queue. It keeps all positions in one list, and compares them each time.
type reference struct {
	pool  *Pool[string]
	spots []*spot
	now   uint64
	next  map[string]uint64
}

// spot is the position of an item of a holder.
type spot struct {
	holder         string
	item, priority int
	start          uint64
}

// push adds a spot. The list has the order in which items were added.
func (r *reference) push(holder string, item, priority int) {
	start := max(r.now, r.next[holder])
	r.next[holder] = start + 1
	r.spots = append(r.spots, &spot{holder: holder, item: item, priority: priority, start: start})
	r.sort(holder)
}

// sort orders the items of a holder by priority. Their positions stay.
func (r *reference) sort(holder string) {
	var own []*spot
	for _, s := range r.spots {
		if s.holder == holder {
			own = append(own, s)
		}
	}
	items := make([]spot, 0, len(own))
	for _, s := range own {
		items = append(items, *s)
	}
	slices.SortStableFunc(items, func(a, b spot) int { return cmp.Compare(b.priority, a.priority) })
	for i, s := range own {
		s.item, s.priority = items[i].item, items[i].priority
	}
}

func (r *reference) raise(holder string, item, priority int) {
	for _, s := range r.spots {
		if s.holder == holder && s.item == item && s.priority < priority {
			s.priority = priority
			r.sort(holder)
			return
		}
	}
}

// ordered returns the spots in the order of the queue.
func (r *reference) ordered() []*spot {
	ordered := slices.Clone(r.spots)
	slices.SortStableFunc(ordered, func(a, b *spot) int { return cmp.Compare(a.start, b.start) })
	return ordered
}

func (r *reference) ahead(holder string) (count int) {
	for i, s := range r.ordered() {
		if s.holder == holder {
			count = i
		}
	}
	return count
}

func (r *reference) pop() (holder string, item int, ok bool) {
	for _, s := range r.ordered() {
		if r.pool.Admits(s.holder) {
			r.now = max(r.now, s.start)
			r.remove(s)
			r.pool.Take(s.holder)
			return s.holder, s.item, true
		}
	}
	return "", 0, false
}

func (r *reference) removeItem(holder string, item int) bool {
	for _, s := range r.spots {
		if s.holder == holder && s.item == item {
			r.remove(s)
			return true
		}
	}
	return false
}

func (r *reference) remove(removed *spot) {
	r.spots = slices.DeleteFunc(r.spots, func(s *spot) bool { return s == removed })
	if len(r.spots) == 0 {
		clear(r.next)
	}
}

// pair has the same items in a Queue and in the reference.
type pair struct {
	*testing.T
	random    *rand.Rand
	queue     *Queue[string, int]
	reference *reference
	holders   int
	running   []string
	pushed    int
}

// step does one random operation with both, and compares the results.
func (p *pair) step() {
	p.Helper()
	holder, item, priority := fmt.Sprint(p.random.IntN(p.holders)), p.random.IntN(p.pushed+1), p.random.IntN(3)
	switch p.random.IntN(6) {
	case 0, 1:
		p.pushed++
		p.queue.PushWithPriority(holder, p.pushed, priority)
		p.reference.push(holder, p.pushed, priority)
	case 2:
		p.queue.Raise(holder, item, priority)
		p.reference.raise(holder, item, priority)
	case 3:
		if got, want := p.queue.Remove(holder, item), p.reference.removeItem(holder, item); got != want {
			p.Fatalf("removed item %d of %s: %t, want %t", item, holder, got, want)
		}
	case 4:
		if len(p.running) > 0 {
			at := p.random.IntN(len(p.running))
			p.queue.pool.GiveBack(p.running[at])
			p.reference.pool.GiveBack(p.running[at])
			p.running = slices.Delete(p.running, at, at+1)
		}
	default:
		holder, item, ok := p.queue.Pop()
		if wantHolder, want, wantOK := p.reference.pop(); ok != wantOK || holder != wantHolder || item != want {
			p.Fatalf("popped item %d of %s, %t; want %d of %s, %t", item, holder, ok, want, wantHolder, wantOK)
		}
		if ok {
			p.running = append(p.running, holder)
		}
	}
	if got, want := p.queue.Ahead(holder), p.reference.ahead(holder); got != want {
		p.Fatalf("%d items are before the last one of %s, want %d", got, holder, want)
	}
	if got, want := p.queue.Len(), len(p.reference.spots); got != want {
		p.Fatalf("%d items wait, want %d", got, want)
	}
}

// TestQueueIsAsReference checks in random orders of operations that the queue serves the same items as a comparison of
// all items.
func TestQueueIsAsReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 3))
			size := 1 + random.IntN(8)
			base := size + random.IntN(4)
			pool := NewPool[string](base, size)
			p := &pair{
				T: t, random: random, queue: NewQueue[string, int](pool), holders: 1 + random.IntN(12),
				reference: &reference{pool: NewPool[string](base, size), next: map[string]uint64{}},
			}
			for range 600 {
				p.step()
			}
		})
	}
}

// BenchmarkPop serves an item, and adds another item of the same holder.
func BenchmarkPop(b *testing.B) {
	for _, items := range []int{100, 1000, 10000} {
		for _, holders := range []int{1, items} {
			b.Run(fmt.Sprintf("%d items of %d holders", items, holders), func(b *testing.B) {
				pool := NewPool[int](16, 16)
				queue := NewQueue[int, [4]string](pool)
				for i := range items {
					queue.Push(i%holders, [4]string{fmt.Sprint(i)})
				}
				for b.Loop() {
					holder, item, _ := queue.Pop()
					queue.Push(holder, item)
					pool.GiveBack(holder)
				}
			})
		}
	}
}
