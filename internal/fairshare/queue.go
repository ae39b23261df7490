// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fairshare

import "slices"

// Queue holds items that wait for a slot of a Pool.
type Queue[H, T comparable] struct {
	pool *Pool[H]

	waiting map[H][]entry[T]
	length  int

	// now is the start number of the item that was served last. next is the start number of the next item of each
	// holder. The map next has an entry for each holder that added an item since the queue was empty.
	now  uint64
	next map[H]uint64

	// pushed counts the items. It orders items that have the same start number.
	pushed uint64
}

type entry[T comparable] struct {
	item     T
	priority int

	// start and number belong to the position in the queue. They do not move with the items when items of a holder change
	// positions.
	start, number uint64
}

func (e entry[T]) isBefore(other entry[T]) bool {
	return e.start < other.start || e.start == other.start && e.number < other.number
}

// NewQueue returns an empty queue for a pool. The caller may also use the pool directly.
func NewQueue[H, T comparable](pool *Pool[H]) *Queue[H, T] {
	return &Queue[H, T]{pool: pool, waiting: map[H][]entry[T]{}, next: map[H]uint64{}}
}

// Len returns the number of waiting items.
func (q *Queue[H, T]) Len() int { return q.length }

// Push adds an item with priority 0 after the items of its holder with the same or a higher priority. It returns how
// many waiting items are before it.
func (q *Queue[H, T]) Push(holder H, item T) (ahead int) { return q.PushWithPriority(holder, item, 0) }

// PushWithPriority does the same as Push, with a priority. Items with a higher number are served first. Priorities do
// not change how often a holder is served.
func (q *Queue[H, T]) PushWithPriority(holder H, item T, priority int) (ahead int) {
	q.pushed++
	added := entry[T]{item: item, priority: priority, start: max(q.now, q.next[holder]), number: q.pushed}
	q.next[holder] = added.start + 1
	q.waiting[holder] = append(q.waiting[holder], added)
	q.length++
	at := lift(q.waiting[holder], len(q.waiting[holder])-1)
	return q.countBefore(q.waiting[holder][at])
}

// Raise raises the priority of a waiting item. It does nothing if the priority is not higher, or the item does not
// wait.
func (q *Queue[H, T]) Raise(holder H, item T, priority int) {
	entries := q.waiting[holder]
	at := slices.IndexFunc(entries, func(e entry[T]) bool { return e.item == item })
	if at < 0 || entries[at].priority >= priority {
		return
	}
	entries[at].priority = priority
	lift(entries, at)
}

// lift moves an item before the items of the same holder with lower priorities, and returns its new position.
func lift[T comparable](entries []entry[T], at int) int {
	for ; at > 0 && entries[at-1].priority < entries[at].priority; at-- {
		before, after := &entries[at-1], &entries[at]
		before.item, after.item = after.item, before.item
		before.priority, after.priority = after.priority, before.priority
	}
	return at
}

// countBefore returns how many waiting items are before an entry.
func (q *Queue[H, T]) countBefore(target entry[T]) (count int) {
	for _, entries := range q.waiting {
		before, _ := slices.BinarySearchFunc(entries, target, func(e, target entry[T]) int {
			if e.isBefore(target) {
				return -1
			}
			return 1
		})
		count += before
	}
	return count
}

// Remove removes an item of a holder from the queue, and reports whether the item was in the queue.
func (q *Queue[H, T]) Remove(holder H, item T) bool {
	at := slices.IndexFunc(q.waiting[holder], func(e entry[T]) bool { return e.item == item })
	if at < 0 {
		return false
	}
	q.removeAt(holder, at)
	return true
}

// Ready reports whether an item may have a slot now.
func (q *Queue[H, T]) Ready() bool {
	_, _, ok := q.first()
	return ok
}

// Pop removes the next item that may have a slot from the queue, and takes the slot. The caller must give the slot back
// to the pool.
func (q *Queue[H, T]) Pop() (holder H, item T, ok bool) {
	holder, next, ok := q.first()
	if !ok {
		return holder, item, false
	}
	q.now = max(q.now, next.start)
	q.removeAt(holder, 0)
	q.pool.Take(holder)
	return holder, next.item, true
}

// first returns the next item that may have a slot.
func (q *Queue[H, T]) first() (holder H, best entry[T], ok bool) {
	for candidate, entries := range q.waiting {
		if (!ok || entries[0].isBefore(best)) && q.pool.Admits(candidate) {
			holder, best, ok = candidate, entries[0], true
		}
	}
	return holder, best, ok
}

func (q *Queue[H, T]) removeAt(holder H, at int) {
	if q.length--; q.length == 0 {
		// The queue is empty, so no holder must wait for others any more.
		clear(q.next)
	}
	entries := slices.Delete(q.waiting[holder], at, at+1)
	if len(entries) == 0 {
		delete(q.waiting, holder)
		return
	}
	q.waiting[holder] = entries
}
