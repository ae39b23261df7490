// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// maxKept is the maximum number of objects whose states are kept for one release. A stream with further objects of the
// release restarts when the release joins the stream.
const maxKept = 256

// Expectation describes the objects that an action on a release is about to create.
type Expectation struct {
	// Namespace and Name identify the Helm release. Helm's annotations on the objects name it.
	Namespace, Name string
	// Checker and Drift are the same as in the Plan that follows.
	Checker *health.Checker
	Drift   bool
	// OtherNamespaces is true if releases in other namespaces will be followed with the same Connection. Streams that
	// begin for the release then watch all namespaces, so that they need not restart for the other releases.
	OtherNamespaces bool
}

// Expect keeps the states of the objects of a release that no release follows yet, while an action creates them. If
// Follow is called before end, it uses these states, and the streams need no new list. Otherwise each release that
// joins a stream would restart it. Expect sends no request. Callers must call end when the action has ended.
func (w *Watcher) Expect(key types.NamespacedName, conn Connection, expected Expectation) (end func()) {
	id := linkID{cluster: conn.Cluster, identity: conn.Identity}
	e := &expectation{Expectation: expected, kept: map[keptAt]keptFinding{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expected[id] == nil {
		w.expected[id] = map[types.NamespacedName]*expectation{}
	}
	w.expected[id][key] = e
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.expected[id][key] != e {
			return
		}
		if delete(w.expected[id], key); len(w.expected[id]) == 0 {
			delete(w.expected, id)
		}
	}
}

// expectation is an Expectation with the last findings about its objects. The Watcher's lock guards it.
type expectation struct {
	Expectation
	kept map[keptAt]keptFinding
}

// keptAt identifies an object with a kept finding.
type keptAt struct {
	stream *stream
	objectKey
}

// keptFinding is the finding of an event. It is valid only if the list is the last complete list of the stream: after
// another list, the object may not exist any more.
type keptFinding struct {
	finding
	list listID
}

// listID identifies a list of a stream. The zero value is no list.
type listID struct{ run, number int }

// judge returns the judge of the objects in a stream.
func (e *expectation) judge(s *stream) judge {
	return judge{checks: e.Checker.Digest(), version: s.key.resource.Version}
}

// keepsLocked reports whether the finding about an object is kept. A kept finding is replaced also if the object has
// followers or other annotations now: it must not be older than the last event.
func (e *expectation) keepsLocked(s *stream, at objectKey, obj metav1.Object) bool {
	if _, isKept := e.kept[keptAt{s, at}]; isKept {
		return true
	}
	if len(s.followers[at]) > 0 || len(e.kept) >= maxKept || len(at.namespace)+len(at.name) > maxTextBytes {
		return false
	}
	if isNeeded := s.key.mode == whole && e.Checker != nil || s.key.mode == metadataOnly && e.Drift; !isNeeded {
		return false
	}
	annotations := obj.GetAnnotations()
	return annotations[inventory.HelmReleaseNamespace] == e.Namespace && annotations[inventory.HelmReleaseName] == e.Name
}

// expectedLocked returns the expectations for objects of the stream, by the releases.
func (s *stream) expectedLocked() map[types.NamespacedName]*expectation {
	return s.link.watcher.expected[s.link.id]
}

// keepLocked keeps the findings about an object for the releases that expect the object.
func (f *feed) keepLocked(at objectKey, obj metav1.Object, checked findings) {
	for _, e := range f.stream.expectedLocked() {
		if found, ok := checked[e.judge(f.stream)]; ok && e.keepsLocked(f.stream, at, obj) {
			e.kept[keptAt{f.stream, at}] = keptFinding{finding: found, list: f.latest}
		}
	}
}

// replayLocked applies the kept finding about an object to a follower. It returns false if there is none.
func (s *stream) replayLocked(at objectKey, t target) bool {
	e := s.expectedLocked()[t.release.key]
	if e == nil {
		return false
	}
	kept, ok := e.kept[keptAt{s, at}]
	if !ok || kept.list != s.list || e.judge(s) != s.judgeLocked(t) {
		return false
	}
	s.link.watcher.applyLocked(t, kept.finding)
	return true
}

// awaitLocked waits for the event of an object that an action has just created. If there is no event, for example
// because the action has not changed the object, the stream restarts after rejoinTime, and not later than for any other
// object.
func (s *stream) awaitLocked(t target) {
	if s.awaited == nil {
		s.awaited = map[target]struct{}{}
		run := s.run
		time.AfterFunc(rejoinTime, func() { s.endWait(run) })
	}
	s.awaited[t] = struct{}{}
}

// isAwaitedLocked reports whether the first event of an object is still awaited.
func (s *stream) isAwaitedLocked(t target) bool {
	_, isAwaited := s.awaited[t]
	return isAwaited && !t.release.objects[t.index].known
}

// endWait restarts the stream if one of the awaited objects is still unknown.
func (s *stream) endWait(run int) {
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	if s.run != run || s.link.ctx.Err() != nil {
		return
	}
	awaited := s.awaited
	s.awaited = nil
	for t := range awaited {
		o := &t.release.objects[t.index]
		if _, isFollowed := s.link.releases[t.release]; isFollowed && o.stream == s && !o.known {
			s.runLocked(0)
			return
		}
	}
}
