// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"container/heap"
	"time"
)

// schedule is a set of keys with due times. Its zero value is empty. Each method takes at most logarithmic time: users
// choose how many keys there are, and the lock of the Watcher is held meanwhile.
type schedule[K comparable] struct {
	entries map[K]*scheduled[K]
	order   byDue[K]
}

// scheduled is an entry of a schedule.
type scheduled[K comparable] struct {
	key K
	due time.Time
	// index is the position of the entry in the heap.
	index int
}

func (s *schedule[K]) len() int { return len(s.order) }

// set adds a key, or changes its due time.
func (s *schedule[K]) set(key K, due time.Time) {
	if e, ok := s.entries[key]; ok {
		e.due = due
		heap.Fix(&s.order, e.index)
		return
	}
	if s.entries == nil {
		s.entries = map[K]*scheduled[K]{}
	}
	e := &scheduled[K]{key: key, due: due}
	s.entries[key] = e
	heap.Push(&s.order, e)
}

// remove removes a key, if the schedule has it.
func (s *schedule[K]) remove(key K) {
	if e, ok := s.entries[key]; ok {
		delete(s.entries, key)
		heap.Remove(&s.order, e.index)
	}
}

// due returns the due time of a key.
func (s *schedule[K]) due(key K) (due time.Time, ok bool) {
	if e, ok := s.entries[key]; ok {
		return e.due, true
	}
	return time.Time{}, false
}

// first returns the key that is due first.
func (s *schedule[K]) first() (key K, due time.Time, ok bool) {
	if len(s.order) == 0 {
		return key, due, false
	}
	return s.order[0].key, s.order[0].due, true
}

// byDue implements heap.Interface.
type byDue[K comparable] []*scheduled[K]

// Len implements heap.Interface.
func (h byDue[K]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h byDue[K]) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

// Swap implements heap.Interface.
func (h byDue[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *byDue[K]) Push(added any) {
	e, _ := added.(*scheduled[K])
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *byDue[K]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
