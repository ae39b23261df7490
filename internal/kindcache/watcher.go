// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcache

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watcher has a controller follow kinds, as long as their informers last.
type Watcher struct {
	kinds *Kinds
	begin func(obj client.Object) error
}

// NewWatcher returns a Watcher that calls begin when a kind is to be followed: for the first time, and again when its
// informer has ended and begins anew. What begin adds to the informer must end with it.
func (k *Kinds) NewWatcher(begin func(obj client.Object) error) *Watcher {
	return &Watcher{kinds: k, begin: begin}
}

// Watch follows the kind of an object that was read, if it is not followed already. The error is that of begin.
func (w *Watcher) Watch(gvk schema.GroupVersionKind) error {
	w.kinds.mu.Lock()
	known := w.kinds.known[gvk]
	if known == nil || !known.isSynced {
		w.kinds.mu.Unlock()
		return nil // It ended after the object was read. The next read begins it.
	}
	_, isWatched := known.watchers[w]
	known.watchers[w] = struct{}{}
	w.kinds.mu.Unlock()
	if isWatched {
		return nil
	}
	if err := w.begin(objectOf(gvk)); err != nil {
		w.kinds.mu.Lock()
		defer w.kinds.mu.Unlock()
		delete(known.watchers, w)
		return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
	}
	return nil
}
