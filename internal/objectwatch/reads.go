// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/notserved"
)

const (
	// absenceInterval is the interval between reads of a missing object, and the longest pause before another discovery of
	// a kind that is not served.
	absenceInterval = 5 * time.Minute
	// readTimeout bounds one read.
	readTimeout = 30 * time.Second
	// turnTime is the time between two reads of objects that may not be listed. It bounds these reads in a cluster,
	// because a release may have thousands of objects.
	turnTime = 250 * time.Millisecond
)

// pendingReads are the pending single reads of a link: kinds to discover, and objects that are missing in their stream.
// One goroutine carries out the reads while there are any. The Watcher's lock guards the fields.
type pendingReads struct {
	kinds map[schema.GroupVersionKind]pendingKind
	// kindsDue has the due times of all kinds.
	kindsDue schedule[schema.GroupVersionKind]
	objects  schedule[target]
	running  bool
	wake     chan struct{}
	// failures is the number of failed reads of objects in a row.
	failures int
	// lastTurn is when the last of the objects that may not be listed is read.
	lastTurn time.Time
}

func newPendingReads() pendingReads {
	return pendingReads{kinds: map[schema.GroupVersionKind]pendingKind{}, wake: make(chan struct{}, 1)}
}

// empty removes all reads. It replaces the maps, because Go maps never shrink and most clusters have no pending reads.
func (c *pendingReads) empty() {
	c.kinds, c.kindsDue = map[schema.GroupVersionKind]pendingKind{}, schedule[schema.GroupVersionKind]{}
	c.objects, c.lastTurn = schedule[target]{}, time.Time{}
}

// setKind adds or replaces the pending discovery of a kind.
func (c *pendingReads) setKind(gvk schema.GroupVersionKind, k pendingKind) {
	c.kinds[gvk] = k
	c.kindsDue.set(gvk, k.due)
}

// forgetKind drops the pending discovery of a kind.
func (c *pendingReads) forgetKind(gvk schema.GroupVersionKind) {
	delete(c.kinds, gvk)
	c.kindsDue.remove(gvk)
}

// confirm schedules the read of an object.
func (c *pendingReads) confirm(t target, after time.Duration) {
	c.objects.set(t, time.Now().Add(after))
}

// readInTurn schedules the read of an object that may not be listed. If a read of the object is due sooner, it stays.
func (c *pendingReads) readInTurn(t target) {
	due := time.Now()
	// Reads that were dropped take no time.
	if last := due.Add(time.Duration(c.objects.len()) * turnTime); c.lastTurn.After(last) {
		c.lastTurn = last
	}
	if next := c.lastTurn.Add(turnTime); next.After(due) {
		due = next
	}
	if at, ok := c.objects.due(t); !ok || due.Before(at) {
		c.objects.set(t, due)
		c.lastTurn = due
	}
}

// inherit schedules the read of an object for when the read of another target is due, if it is pending.
func (c *pendingReads) inherit(t, from target) {
	if due, ok := c.objects.due(from); ok {
		c.objects.set(t, due)
	}
}

// forget drops the pending reads of a release.
func (c *pendingReads) forget(r *release) {
	for i := range r.objects {
		c.objects.remove(target{release: r, index: i})
	}
}

// pauseAfter returns a pause that grows with the number of earlier failures in a row.
func pauseAfter(failures int) time.Duration {
	return backoff.Spread(backoff.Exponential(minPause, maxPause, failures))
}

// next returns the read that is due first. If the release of the target is nil, the read is the discovery of a kind.
// Otherwise it is the read of an object.
func (c *pendingReads) next() (due time.Time, t target, gvk schema.GroupVersionKind, ok bool) {
	gvk, due, ok = c.kindsDue.first()
	if candidate, at, isPending := c.objects.first(); isPending && (!ok || at.Before(due)) {
		due, t, ok = at, candidate, true
	}
	return due, t, gvk, ok
}

// workLocked starts the goroutine for the pending reads. If it runs already, workLocked wakes it.
func (l *link) workLocked() {
	c := &l.pendingReads
	if c.running {
		select {
		case c.wake <- struct{}{}:
		default:
		}
		return
	}
	if len(c.kinds)+c.objects.len() > 0 {
		c.running = true
		l.watcher.goLocked(l.work)
	}
}

// work carries out the pending reads of a link until there are none.
func (l *link) work() {
	for l.ctx.Err() == nil {
		l.watcher.mu.Lock()
		due, t, gvk, ok := l.pendingReads.next()
		l.pendingReads.running = ok
		if !ok {
			l.pendingReads.empty()
		}
		l.watcher.mu.Unlock()
		if !ok {
			return
		}
		if wait := time.Until(due); wait > 0 {
			l.rest(wait)
			continue
		}
		if t.release == nil {
			l.resolveKind(gvk)
		} else {
			l.confirmObject(t)
		}
	}
}

// rest waits until a read is due or a new one is added.
func (l *link) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
	case <-timer.C:
	case <-l.pendingReads.wake:
	}
}

// confirmObject reads an object that is not in its stream.
func (l *link) confirmObject(t target) {
	w := l.watcher
	w.mu.Lock()
	due, ok := l.pendingReads.objects.due(t)
	if !ok || t.release.objects[t.index].stream == nil {
		l.pendingReads.objects.remove(t)
		w.mu.Unlock()
		return
	}
	s := t.release.objects[t.index].stream
	at, j, checker := l.keyOfLocked(t), s.judgeLocked(t), t.release.checker
	w.mu.Unlock()

	obj, err := l.read(s.key, at)
	var f finding
	if err == nil {
		f = s.examine(obj, j, checker)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if now, ok := l.pendingReads.objects.due(t); !ok || !now.Equal(due) || l.ctx.Err() != nil {
		return // The stream or the release has changed in the meantime, or the object has vanished again.
	}
	switch {
	case err == nil:
		l.pendingReads.failures = 0
		w.applyLocked(t, f)
		if obj.GetLabels()[inventory.ManagedByLabel] != inventory.ManagedByHelm && s.key.mode != listed {
			l.moveToOwnStreamLocked(t, at)
		}
	case notserved.Is(err):
		l.pendingReads.failures = 0
		l.unservedLocked(s.key.resource, err)
	case apierrors.IsNotFound(err):
		l.pendingReads.failures = 0
		w.applyLocked(t, absent)
		if !commonlyDeleted(t.release.objects[t.index].ref.Value()) {
			l.pendingReads.confirm(t, absenceInterval)
		}
	case apierrors.IsForbidden(err):
		w.applyLocked(t, finding{denied: true, status: health.Unknown,
			message: "cannot be read: permission denied"})
		if s.key.mode != listed {
			l.pendingReads.confirm(t, absenceInterval)
		}
	default:
		l.pendingReads.confirm(t, pauseAfter(l.pendingReads.failures))
		l.pendingReads.failures++
	}
}

// commonlyDeleted reports whether an object is commonly deleted some time after it has completed.
func commonlyDeleted(ref inventory.Ref) bool { return ref.Group == "batch" && ref.Kind == "Job" }

// keyOfLocked returns the name of an object in its stream.
func (l *link) keyOfLocked(t target) objectKey {
	ref := t.release.objects[t.index].ref.Value()
	if l.kinds[ref.GroupVersionKind()].namespaced {
		return objectKey{namespace: ref.Namespace, name: ref.Name}
	}
	return objectKey{name: ref.Name}
}

func (l *link) read(key streamKey, at objectKey) (metav1.Object, error) {
	ctx, cancel := context.WithTimeout(l.ctx, readTimeout)
	defer cancel()
	if key.mode == whole {
		all, err := l.objects()
		if err != nil {
			return nil, err
		}
		return all.Resource(key.resource).Namespace(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	}
	all, err := l.metadata()
	if err != nil {
		return nil, err
	}
	return all.Resource(key.resource).Namespace(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
}

// moveToOwnStreamLocked moves an object without Helm's label to its own stream. If too many objects of the release have
// their own stream, the object is read periodically.
func (l *link) moveToOwnStreamLocked(t target, at objectKey) {
	if t.release.ownStreams >= maxOwnStreams {
		l.pendingReads.confirm(t, absenceInterval)
		return
	}
	t.release.ownStreams++
	from := t.release.objects[t.index].stream
	from.removeLocked(at, from.followers[at], func(other target) bool { return other == t })
	l.assignOwnStreamLocked(t.release, t.index, from.key, at)
	from.endIfIdleLocked()
}
