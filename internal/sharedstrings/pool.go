// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedstrings

import (
	"hash/maphash"
	"reflect"
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

// Share makes the strings of an object share the memory of equal strings in the pool. The object is a pointer. Share
// follows pointers, slices, maps with strings as keys, and interfaces. It skips fields that are not exported.
func (p *Pool) Share(object any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share(reflect.ValueOf(object))
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

func (p *Pool) share(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(p.of(v.String()))
		}
	case reflect.Pointer:
		p.share(v.Elem())
	case reflect.Interface:
		if v.CanSet() {
			if shared, ok := p.shareAny(v.Interface()); ok {
				v.Set(reflect.ValueOf(shared))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				p.share(field)
			}
		}
	case reflect.Slice:
		if hasStrings(v.Type().Elem().Kind()) {
			for i := range v.Len() {
				p.share(v.Index(i))
			}
		}
	case reflect.Map:
		p.shareMap(v)
	default:
	}
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

// shareMap shares the keys and the values of a map. An assignment to a known key replaces the key, too.
func (p *Pool) shareMap(v reflect.Value) {
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
			if shared, ok := p.shareAny(value); ok {
				value = shared
			}
			m[p.of(key)] = value
		}
	}
}

// shareAny shares the strings of a value in an interface. If ok is true, the result must replace the value.
func (p *Pool) shareAny(value any) (shared any, ok bool) {
	switch value := value.(type) {
	case string:
		return p.of(value), true
	case map[string]any, []any:
		p.share(reflect.ValueOf(value))
	}
	return nil, false
}
