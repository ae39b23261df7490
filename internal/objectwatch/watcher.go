// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// defaultDebounce is how long changes of a release are collected.
const defaultDebounce = 250 * time.Millisecond

// stopTimeout bounds how long Start waits for its goroutines. A goroutine may be in a request that does not end with
// its context.
const stopTimeout = 10 * time.Second

// ErrDisconnected is Snapshot.Err after Disconnect has ended the streams of a cluster.
var ErrDisconnected = errors.New("the cluster is disconnected")

// Watcher follows the objects of releases. It is safe for concurrent use.
type Watcher struct {
	options  Options
	notifier notifier
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	// stuckAfter is StuckAfter, except in tests.
	stuckAfter time.Duration
	// maxStreams is the constant of this name, except in tests.
	maxStreams int

	// decoding limits the number of events that are decoded at the same time. At the start, the events of a whole fleet
	// arrive at the same time.
	decoding chan struct{}

	// mu is held for memory accesses only, never during health checks or requests to a cluster.
	mu       sync.Mutex
	closed   bool
	releases map[types.NamespacedName]*release
	// links has the links by cluster and identity.
	links map[string]map[string]*link
	// expected has the releases with a running action.
	expected map[linkID]map[types.NamespacedName]*expectation
}

// New returns a Watcher. Streams begin with Follow and end with the context of Start.
func New(options Options) *Watcher {
	if options.Debounce <= 0 {
		options.Debounce = defaultDebounce
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Watcher{
		options: options, notifier: notifier{debounce: options.Debounce}, ctx: ctx, cancel: cancel,
		stuckAfter: StuckAfter, maxStreams: maxStreams, decoding: make(chan struct{}, runtime.GOMAXPROCS(0)),
		releases: map[types.NamespacedName]*release{}, links: map[string]map[string]*link{},
		expected: map[linkID]map[types.NamespacedName]*expectation{},
	}
}

// Start waits for the end of the context, then ends all streams and waits for them. It implements manager.Runnable.
func (w *Watcher) Start(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.closed = true
	w.cancel()
	w.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		w.options.Log.Info("Watches of workload clusters did not end in time")
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Source returns a source of requests: one request for each release whose objects changed or became known. It is for
// one controller. Changes are collected for Options.Debounce. A release that changes very often is requested only every
// ten seconds.
func (w *Watcher) Source() source.Source { return source.Func(w.notifier.start) }

// Follow sets the plan of a release. It returns at once. It does nothing if the plan did not change. It keeps the known
// state of objects that were followed already.
func (w *Watcher) Follow(key types.NamespacedName, conn Connection, plan Plan) {
	digest, id := planDigest(plan), linkID{cluster: conn.Cluster, identity: conn.Identity}
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.releases[key]
	if w.closed || old != nil && old.digest == digest && old.link != nil && old.link.id == id {
		return
	}
	r := newRelease(key, digest, plan)
	l := w.links[id.cluster][id.identity]
	if l == nil {
		var err error
		if l, err = newLink(w, id, conn); err != nil {
			if old != nil && old.link == nil {
				r.unlinked = old.unlinked
			}
			w.forgetLocked(key)
			r.unlinked.set(err)
			w.releases[key] = r
			return
		}
		w.addLinkLocked(l)
	}
	r.link = l
	if old != nil {
		r.inherit(old)
	}
	if e := w.expected[id][key]; e != nil {
		r.otherNamespaces = e.OtherNamespaces
	}
	w.releases[key] = r
	l.attachLocked(r)
	if old != nil && old.link != nil {
		old.link.detachLocked(old)
	}
}

func (w *Watcher) addLinkLocked(l *link) {
	ofCluster := w.links[l.id.cluster]
	if ofCluster == nil {
		ofCluster = map[string]*link{}
		w.links[l.id.cluster] = ofCluster
	}
	for _, other := range ofCluster {
		l.largeEvents = other.largeEvents
		break
	}
	if l.largeEvents == nil {
		l.largeEvents = make(chan struct{}, maxLarge)
	}
	ofCluster[l.id.identity] = l
}

func (w *Watcher) removeLinkLocked(l *link) {
	ofCluster := w.links[l.id.cluster]
	if ofCluster[l.id.identity] != l {
		return
	}
	if delete(ofCluster, l.id.identity); len(ofCluster) == 0 {
		delete(w.links, l.id.cluster)
	}
}

// Forget stops following a release.
func (w *Watcher) Forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetLocked(key)
	w.notifier.forget(key)
}

func (w *Watcher) forgetLocked(key types.NamespacedName) {
	r := w.releases[key]
	if r == nil {
		return
	}
	delete(w.releases, key)
	if r.link != nil {
		r.link.detachLocked(r)
	}
}

// Disconnect ends all streams of a cluster, for example because it is unreachable or deleted. The known state stays.
// The next Follow for one of its releases connects again.
func (w *Watcher) Disconnect(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disconnectLocked(cluster)
}

// Reconnect does the same as Disconnect, and requests the releases of the cluster, see Source. It is for a cluster that
// was restored from a backup. Streams would continue from a resource version that the cluster has not reached again.
// The cluster accepts this, and sends no events until then.
func (w *Watcher) Reconnect(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.links[cluster] {
		for r := range l.releases {
			w.notifier.changed(r.key)
		}
	}
	w.disconnectLocked(cluster)
}

func (w *Watcher) disconnectLocked(cluster string) {
	for _, l := range w.links[cluster] {
		for r := range l.releases {
			r.link = nil
			r.unlinked.set(ErrDisconnected)
			r.markUnknown()
		}
		l.closeLocked()
	}
}

// Look returns the state of the objects of a release. ok is false if the release is not followed.
func (w *Watcher) Look(key types.NamespacedName) (Snapshot, bool) {
	w.mu.Lock()
	r := w.releases[key]
	if r == nil {
		w.mu.Unlock()
		return Snapshot{}, false
	}
	failure, _ := r.failure()
	snapshot := Snapshot{Synced: r.unknown == 0 && r.link != nil, Err: failure.err, ErrSince: failure.since}
	objects, watchErrors := slices.Clone(r.objects), r.watchErrors()
	if r.recordsRef != nil {
		snapshot.Records = recordsDigest(r.records)
	}
	w.mu.Unlock()

	snapshot.Fingerprint = digest(objects)
	snapshot.Objects = make(map[inventory.Ref]State, len(objects))
	for i := range objects {
		o := &objects[i]
		snapshot.Objects[o.ref.Value()] = State{
			Known: o.known, Denied: o.denied, WatchError: watchErrors[i], MoveMark: o.moveMark,
			Exists: o.exists, UID: o.uid, Generation: o.generation, Fingerprint: o.fingerprint, OptOut: o.optOut,
			ResourceVersion: o.version, DeletedWith: o.deletedWith.Value(),
			Health: o.status.Value(), Message: o.message.Value(), Manager: o.manager.Value(),
		}
	}
	return snapshot, true
}

// decode waits until an event may be decoded. The caller must call done afterwards. The wait ends with ctx.
func (w *Watcher) decode(ctx context.Context) (done func(), err error) {
	select {
	case w.decoding <- struct{}{}:
		return func() { <-w.decoding }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// goLocked starts a goroutine that ends with the Watcher.
func (w *Watcher) goLocked(f func()) {
	if !w.closed {
		w.running.Go(f)
	}
}

// applyLocked applies a finding about an object.
func (w *Watcher) applyLocked(t target, f finding) {
	if t.release.link != nil {
		t.release.link.pendingReads.objects.remove(t)
	}
	if t.release.apply(t.index, f) {
		w.notifier.changed(t.release.key)
	}
}

// recordLocked applies one record of a release. A record without a fingerprint was deleted.
func (w *Watcher) recordLocked(r *release, name string, fingerprint uint64) {
	before, existed := r.records[name]
	if fingerprint == 0 {
		delete(r.records, name)
	} else {
		if r.records == nil {
			r.records = records{}
		}
		r.records.put(name, fingerprint)
	}
	after, exists := r.records[name]
	if r.recordsKnown && (existed != exists || before != after) && r.unknown == 0 {
		w.notifier.changed(r.key)
	}
}

// recordsLocked applies all records of a release.
func (w *Watcher) recordsLocked(r *release, all records) {
	before := recordsDigest(r.records)
	// Other releases may follow the same records.
	r.records = maps.Clone(all)
	if r.applyRecords(before != recordsDigest(r.records)) {
		w.notifier.changed(r.key)
	}
}
