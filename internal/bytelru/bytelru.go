// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bytelru provides an LRU cache with a limit in bytes. It does not measure values: callers pass the size of
// each value. Caches with a limit on entries use golang-lru directly.
package bytelru

import (
	"math"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// Overhead is added to the size of each entry, in bytes. It is about the memory that the cache
// needs for an entry, so that the limit also bounds the number of empty entries.
const Overhead = 256

// GroupOverhead is added to the size of each entry of a cache with groups, for the list of keys.
const GroupOverhead = 96

// Cache keeps values up to a number of bytes, and evicts the least recently used ones. It is safe
// for concurrent use.
type Cache[K comparable, V any] struct {
	limit int64

	mu      sync.Mutex
	entries *lru.LRU[K, entry[V]]
	bytes   int64

	// groupOf returns the group of a key, and groups has the keys of each group. Both are nil in a cache without groups.
	groupOf func(key K) string
	groups  map[string][]K
}

type entry[V any] struct {
	value V
	bytes int64
}

// New returns an empty cache with a limit in bytes.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	c := &Cache[K, V]{limit: limit}
	// It fails only if the size is not positive.
	c.entries, _ = lru.NewLRU(math.MaxInt, c.noteDropped)
	return c
}

// NewGrouped does the same as New, for keys in groups. Groups should be small: the cache keeps a list of the keys of
// each group.
func NewGrouped[K comparable, V any](limit int64, groupOf func(key K) string) *Cache[K, V] {
	c := New[K, V](limit)
	c.groupOf, c.groups = groupOf, map[string][]K{}
	return c
}

// noteDropped subtracts an entry that was removed.
func (c *Cache[K, V]) noteDropped(key K, dropped entry[V]) {
	c.bytes -= dropped.bytes
	if c.groupOf == nil {
		return
	}
	group := c.groupOf(key)
	keys := c.groups[group]
	at := slices.Index(keys, key)
	if keys = slices.Delete(keys, at, at+1); len(keys) == 0 {
		delete(c.groups, group)
		return
	}
	c.groups[group] = keys
}

// Get returns the value of a key, and marks it as used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries.Get(key)
	return found.value, ok
}

// Take returns the value of a key, and removes the entry.
func (c *Cache[K, V]) Take(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries.Peek(key)
	c.entries.Remove(key)
	return found.value, ok
}

// Put stores a value with a size in bytes. It replaces the previous value of the key. It does not store a value larger
// than the limit.
func (c *Cache[K, V]) Put(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(key)
	added := entry[V]{value: value, bytes: size + Overhead}
	if c.groupOf != nil {
		added.bytes += GroupOverhead
	}
	if added.bytes > c.limit {
		return
	}
	c.entries.Add(key, added)
	if c.groupOf != nil {
		group := c.groupOf(key)
		c.groups[group] = append(c.groups[group], key)
	}
	for c.bytes += added.bytes; c.bytes > c.limit; {
		c.entries.RemoveOldest()
	}
}

// RemoveGroup removes the entries of a group. It does not read the entries of other groups.
func (c *Cache[K, V]) RemoveGroup(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Clone(c.groups[group]) {
		c.entries.Remove(key)
	}
}

// RemoveOldest removes the least recently used entries as long as their values match.
func (c *Cache[K, V]) RemoveOldest(matches func(value V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if _, oldest, ok := c.entries.GetOldest(); !ok || !matches(oldest.value) {
			return
		}
		c.entries.RemoveOldest()
	}
}

// Remove removes the entry of a key.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(key)
}

// Stats returns the number of entries, and their bytes with the overhead of each.
func (c *Cache[K, V]) Stats() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries.Len(), c.bytes
}
