// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory stores what a reconciler keeps of its objects only in memory, and loses with a restart: one struct for
// each object, under one lock, with one Drop. The reconciler chooses the type of the struct; package releasememory has
// the one for HelmOpReleases.
//
// Only the pass over an object uses its struct. So the struct needs no lock: the queue never gives the same object to
// two workers. Fields that other goroutines change must be safe for concurrent use.
package memory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Objects hold one T for each object. The zero value is empty. It is safe for concurrent use.
type Objects[T any] struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*T
}

// Of returns the memory of an object. If there is none, it creates the zero value.
func (o *Objects[T]) Of(key types.NamespacedName) *T {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.byKey[key]
	if known == nil {
		if o.byKey == nil {
			o.byKey = map[types.NamespacedName]*T{}
		}
		known = new(T)
		o.byKey[key] = known
	}
	return known
}

// Known returns the memory of an object; nil if there is none.
func (o *Objects[T]) Known(key types.NamespacedName) *T {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byKey[key]
}

// Drop drops the memory of an object.
func (o *Objects[T]) Drop(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byKey, key)
}
