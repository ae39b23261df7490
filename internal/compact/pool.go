// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
)

const (
	// slots is the number of strings in a pool. The slots take 64 KiB, and their strings at most 1 MiB.
	slots = 1 << 12
	// maxLength is the length in bytes of the longest strings that are shared. Longer ones seldom have equals.
	maxLength = 256
)

// Pool has the strings that were seen lately. It is safe for concurrent use.
type Pool struct {
	seed maphash.Seed
	mu   sync.Mutex
	// recent has one string for each hash value. A new string replaces the former one with its hash value.
	recent [slots]string
}

// New returns an empty pool.
func New() *Pool { return &Pool{seed: maphash.MakeSeed()} }

// Compact makes the strings of an object share the memory of equal strings in the pool, and removes the unused capacity
// of slices. The object is a pointer. Compact follows pointers, slices, maps with strings as keys, and interfaces. It
// skips fields that are not exported.
func (p *Pool) Compact(object any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compact(reflect.ValueOf(object))
}

// of returns the string in the pool that equals a string.
func (p *Pool) of(s string) string {
	if s == "" || len(s) > maxLength {
		return s
	}
	slot := &p.recent[maphash.String(p.seed, s)%slots]
	if *slot != s {
		*slot = s
	}
	return *slot
}

func (p *Pool) compact(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(p.of(v.String()))
		}
	case reflect.Pointer:
		p.compact(v.Elem())
	case reflect.Interface:
		if v.CanSet() {
			if result, ok := p.compactAny(v.Interface()); ok {
				v.Set(reflect.ValueOf(result))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				p.compact(field)
			}
		}
	case reflect.Slice:
		clip(v)
		if hasStrings(v.Type().Elem().Kind()) {
			for i := range v.Len() {
				p.compact(v.Index(i))
			}
		}
	case reflect.Map:
		p.compactMap(v)
	default:
	}
}

// clip removes the unused capacity of a slice.
func clip(v reflect.Value) {
	if !v.CanSet() || v.Cap() == v.Len() {
		return
	}
	clipped := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(clipped, v)
	v.Set(clipped)
}

// hasStrings reports whether values of a kind can have strings.
func hasStrings(kind reflect.Kind) bool {
	switch kind {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Slice, reflect.Map:
		return true
	default:
		return false
	}
}

// compactMap shares the keys and compacts the values of a map. An assignment to a known key replaces the key, too.
func (p *Pool) compactMap(v reflect.Value) {
	if !v.CanInterface() {
		return
	}
	switch m := v.Interface().(type) {
	case map[string]string:
		for key, value := range m {
			m[p.of(key)] = p.of(value)
		}
	case map[string]any:
		for key, value := range m {
			if result, ok := p.compactAny(value); ok {
				value = result
			}
			m[p.of(key)] = value
		}
	}
}

// compactAny compacts a value in an interface. If ok is true, the result must replace the value.
func (p *Pool) compactAny(value any) (result any, ok bool) {
	switch value := value.(type) {
	case string:
		return p.of(value), true
	case []any:
		if cap(value) > len(value) {
			value = slices.Clone(value)
		}
		p.compact(reflect.ValueOf(value))
		return value, true
	case map[string]any:
		p.compactMap(reflect.ValueOf(value))
	}
	return nil, false
}
