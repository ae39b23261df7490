// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
)

// randomText returns text that hardly compresses.
func randomText(size int, seed int64) string {
	data := make([]byte, size)
	random := rand.New(rand.NewSource(seed))
	for i := range data {
		data[i] = byte('!' + random.Intn(90))
	}
	return string(data)
}

// get returns a manifest without a bound.
func get(c *Cache, key Key, revision int) (manifest string, ok bool) {
	manifest, ok, _ = c.Get(key, revision, func(int64) error { return nil })
	return manifest, ok
}

// TestMemoryIsReservedFirst checks that memory is reserved before a large manifest is unpacked.
func TestMemoryIsReservedFirst(t *testing.T) {
	t.Parallel()
	c, full := NewCache(MaxBytes), errors.New("full")
	for size, want := range map[int]error{freeText: nil, freeText + 1: full} {
		c.Put(Key{}, 1, strings.Repeat("a", size))
		held := int64(0)
		text, ok, err := c.Get(Key{}, 1, func(bytes int64) error { held = bytes; return full })
		if !errors.Is(err, want) || ok != (want == nil) || ok != (held == 0) || ok != (len(text) == size) {
			t.Errorf("%d bytes without free memory: %d, %t, %d were asked for: %v", size, len(text), ok, held, err)
		}
		text, ok, err = c.Get(Key{}, 1, func(bytes int64) error { held = bytes; return nil })
		if err != nil || !ok || len(text) != size || want != nil && held != int64(size) {
			t.Errorf("%d bytes: %d, %t, %d were asked for: %v", size, len(text), ok, held, err)
		}
	}
}

func TestManifestCache(t *testing.T) {
	t.Parallel()
	c := NewCache(64 << 10)
	key := func(name string) Key { return Key{Cluster: "one", Namespace: "apps", Name: name} }
	first, second := randomText(20<<10, 1), randomText(20<<10, 2)
	c.Put(key("a"), 1, first)
	if got, ok := get(c, key("a"), 1); !ok || got != first {
		t.Error("a manifest is not what it was")
	}
	if _, ok := get(c, key("a"), 2); ok {
		t.Error("a revision is taken for another")
	}
	c.Put(key("a"), 2, second)
	if _, ok := get(c, key("a"), 1); ok {
		t.Error("the revision before is still there")
	}
	c.Put(key("b"), 1, first)
	c.Put(key("c"), 1, second)
	if _, ok := get(c, key("a"), 2); !ok {
		t.Error("something is gone although all fits")
	}
	c.Put(key("d"), 1, first)
	if _, ok := get(c, key("b"), 1); ok {
		t.Error("what was not used for the longest time is still there")
	}
	c.Put(key("e"), 1, randomText(200<<10, 3))
	if _, ok := get(c, key("e"), 1); ok {
		t.Error("a manifest that is larger than the limit is kept")
	}
	c.Put(Key{Cluster: "two", Namespace: "apps", Name: "a"}, 1, "small")
	c.Forget("one")
	if left, _ := c.entries.Stats(); left != 1 {
		t.Errorf("%d are left of two clusters without one", left)
	}
	c.Forget("two")
	if left, bytes := c.entries.Stats(); left != 0 || bytes != 0 {
		t.Errorf("%d manifests of %d bytes are left of nothing", left, bytes)
	}
}

func TestManifestCacheConcurrently(t *testing.T) {
	t.Parallel()
	c := NewCache(8 << 10)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := range 50 {
				key := Key{Cluster: fmt.Sprint(n % 3), Name: fmt.Sprint(n % 7)}
				text := strings.Repeat(fmt.Sprint(n%7), 1000)
				c.Put(key, n%7, text)
				if got, ok := get(c, key, n%7); ok && got != text {
					t.Errorf("worker %d reads something else than was put", i)
				}
				if n%20 == 0 {
					c.Forget(fmt.Sprint(n % 3))
				}
			}
		})
	}
	wait.Wait()
}
