// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxRecords bounds the records of one release. Further records are ignored: the API server, or a user of the
	// cluster, must not fill the memory of this process.
	maxRecords = 1000
	// maxTextBytes bounds each text that is kept. API servers permit only shorter texts.
	maxTextBytes = 512
)

// judge is how a release determines the health of an object: with its checks, for the version of the object in its
// manifest. For Helm's records, it is the zero value. It has no checker, because a release may get another checker with
// the same checks while an object is examined.
type judge struct {
	checks  health.Digest
	version string
}

// judgeLocked returns the judge of a follower.
func (s *stream) judgeLocked(t target) judge {
	if s.key.mode == helmRecords {
		return judge{}
	}
	return judge{checks: t.release.checker.Digest(), version: t.release.objects[t.index].ref.Value().Version}
}

// findings are the findings of the judges about one object.
type findings map[judge]finding

// records are the fingerprints of Helm's records of one release, by the names of their Secrets.
type records map[string]uint64

// put adds or replaces a record.
func (r records) put(name string, fingerprint uint64) {
	if _, ok := r[name]; ok || len(r) < maxRecords {
		r[name] = fingerprint
	}
}

// bounded returns a text without its end if the text is too long.
func bounded(text string) string { return truncate.Text(text, maxTextBytes) }

// received holds what a list has shown so far: the last findings about each followed object, or the records of each
// followed release. An API server may repeat an object for ever, so there is one entry for each object, not for each
// event.
type received struct {
	objects map[objectKey]findings
	records map[objectKey]records
}

func newReceived() received {
	return received{objects: map[objectKey]findings{}, records: map[objectKey]records{}}
}

// collect determines the health of an object of a list that is being received.
func (f *feed) collect(obj metav1.Object) {
	checked := f.check(obj)
	if checked == nil {
		return
	}
	key := f.stream.keyOf(obj)
	if f.stream.key.mode != helmRecords {
		if f.keep(key, obj, checked) {
			f.received.objects[key] = checked
		}
		return
	}
	if f.received.records[key] == nil {
		f.received.records[key] = records{}
	}
	f.received.records[key].put(bounded(obj.GetName()), checked[judge{}].fingerprint)
}

// keep keeps the findings about an object of a list that is being received, for the releases that expect the object. It
// reports whether the object has followers.
func (f *feed) keep(key objectKey, obj metav1.Object, checked findings) (isFollowed bool) {
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return false
	}
	f.keepLocked(key, obj, checked)
	return len(f.stream.followers[key]) > 0
}

// replace processes a complete list at a resource version. Followed objects that are not in the list have disappeared.
func (f *feed) replace(version string) {
	found := f.received
	f.received, f.version, f.relist = received{}, bounded(version), false
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return
	}
	f.stream.list = f.latest
	f.stream.clearFailureLocked()
	for key, targets := range f.stream.followers {
		for _, t := range targets {
			switch checked := found.objects[key]; {
			case f.stream.key.mode == helmRecords:
				w.recordsLocked(t.release, found.records[key])
			case checked != nil:
				f.passLocked(t, checked)
			case f.stream.replayLocked(key, t) || f.stream.isAwaitedLocked(t):
				// The release joined after the list had shown the object, or would have shown it.
			default:
				f.stream.vanishedLocked(t)
			}
		}
	}
}

// changed determines the health of an added or changed object without a lock. It passes the result to the followers of
// the object.
func (f *feed) changed(obj metav1.Object) {
	checked := f.check(obj)
	if checked == nil {
		return
	}
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return
	}
	key := f.stream.keyOf(obj)
	f.keepLocked(key, obj, checked)
	for _, t := range f.stream.followers[key] {
		if f.stream.key.mode == helmRecords {
			w.recordLocked(t.release, bounded(obj.GetName()), checked[judge{}].fingerprint)
		} else {
			f.passLocked(t, checked)
		}
	}
}

// handleDeleted handles an object that was deleted or lost the label. During a list, the list may have shown the object
// before.
func (f *feed) handleDeleted(obj metav1.Object) {
	key, name := f.stream.keyOf(obj), bounded(obj.GetName())
	delete(f.received.objects, key)
	delete(f.received.records[key], name)
	w := f.stream.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.stream.run != f.run {
		return
	}
	for _, e := range f.stream.expectedLocked() {
		delete(e.kept, keptAt{f.stream, key})
	}
	for _, t := range f.stream.followers[key] {
		if f.stream.key.mode == helmRecords {
			w.recordLocked(t.release, name, 0)
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

// passLocked passes the finding about an object to a release. A release that joined in the meantime has no finding: the
// next run includes it.
func (f *feed) passLocked(t target, checked findings) {
	if found, ok := checked[f.stream.judgeLocked(t)]; ok {
		f.stream.link.watcher.applyLocked(t, found)
	}
}

// check returns, for each judge of an object, its finding about the object; nil without judges.
func (f *feed) check(obj metav1.Object) findings {
	judges := f.stream.judges(f.run, obj)
	if len(judges) == 0 {
		return nil
	}
	checked := make(findings, len(judges))
	for j, checker := range judges {
		checked[j] = f.stream.examine(obj, j, checker)
	}
	return checked
}

// judges returns the judges of an object's followers, and of the releases that expect the object, with their checkers;
// nil if there are none.
func (s *stream) judges(run int, obj metav1.Object) map[judge]*health.Checker {
	key := s.keyOf(obj)
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	if s.run != run {
		return nil
	}
	var found map[judge]*health.Checker
	add := func(j judge, checker *health.Checker) {
		if found == nil {
			found = make(map[judge]*health.Checker, 1)
		}
		found[j] = checker
	}
	for _, t := range s.followers[key] {
		add(s.judgeLocked(t), t.release.checker)
	}
	for _, e := range s.expectedLocked() {
		if e.keepsLocked(s, key, obj) {
			add(e.judge(s), e.Checker)
		}
	}
	return found
}

// keyOf returns the key of an object in the list of followers.
func (s *stream) keyOf(obj metav1.Object) objectKey {
	if s.key.mode == helmRecords {
		return objectKey{namespace: obj.GetNamespace(), name: obj.GetLabels()[recordNameLabel]}
	}
	return objectKey{namespace: obj.GetNamespace(), name: obj.GetName()}
}

// examine returns the finding of a judge with a checker about one object.
func (s *stream) examine(obj metav1.Object, j judge, checker *health.Checker) finding {
	if s.key.mode == listed {
		return finding{exists: true, moveMark: markOf(obj), status: health.Current}
	}
	entries := managedEntries(obj)
	generation, isVersion := inventory.NumberOf(obj)
	f := finding{
		exists: true, optOut: optedOut(obj), moveMark: markOf(obj), generation: generation,
		isVersion: isVersion, uid: types.UID(bounded(string(obj.GetUID()))), version: inventory.ResourceVersionOf(obj),
		deletedWith: bounded(inventory.DeletedWith(obj)), manager: bounded(lastOther(entries)),
		fingerprint: fingerprint(s.key.kind, obj, entries), status: health.Current,
	}
	u, full := obj.(*unstructured.Unstructured)
	switch {
	case full && checker != nil:
		f.status, f.message = checker.Check(u, j.version)
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
