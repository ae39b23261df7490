// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bytelru provides an LRU cache with a limit in bytes. It does not measure values: callers pass the size of
// each value. Caches with a limit on entries use golang-lru directly.
package bytelru

import (
	"math"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// Overhead is added to the size of each entry, in bytes. It is about the memory that the cache
// needs for an entry, so that the limit also bounds the number of empty entries.
const Overhead = 256

// Cache keeps values up to a number of bytes, and evicts the least recently used ones. It is safe
// for concurrent use.
type Cache[K comparable, V any] struct {
	limit int64

	mu      sync.Mutex
	entries *lru.LRU[K, entry[V]]
	bytes   int64
}

type entry[V any] struct {
	value V
	bytes int64
}

// New returns an empty cache with a limit in bytes.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	c := &Cache[K, V]{limit: limit}
	// It fails only if the size is not positive.
	c.entries, _ = lru.NewLRU(math.MaxInt, func(_ K, dropped entry[V]) { c.bytes -= dropped.bytes })
	return c
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
	if added.bytes > c.limit {
		return
	}
	c.entries.Add(key, added)
	for c.bytes += added.bytes; c.bytes > c.limit; {
		c.entries.RemoveOldest()
	}
}

// RemoveIf removes the entries whose keys match.
func (c *Cache[K, V]) RemoveIf(matches func(key K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.entries.Keys() {
		if matches(key) {
			c.entries.Remove(key)
		}
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
