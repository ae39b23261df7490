// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// once computes the value of each key only once, even if several callers need it at the same time. It also stores
// errors.
type once[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]func() (V, error)
}

// get returns the value of a key. The first call for the key computes it.
func (o *once[K, V]) get(key K, compute func() (V, error)) (V, error) {
	o.mu.Lock()
	if o.entries == nil {
		o.entries = map[K]func() (V, error){}
	}
	entry, ok := o.entries[key]
	if !ok {
		entry = sync.OnceValues(compute)
		o.entries[key] = entry
	}
	o.mu.Unlock()
	return entry()
}

// readOnce is a client that reads each object once. Many Clusters share the same Secrets and classes, and the values
// are rendered more than once.
type readOnce struct {
	client.Reader
	objects once[string, runtime.Object]
}

func newReadOnce(reader client.Reader) *readOnce { return &readOnce{Reader: reader} }

// idOf identifies an object in the form of a Go type.
func idOf(object client.Object, key client.ObjectKey) string {
	return fmt.Sprintf("%T %s %s", object, object.GetObjectKind().GroupVersionKind(), key)
}

// add adds an object that was listed.
func (r *readOnce) add(object client.Object) {
	// The function returns no error.
	_, _ = r.objects.get(idOf(object, client.ObjectKeyFromObject(object)),
		func() (runtime.Object, error) { return object, nil })
}

// Get implements client.Reader.
func (r *readOnce) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption,
) error {
	known, err := r.objects.get(idOf(object, key), func() (runtime.Object, error) {
		read := object.DeepCopyObject().(client.Object)
		return read, r.Reader.Get(ctx, key, read, options...)
	})
	if err != nil {
		return err
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(known.DeepCopyObject()).Elem())
	return nil
}
