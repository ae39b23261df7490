// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package brieflru provides an LRU cache that is emptied a short time after its first entry. It is for results that are
// needed again and again while the manager works, and cost little time: an idle manager does not keep them. It has no
// goroutine, and keeps no timer while it is empty.
package brieflru

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps a number of values, and evicts the least recently used ones. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	size int
	kept time.Duration

	mu sync.Mutex
	// entries is nil while the cache is empty: a Go map that was emptied keeps its memory.
	entries *lru.LRU[K, V]
}

// New returns an empty cache for up to size values, which must be positive. The cache is emptied when the time kept has
// passed since the first value was added, also if values are still used.
func New[K comparable, V any](size int, kept time.Duration) *Cache[K, V] {
	return &Cache[K, V]{size: size, kept: kept}
}

// Get returns the value of a key, and marks it as used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		return value, false
	}
	return c.entries.Get(key)
}

// Add sets the value of a key.
func (c *Cache[K, V]) Add(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries, _ = lru.NewLRU[K, V](c.size, nil) // fails only if the size is not positive
		time.AfterFunc(c.kept, c.empty)
	}
	c.entries.Add(key, value)
}

// empty drops all values.
func (c *Cache[K, V]) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
}
