// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"cmp"
	"slices"
)

// Queue holds items that wait for a slot of a Pool.
type Queue[H, T comparable] struct {
	pool *Pool[H]

	// lines has a line for each holder with waiting items. order has the same lines, ordered by their first entries.
	lines  map[H]*line[H, T]
	order  []*line[H, T]
	length int

	// now is the start number of the item that was served last. next is the start number of the next item of each
	// holder. The map next has an entry for each holder that added an item since the queue was empty.
	now  uint64
	next map[H]uint64

	// pushed counts the items. It orders items that have the same start number.
	pushed uint64
}

// line has the waiting items of one holder, ordered by their positions. It is never empty.
type line[H, T comparable] struct {
	holder  H
	entries []entry[T]
}

type entry[T comparable] struct {
	item     T
	priority int

	// start and number belong to the position in the queue. They do not move with the items when items of a holder change
	// positions.
	start, number uint64
}

// compare compares the positions of two entries.
func (e entry[T]) compare(other entry[T]) int {
	return cmp.Or(cmp.Compare(e.start, other.start), cmp.Compare(e.number, other.number))
}

// NewQueue returns an empty queue for a pool. The caller may also use the pool directly.
func NewQueue[H, T comparable](pool *Pool[H]) *Queue[H, T] {
	return &Queue[H, T]{pool: pool, lines: map[H]*line[H, T]{}, next: map[H]uint64{}}
}

// Len returns the number of waiting items.
func (q *Queue[H, T]) Len() int { return q.length }

// Push adds an item with priority 0 after the items of its holder with the same or a higher priority.
func (q *Queue[H, T]) Push(holder H, item T) { q.PushWithPriority(holder, item, 0) }

// PushWithPriority does the same as Push, with a priority. Items with a higher number are served first. Priorities do
// not change how often a holder is served.
func (q *Queue[H, T]) PushWithPriority(holder H, item T, priority int) {
	q.pushed++
	added := entry[T]{item: item, priority: priority, start: max(q.now, q.next[holder]), number: q.pushed}
	q.next[holder] = added.start + 1
	q.length++
	l := q.lines[holder]
	if l == nil {
		l = &line[H, T]{holder: holder, entries: []entry[T]{added}}
		q.lines[holder] = l
		q.insert(l)
		return
	}
	l.entries = append(l.entries, added)
	l.lift(len(l.entries) - 1)
}

// Raise raises the priority of a waiting item. It does nothing if the priority is not higher, or the item does not
// wait. It compares the items of the holder one by one.
func (q *Queue[H, T]) Raise(holder H, item T, priority int) {
	l := q.lines[holder]
	if at := l.find(item); at >= 0 && l.entries[at].priority < priority {
		l.entries[at].priority = priority
		l.lift(at)
	}
}

// find returns the position of an item in a line; -1 if there is none. The line may be nil.
func (l *line[H, T]) find(item T) int {
	if l == nil {
		return -1
	}
	return slices.IndexFunc(l.entries, func(e entry[T]) bool { return e.item == item })
}

// lift moves an item before the items of the line with lower priorities.
func (l *line[H, T]) lift(at int) {
	for ; at > 0 && l.entries[at-1].priority < l.entries[at].priority; at-- {
		before, after := &l.entries[at-1], &l.entries[at]
		before.item, after.item = after.item, before.item
		before.priority, after.priority = after.priority, before.priority
	}
}

// Ahead returns how many waiting items are before the last item of a holder. It reads the lines of all holders.
func (q *Queue[H, T]) Ahead(holder H) (count int) {
	l := q.lines[holder]
	if l == nil {
		return 0
	}
	last := l.entries[len(l.entries)-1]
	for _, other := range q.order {
		before, _ := slices.BinarySearchFunc(other.entries, last, entry[T].compare)
		count += before
	}
	return count
}

// Remove removes an item of a holder from the queue, and reports whether the item was in the queue.
func (q *Queue[H, T]) Remove(holder H, item T) bool {
	l := q.lines[holder]
	at := l.find(item)
	if at < 0 {
		return false
	}
	q.removeAt(l, at)
	return true
}

// Ready reports whether an item may have a slot now.
func (q *Queue[H, T]) Ready() bool { return q.first() != nil }

// Pop removes the next item that may have a slot from the queue, and takes the slot. The caller must give the slot back
// to the pool.
func (q *Queue[H, T]) Pop() (holder H, item T, ok bool) {
	l := q.first()
	if l == nil {
		return holder, item, false
	}
	next := l.entries[0]
	q.now = max(q.now, next.start)
	q.removeAt(l, 0)
	q.pool.Take(l.holder)
	return l.holder, next.item, true
}

// first returns the line of the next item that may have a slot; nil if there is none. While a slot is free, the pool
// admits each holder without a slot. So first passes only the lines of holders that have slots.
func (q *Queue[H, T]) first() *line[H, T] {
	if q.pool.IsFull() {
		return nil
	}
	for _, l := range q.order {
		if q.pool.Admits(l.holder) {
			return l
		}
	}
	return nil
}

func (q *Queue[H, T]) removeAt(l *line[H, T], at int) {
	if q.length--; q.length == 0 {
		// The queue is empty, so no holder must wait for others any more.
		clear(q.next)
	}
	if at > 0 {
		l.entries = slices.Delete(l.entries, at, at+1)
		return
	}
	place := q.place(l)
	q.order = slices.Delete(q.order, place, place+1)
	// The other entries stay where they are: a line may have thousands.
	l.entries[0] = entry[T]{}
	if l.entries = l.entries[1:]; len(l.entries) == 0 {
		delete(q.lines, l.holder)
		return
	}
	q.insert(l)
}

// insert adds a line to order.
func (q *Queue[H, T]) insert(l *line[H, T]) { q.order = slices.Insert(q.order, q.place(l), l) }

// place returns the index in order of a line, or the index where it belongs.
func (q *Queue[H, T]) place(l *line[H, T]) int {
	at, _ := slices.BinarySearchFunc(q.order, l, func(other, l *line[H, T]) int {
		return other.entries[0].compare(l.entries[0])
	})
	return at
}
