/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package objectwatch

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// sink takes what one run of a stream reports. Instead of objects it keeps findings, with the releases that want them.
type sink struct {
	stream *stream
	run    int
}

var _ cache.TransformingStore = &sink{}

// Transformer implements cache.TransformingStore: while the first objects stream in, only those that somebody wants are kept.
func (s *sink) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		obj, err := meta.Accessor(item)
		if err != nil {
			return nil, err
		}
		if len(s.stream.targets(s.run, obj)) > 0 {
			return item, nil
		}
		stub := &metav1.PartialObjectMetadata{}
		stub.Namespace, stub.Name = obj.GetNamespace(), obj.GetName()
		return stub, nil
	}
}

// Add implements cache.ReflectorStore.
func (s *sink) Add(item any) error {
	s.each([]any{item}, false)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *sink) Update(item any) error { return s.Add(item) }

// Delete implements cache.ReflectorStore.
func (s *sink) Delete(item any) error {
	obj, err := meta.Accessor(item)
	if err != nil {
		return err
	}
	w := s.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.stream.run != s.run {
		return nil
	}
	for _, t := range s.stream.wanted[s.stream.keyOf(obj)] {
		if s.stream.key.mode == helmRecords {
			w.recordLocked(t.release, obj.GetName(), 0)
		} else {
			s.stream.vanishedLocked(t)
		}
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *sink) Replace(items []any, _ string) error {
	s.each(items, true)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *sink) Resync() error { return nil }

// seen is an object and what it was found to be by each checker that was asked.
type seen struct {
	name     string
	findings map[*health.Checker]finding
}

// each judges objects, without a lock, and reports the outcome to who wants it. If they are all that there are, those
// that are wanted and not among them have vanished.
func (s *sink) each(items []any, all bool) {
	found := map[objectKey][]seen{}
	for _, item := range items {
		obj, err := meta.Accessor(item)
		if err != nil {
			continue
		}
		if findings := s.judge(obj); findings != nil {
			key := s.stream.keyOf(obj)
			found[key] = append(found[key], seen{name: obj.GetName(), findings: findings})
		}
	}

	w := s.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.stream.run != s.run {
		return
	}
	s.stream.wellLocked()
	if !all {
		for key, objects := range found {
			for _, t := range s.stream.wanted[key] {
				s.tellLocked(t, objects)
			}
		}
		return
	}
	for key, targets := range s.stream.wanted {
		for _, t := range targets {
			switch objects := found[key]; {
			case s.stream.key.mode == helmRecords:
				w.recordsLocked(t.release, objects)
			case len(objects) == 0:
				s.stream.vanishedLocked(t)
			default:
				s.tellLocked(t, objects)
			}
		}
	}
}

// tellLocked tells a release of an object, or of some of its records.
func (s *sink) tellLocked(t target, objects []seen) {
	for _, o := range objects {
		f, ok := o.findings[t.release.checker]
		switch {
		case !ok: // joined meanwhile; the next run tells
		case s.stream.key.mode == helmRecords:
			s.stream.link.watcher.recordLocked(t.release, o.name, f.fingerprint)
		default:
			s.stream.link.watcher.applyLocked(t, f)
		}
	}
}

// judge returns what the object is by each checker of those who want it, nil if nobody does.
func (s *sink) judge(obj metav1.Object) map[*health.Checker]finding {
	targets := s.stream.targets(s.run, obj)
	if len(targets) == 0 {
		return nil
	}
	findings := make(map[*health.Checker]finding, 1)
	for _, t := range targets {
		checker := t.release.checker
		if _, ok := findings[checker]; !ok {
			findings[checker] = s.stream.examine(obj, checker)
		}
	}
	return findings
}

// targets returns a copy of the list of those who want an object.
func (s *stream) targets(run int, obj metav1.Object) []target {
	key := s.keyOf(obj)
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	if s.run != run {
		return nil
	}
	return append([]target(nil), s.wanted[key]...)
}

// keyOf returns by what an object is wanted.
func (s *stream) keyOf(obj metav1.Object) objectKey {
	if s.key.mode == helmRecords {
		return objectKey{namespace: obj.GetNamespace(), name: obj.GetLabels()[recordNameLabel]}
	}
	return objectKey{namespace: obj.GetNamespace(), name: obj.GetName()}
}

// examine judges one object.
func (s *stream) examine(obj metav1.Object, checker *health.Checker) finding {
	entries := managedEntries(obj)
	generation, isVersion := inventory.NumberOf(obj)
	f := finding{
		exists: true, optOut: optedOut(obj), uid: obj.GetUID(), generation: generation, isVersion: isVersion, manager: lastOther(entries),
		fingerprint: fingerprint(s.key.kind, obj, entries), verdict: health.Current,
	}
	u, full := obj.(*unstructured.Unstructured)
	switch {
	case full && checker != nil:
		f.verdict, f.message = checker.Check(u)
	case obj.GetDeletionTimestamp() != nil:
		f.verdict, f.message = health.Terminating, "is being deleted"
	}
	return f
}
