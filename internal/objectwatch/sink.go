// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// observed is an object with the finding of each checker.
type observed struct {
	name     string
	findings map[*health.Checker]finding
}

// collect determines the health of an object of a list that is being received.
func (f *feed) collect(obj metav1.Object) {
	if findings := f.check(obj); findings != nil {
		key := f.stream.keyOf(obj)
		f.found[key] = append(f.found[key], observed{name: obj.GetName(), findings: findings})
	}
}

// replace processes a complete list at a resource version. Followed objects that are not in the list have disappeared.
func (f *feed) replace(version string) {
	found := f.found
	f.found, f.version, f.relist = nil, version, false
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return
	}
	f.stream.clearFailureLocked()
	for key, targets := range f.stream.followers {
		for _, t := range targets {
			switch objects := found[key]; {
			case f.stream.key.mode == helmRecords:
				w.recordsLocked(t.release, objects)
			case len(objects) == 0:
				f.stream.vanishedLocked(t)
			default:
				f.passLocked(t, objects)
			}
		}
	}
}

// changed determines the health of an added or changed object without a lock. It passes the result to the followers of
// the object.
func (f *feed) changed(obj metav1.Object) {
	findings := f.check(obj)
	if findings == nil {
		return
	}
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return
	}
	for _, t := range f.stream.followers[f.stream.keyOf(obj)] {
		f.passLocked(t, []observed{{name: obj.GetName(), findings: findings}})
	}
}

// handleDeleted handles an object that was deleted or lost the label.
func (f *feed) handleDeleted(obj metav1.Object) {
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return
	}
	for _, t := range f.stream.followers[f.stream.keyOf(obj)] {
		if f.stream.key.mode == helmRecords {
			w.recordLocked(t.release, obj.GetName(), 0)
			continue
		}
		// The event of a deletion may have no owners.
		o := &t.release.objects[t.index]
		o.moveMark = max(o.moveMark, markOf(obj))
		f.stream.vanishedLocked(t)
	}
}

// succeeded clears the error of the stream.
func (f *feed) succeeded() {
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run == f.run {
		f.stream.clearFailureLocked()
	}
}

// passLocked passes an object, or some records, to a release.
func (f *feed) passLocked(t target, objects []observed) {
	for _, o := range objects {
		found, ok := o.findings[t.release.checker]
		switch {
		case !ok: // The release joined in the meantime. The next run includes it.
		case f.stream.key.mode == helmRecords:
			f.stream.link.watcher.recordLocked(t.release, o.name, found.fingerprint)
		default:
			f.stream.link.watcher.applyLocked(t, found)
		}
	}
}

// check returns, for each checker of a follower, its finding about an object; nil without followers.
func (f *feed) check(obj metav1.Object) map[*health.Checker]finding {
	targets := f.stream.targets(f.run, obj)
	if len(targets) == 0 {
		return nil
	}
	findings := make(map[*health.Checker]finding, 1)
	for _, t := range targets {
		checker := t.release.checker
		if _, ok := findings[checker]; !ok {
			findings[checker] = f.stream.examine(obj, checker)
		}
	}
	return findings
}

// targets returns a copy of the list of an object's followers.
func (s *stream) targets(run int, obj metav1.Object) []target {
	key := s.keyOf(obj)
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	if s.run != run {
		return nil
	}
	return append([]target(nil), s.followers[key]...)
}

// keyOf returns the key of an object in the list of followers.
func (s *stream) keyOf(obj metav1.Object) objectKey {
	if s.key.mode == helmRecords {
		return objectKey{namespace: obj.GetNamespace(), name: obj.GetLabels()[recordNameLabel]}
	}
	return objectKey{namespace: obj.GetNamespace(), name: obj.GetName()}
}

// examine returns the finding of a checker for one object.
func (s *stream) examine(obj metav1.Object, checker *health.Checker) finding {
	if s.key.mode == listed {
		return finding{exists: true, moveMark: markOf(obj), status: health.Current}
	}
	entries := managedEntries(obj)
	generation, isVersion := inventory.NumberOf(obj)
	f := finding{
		exists: true, optOut: optedOut(obj), moveMark: markOf(obj), uid: obj.GetUID(), generation: generation,
		isVersion: isVersion, version: inventory.ResourceVersionOf(obj), deletedWith: inventory.DeletedWith(obj),
		manager:     lastOther(entries),
		fingerprint: fingerprint(s.key.kind, obj, entries), status: health.Current,
	}
	u, full := obj.(*unstructured.Unstructured)
	switch {
	case full && checker != nil:
		f.status, f.message = checker.Check(u)
	case obj.GetDeletionTimestamp() != nil:
		f.status, f.message = health.Terminating, "is being deleted"
	}
	return f
}

// markOf returns the mark of clusterctl move on an object.
func markOf(obj metav1.Object) MoveMark {
	switch _, marked := obj.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; {
	case !marked:
		return Unmarked
	case inventory.MovesWithClusters(obj):
		return MarkedMovable
	default:
		return Marked
	}
}
