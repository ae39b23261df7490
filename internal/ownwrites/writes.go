// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// limit is the maximum wait for one write. If another client deleted the written object while the watch was
// interrupted, the cache never shows the write.
const limit = 10 * time.Second

// minWait and maxWait bound the time until the next pass. The cache is usually only milliseconds behind.
const minWait, maxWait = 5 * time.Millisecond, 500 * time.Millisecond

// Writes stores two resourceVersions for each kind: the newest that the passes over each object wrote, and the newest
// that the cache has shown. The resourceVersions of a kind are numbers that grow with each write:
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.
//
// The zero value observes no kind, so it treats each write as visible in the cache. Writes is safe for concurrent use.
type Writes struct {
	mu    sync.Mutex
	shown map[kind]uint64
	// byOwner holds the writes that the cache did not show at the last check.
	byOwner map[client.ObjectKey]map[kind]write
	swept   time.Time
}

// kind is the Go type of the objects of a kind. Other representations of the same objects have other caches.
type kind = reflect.Type

type write struct {
	resourceVersion uint64
	at              time.Time
}

// Observe records which states of the kinds of some objects the cache shows. It must be called before the first write.
func (w *Writes) Observe(ctx context.Context, informers cache.Informers, objects ...client.Object) error {
	for _, object := range objects {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("following the cache of %T: %w", object, err)
		}
		w.show(reflect.TypeOf(object), 0)
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    w.showObject,
			UpdateFunc: func(_, obj any) { w.showObject(obj) },
			DeleteFunc: func(obj any) {
				if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = unknown.Obj
				}
				w.showObject(obj)
			},
		}); err != nil {
			return fmt.Errorf("following the cache of %T: %w", object, err)
		}
	}
	return nil
}

func (w *Writes) showObject(obj any) {
	object, ok := obj.(client.Object)
	if !ok {
		return
	}
	if version, ok := versionOf(object); ok {
		w.show(reflect.TypeOf(object), version)
	}
}

func (w *Writes) show(of kind, version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown == nil {
		w.shown, w.byOwner = map[kind]uint64{}, map[client.ObjectKey]map[kind]write{}
	}
	w.shown[of] = max(w.shown[of], version)
}

// record records that an object was written in a pass over owner.
func (w *Writes) record(owner client.ObjectKey, object client.Object, now time.Time) {
	version, ok := versionOf(object)
	if !ok {
		return
	}
	of := reflect.TypeOf(object)
	w.mu.Lock()
	defer w.mu.Unlock()
	if shown, observed := w.shown[of]; !observed || shown >= version {
		return
	}
	if now.Sub(w.swept) > limit {
		w.swept = now
		maps.DeleteFunc(w.byOwner, func(owner client.ObjectKey, _ map[kind]write) bool { return w.wait(owner, now) == 0 })
	}
	writes := w.byOwner[owner]
	if writes == nil {
		writes = map[kind]write{}
		w.byOwner[owner] = writes
	}
	writes[of] = write{resourceVersion: max(writes[of].resourceVersion, version), at: now}
}

// Wait returns 0 if the cache shows all writes of the passes over owner, or if it has not shown them within 10 s. After
// 0, reads from the cache return objects that are at least as new as these writes. Otherwise it returns the delay until
// the next pass: the age of the write, but at least 5 ms and at most 500 ms.
func (w *Writes) Wait(owner client.ObjectKey) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := w.wait(owner, time.Now())
	if wait == 0 {
		delete(w.byOwner, owner)
	}
	return wait
}

// wait does the same as Wait. The caller holds mu.
func (w *Writes) wait(owner client.ObjectKey, now time.Time) time.Duration {
	for of, write := range w.byOwner[owner] {
		if age := now.Sub(write.at); w.shown[of] < write.resourceVersion && age < limit {
			return min(max(age, minWait), maxWait)
		}
	}
	return 0
}

// versionOf returns the resourceVersion of an object as a number, if it is a number.
func versionOf(object client.Object) (uint64, bool) {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return version, err == nil
}
