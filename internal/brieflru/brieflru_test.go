// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package brieflru

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCacheIsEmptied checks that the values are dropped a fixed time after the first one was added, and that the cache
// can be used again.
func TestCacheIsEmptied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const kept = 10 * time.Second
		cache := New[string, int](2, kept)
		if _, ok := cache.Get("a"); ok {
			t.Error("an empty cache has a value")
		}
		for range 2 {
			cache.Add("a", 1)
			time.Sleep(kept - time.Second)
			cache.Add("b", 2)
			if value, ok := cache.Get("a"); !ok || value != 1 {
				t.Errorf("before the time has passed: %d, %t", value, ok)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for _, key := range []string{"a", "b"} {
				if value, ok := cache.Get(key); ok {
					t.Errorf("%s is %d after the time has passed", key, value)
				}
			}
			if cache.entries != nil {
				t.Error("the memory of the entries is kept")
			}
		}
	})
}

// TestCacheIsBounded checks that the least recently used value is evicted.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	cache := New[string, int](2, time.Hour)
	cache.Add("a", 1)
	cache.Add("b", 2)
	cache.Get("a")
	cache.Add("c", 3)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, ok := cache.Get(key); ok != want {
			t.Errorf("%s: %t", key, ok)
		}
	}
}
