// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytelru

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
)

// kept returns the keys of a cache. It checks that the size of the cache is the size of its entries.
func kept(t *testing.T, c *Cache[string, int]) string {
	t.Helper()
	entries, bytes := c.Stats()
	total := int64(0)
	for _, value := range c.entries.Values() {
		total += value.bytes
	}
	if bytes != total || bytes > c.limit {
		t.Errorf("%d bytes are counted, there are %d, and %d is the limit", bytes, total, c.limit)
	}
	grouped := 0
	for _, keys := range c.groups {
		grouped += len(keys)
	}
	if c.groupOf != nil && grouped != entries {
		t.Errorf("%d of %d entries are in groups", grouped, entries)
	}
	keys := c.entries.Keys()
	if entries != len(keys) {
		t.Errorf("%d entries are counted, there are %d", entries, len(keys))
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

func TestCache(t *testing.T) {
	t.Parallel()
	c := New[string, int](1000 + 4*Overhead)
	step := func(want string) {
		t.Helper()
		if got := kept(t, c); got != want {
			t.Errorf("kept %q, want %q", got, want)
		}
	}
	for i, key := range []string{"a", "b", "c", "d"} {
		c.Put(key, i, 250)
	}
	step("a b c d")
	if value, ok := c.Get("a"); !ok || value != 0 {
		t.Errorf("a is %d, %t", value, ok)
	}
	c.Put("e", 4, 250)
	step("a c d e") // b is the least recently used
	c.Put("c", 5, 100)
	if value, _ := c.Get("c"); value != 5 {
		t.Errorf("c is still %d", value)
	}
	c.Put("f", 6, 1200)
	step("c f")
	c.Put("c", 7, 3000)
	step("f") // a value that is too large is not stored, and the previous value is removed
	c.Remove("f")
	c.Remove("never there")
	step("")
	if _, ok := c.Get("f"); ok {
		t.Error("f is still there")
	}
}

// TestEmptyEntriesAreBounded checks that entries of size 0 have a limit too.
func TestEmptyEntriesAreBounded(t *testing.T) {
	t.Parallel()
	c := New[string, int](10 * Overhead)
	for i := range 100 {
		c.Put(fmt.Sprint(i), i, 0)
	}
	if got := kept(t, c); got != "90 91 92 93 94 95 96 97 98 99" {
		t.Errorf("kept %q", got)
	}
}

func firstLetter(key string) string { return key[:1] }

// TestRemoveGroup checks that a group is removed with all its entries, also if some were replaced, removed or evicted
// before.
func TestRemoveGroup(t *testing.T) {
	t.Parallel()
	c := NewGrouped[string, int](6*(Overhead+GroupOverhead), firstLetter)
	for _, key := range []string{"a1", "b1", "a2", "a3", "b2", "a4", "b3", "a2"} {
		c.Put(key, 0, 0)
	}
	c.Take("a4")
	c.RemoveGroup("c")
	if got := kept(t, c); got != "a2 a3 b1 b2 b3" {
		t.Fatalf("kept %q", got)
	}
	c.RemoveGroup("a")
	if got := kept(t, c); got != "b1 b2 b3" {
		t.Errorf("kept %q", got)
	}
	c.RemoveGroup("b")
	if kept(t, c); len(c.groups) != 0 {
		t.Errorf("groups are left: %v", c.groups)
	}
}

// BenchmarkRemoveGroup removes the entries of one group of many.
func BenchmarkRemoveGroup(b *testing.B) {
	for _, groups := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(groups, " groups"), func(b *testing.B) {
			type key struct{ group, name string }
			c := NewGrouped[key, int](math.MaxInt64, func(k key) string { return k.group })
			fill := func(group string) {
				for i := range 5 {
					c.Put(key{group, fmt.Sprint(i)}, i, 1)
				}
			}
			for i := range groups {
				fill(fmt.Sprint(i))
			}
			for b.Loop() {
				c.RemoveGroup("7")
				fill("7")
			}
		})
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := NewGrouped[string, int](20*(Overhead+GroupOverhead), firstLetter)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 200 {
				key := fmt.Sprint(i % 30)
				c.Put(key, i%30, int64(i))
				if value, ok := c.Get(key); ok && value != i%30 {
					t.Errorf("%s is %d", key, value)
				}
				if i%50 == 0 {
					c.RemoveGroup("1")
				}
			}
		})
	}
	group.Wait()
	kept(t, c)
}

func TestTakeAndRemoveOldest(t *testing.T) {
	t.Parallel()
	c := New[string, int](1 << 20)
	for i, key := range []string{"a", "b", "c", "d"} {
		c.Put(key, i, 10)
	}
	if value, ok := c.Take("b"); value != 1 || !ok {
		t.Errorf("took %d, %t", value, ok)
	}
	if _, ok := c.Take("b"); ok {
		t.Error("an entry was taken twice")
	}
	c.RemoveOldest(func(value int) bool { return value != 2 })
	if got := kept(t, c); got != "c d" {
		t.Errorf("kept %q after the oldest were removed", got)
	}
	c.RemoveOldest(func(int) bool { return true })
	if got := kept(t, c); got != "" {
		t.Errorf("kept %q after all were removed", got)
	}
}
