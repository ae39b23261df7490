// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcache

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watcher adds the event handlers of a controller to the informers of kinds.
type Watcher struct {
	kinds *Kinds
	start func(obj client.Object) error
}

// NewWatcher returns a Watcher that calls start when a kind must be watched: for the first time, and each time after
// its informer was stopped and started. The handlers that start adds to the informer must end with the informer.
func (k *Kinds) NewWatcher(start func(obj client.Object) error) *Watcher {
	return &Watcher{kinds: k, start: start}
}

// Watch watches the kind of an object that the controller has read. It does nothing if the kind is watched already. The
// error is the error of start.
func (w *Watcher) Watch(gvk schema.GroupVersionKind) error {
	w.kinds.mu.Lock()
	known := w.kinds.known[gvk]
	if known == nil || !known.isSynced {
		w.kinds.mu.Unlock()
		return nil // The informer was stopped after the read of the object. The next read starts the informer again.
	}
	_, isWatched := known.watchers[w]
	known.watchers[w] = struct{}{}
	w.kinds.mu.Unlock()
	if isWatched {
		return nil
	}
	if err := w.start(objectOf(gvk)); err != nil {
		w.kinds.mu.Lock()
		defer w.kinds.mu.Unlock()
		delete(known.watchers, w)
		return fmt.Errorf("watching %s: %w", gvk.GroupKind(), err)
	}
	return nil
}
