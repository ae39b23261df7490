// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// linkID identifies a link.
type linkID struct{ cluster, identity string }

// link holds everything that is followed in one cluster under one identity. The Watcher's lock guards its fields.
type link struct {
	watcher *Watcher
	id      linkID
	conn    Connection
	ctx     context.Context
	cancel  context.CancelFunc
	// host is the HTTP client of all requests, and client sends the watches.
	host   *http.Client
	client *rest.RESTClient
	// plain is true if the cluster does not stream lists: API servers before Kubernetes 1.32 do not.
	plain bool

	releases releases
	streams  map[streamKey]*stream
	// begun is the number of streams that have begun. waiting are the streams that wait because of the limit on this
	// number, with the times since when they wait.
	begun   int
	waiting schedule[*stream]
	// kinds are the discovered kinds.
	kinds map[schema.GroupVersionKind]resource
	// unserved are the resources that are not served although discovery named them.
	unserved map[schema.GroupVersionResource]unserved
	// narrow are the resources that the identity may not watch in all namespaces at once, with the time of the last check.
	narrow map[narrowKey]time.Time

	// largeEvents has a slot for each large event of the cluster. All links of the cluster share it.
	largeEvents chan struct{}

	pendingReads pendingReads
	lists        lists
}

type narrowKey struct {
	resource schema.GroupVersionResource
	mode     mode
}

func (k streamKey) narrowed() narrowKey { return narrowKey{k.resource, k.mode} }

// secrets is the resource in which Helm stores its records.
var secrets = resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
	namespaced: true}

// newLink returns a link. It sends no request.
func newLink(w *Watcher, id linkID, conn Connection) (*link, error) {
	l := &link{
		watcher: w, id: id, conn: conn,
		releases: releases{}, streams: map[streamKey]*stream{},
		kinds: map[schema.GroupVersionKind]resource{}, unserved: map[schema.GroupVersionResource]unserved{},
		narrow: map[narrowKey]time.Time{},
	}
	config := metadata.ConfigFor(conn.Config)
	config.GroupVersion = &schema.GroupVersion{}
	var err error
	if l.host, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if l.client, err = rest.RESTClientForConfigAndClient(config, l.host); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	l.ctx, l.cancel = context.WithCancel(w.ctx)
	l.pendingReads = newPendingReads()
	return l, nil
}

// objects returns a client for objects in full. It is used for single reads only, so it is not kept.
func (l *link) objects() (dynamic.Interface, error) {
	return dynamic.NewForConfigAndClient(l.conn.Config, l.host)
}

// metadata returns a client for the metadata of objects.
func (l *link) metadata() (metadata.Interface, error) {
	return metadata.NewForConfigAndClient(l.conn.Config, l.host)
}

// memory returns the memory budget for large events.
func (l *link) memory(ctx context.Context, abandon func()) eventMemory {
	return eventMemory{ctx: ctx, budget: l.watcher.options.Bytes, owner: l.conn.Owner, large: l.largeEvents,
		maxWait: memoryWait, abandon: abandon}
}

// setPlain records that the cluster does not stream lists.
func (l *link) setPlain() {
	l.watcher.mu.Lock()
	defer l.watcher.mu.Unlock()
	l.plain = true
}

// attachLocked starts to follow the objects of a release.
func (l *link) attachLocked(r *release) {
	l.releases[r] = struct{}{}
	r.link = l
	for i := range r.objects {
		l.assignStreamLocked(r, i)
	}
	if r.recordsRef != nil {
		at := objectKey{namespace: r.recordsRef.Namespace, name: r.recordsRef.Name}
		s := l.streamLocked(streamKey{resource: secrets.GroupVersionResource, kind: schema.GroupKind{Kind: "Secret"},
			mode: helmRecords}, at.namespace)
		r.recordsStream = s
		s.joinLocked(at, target{release: r}, r.recordsKnown)
	}
	if r.needsList() {
		l.listLocked(r)
	}
	l.workLocked()
}

// assignStreamLocked adds an object to its stream, or starts the discovery of its kind.
func (l *link) assignStreamLocked(r *release, i int) {
	o := &r.objects[i]
	ref := o.ref.Value()
	served, ok := l.kinds[ref.GroupVersionKind()]
	if !ok {
		o.stream = nil
		l.pendingReads.resolve(ref.GroupVersionKind())
		return
	}
	key := streamKey{resource: served.GroupVersionResource, kind: ref.GroupVersionKind().GroupKind(), mode: metadataOnly}
	switch {
	case o.healthChecked:
		key.mode = whole
	case o.listed:
		key.mode = listed
	}
	at := objectKey{name: ref.Name}
	if served.namespaced {
		at.namespace = ref.Namespace
	}
	if o.stream != nil && o.stream.key.name != "" && o.stream.link == l {
		r.ownStreams++
		l.assignOwnStreamLocked(r, i, key, at)
		return
	}
	s := l.streamLocked(key, at.namespace)
	o.stream = s
	s.joinLocked(at, target{release: r, index: i}, o.known)
	if o.known && !o.exists {
		l.pendingReads.confirm(target{release: r, index: i}, absenceInterval)
	}
}

// assignOwnStreamLocked adds an object to a stream for this object only.
func (l *link) assignOwnStreamLocked(r *release, i int, key streamKey, at objectKey) {
	key.namespace, key.name = at.namespace, at.name
	s := l.exactLocked(key)
	r.objects[i].stream = s
	s.joinLocked(at, target{release: r, index: i}, r.objects[i].known)
}

// streamLocked returns the stream for a key. If only single namespaces are permitted, it is the stream of the
// namespace.
func (l *link) streamLocked(key streamKey, namespace string) *stream {
	if _, ok := l.narrow[key.narrowed()]; ok {
		key.namespace = namespace
	}
	return l.exactLocked(key)
}

func (l *link) exactLocked(key streamKey) *stream {
	s := l.streams[key]
	if s == nil {
		s = &stream{link: l, key: key, followers: map[objectKey][]target{}, failure: l.unserved[key.resource].failure}
		l.streams[key] = s
	}
	return s
}

// joinLocked adds a follower of an object. The stream restarts unless it includes the object, and the object is known
// already, or its event was kept or is about to arrive.
func (s *stream) joinLocked(at objectKey, t target, known bool) {
	s.followers[at] = append(s.followers[at], t)
	if s.key.mode == listed {
		after := t.release.listEvery/2 + rand.N(t.release.listEvery/2+1)
		if t.release.needsList() {
			after = rejoinTime
		}
		s.link.scheduleListsLocked(after)
		return
	}
	switch {
	case s.cancel == nil || s.scope != "" && at.namespace != s.scope:
		s.beginLocked()
	case known || s.replayLocked(at, t):
	case s.settling || s.key.mode == helmRecords || s.expectedLocked()[t.release.key] == nil:
		s.beginLocked()
	default:
		s.awaitLocked(t)
	}
}

// leaveLocked removes all objects of a release from a stream. A stream without followers ends.
func (s *stream) leaveLocked(r *release) {
	for at, targets := range s.followers {
		s.removeLocked(at, targets, func(t target) bool { return t.release == r })
	}
	s.endIfIdleLocked()
}

func (s *stream) removeLocked(at objectKey, targets []target, leaves func(target) bool) {
	var kept []target
	for _, t := range targets {
		if !leaves(t) {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 {
		delete(s.followers, at)
		return
	}
	s.followers[at] = kept
}

func (s *stream) endIfIdleLocked() {
	if len(s.followers) > 0 || s.link.streams[s.key] != s {
		return
	}
	delete(s.link.streams, s.key)
	s.link.waiting.remove(s)
	s.run++
	if s.cancel != nil {
		s.cancel()
		s.link.begun--
		s.link.admitLocked()
	}
}

// admitLocked starts the stream that has waited longest because of the limit on the number of streams.
func (l *link) admitLocked() {
	if s, _, ok := l.waiting.first(); ok {
		s.beginLocked()
	}
}

// detachLocked stops following the objects of a release. The link ends with its last release.
func (l *link) detachLocked(r *release) {
	delete(l.releases, r)
	left := map[*stream]struct{}{}
	for i := range r.objects {
		if s := r.objects[i].stream; s != nil {
			left[s] = struct{}{}
		}
	}
	if r.recordsStream != nil {
		left[r.recordsStream] = struct{}{}
	}
	for s := range left {
		s.leaveLocked(r)
	}
	l.pendingReads.forget(r)
	if len(l.releases) == 0 {
		l.closeLocked()
	}
}

func (l *link) closeLocked() {
	l.cancel()
	l.lists.stop()
	l.begun = 0
	for _, s := range l.streams {
		s.run++
	}
	clear(l.streams)
	l.waiting = schedule[*stream]{}
	l.watcher.removeLinkLocked(l)
}

// narrowLocked replaces a stream of all namespaces by one stream for each followed namespace. It returns false if there
// is no such namespace.
func (l *link) narrowLocked(s *stream) bool {
	for at := range s.followers {
		if at.namespace == "" {
			return false
		}
	}
	l.narrow[s.key.narrowed()] = time.Now()
	s.moveLocked()
	return true
}

// widenLocked replaces the streams of single namespaces by one stream of all namespaces. s is one of them. If not all
// namespaces are permitted, the new stream is narrowed again.
func (l *link) widenLocked(s *stream) {
	delete(l.narrow, s.key.narrowed())
	if s.cancel != nil {
		// Many streams may wait because of the limit. The new stream does not wait behind them.
		s.cancel()
		s.cancel = nil
		l.begun--
	}
	s.moveLocked()
	for _, other := range maps.Clone(l.streams) {
		if other.isNarrow() && other.key.narrowed() == s.key.narrowed() {
			other.moveLocked()
		}
	}
}

// isNarrow reports whether the stream is for one namespace because the identity may not watch all namespaces.
func (s *stream) isNarrow() bool { return s.key.namespace != "" && s.key.name == "" }

// moveLocked ends the stream, and moves its followers to the streams that are now for them.
func (s *stream) moveLocked() {
	s.clearFailureLocked()
	for at, targets := range s.followers {
		key := s.key
		key.namespace = ""
		to := s.link.streamLocked(key, at.namespace)
		for _, t := range targets {
			if s.key.mode == helmRecords {
				t.release.recordsStream = to
			} else {
				t.release.objects[t.index].stream = to
			}
			to.joinLocked(at, t, false)
		}
	}
	clear(s.followers)
	s.endIfIdleLocked()
}

// vanishedLocked handles an object that is not in its stream.
func (s *stream) vanishedLocked(t target) {
	switch o := &t.release.objects[t.index]; {
	case s.key.name != "":
		s.link.watcher.applyLocked(t, absent)
	case o.known && !o.exists:
	default:
		s.link.pendingReads.confirm(t, 0)
		s.link.workLocked()
	}
}
