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
)

const (
	// absenceInterval is how often a missing object is read, and a kind discovered that has not been served for long.
	absenceInterval = 5 * time.Minute
	// choreTimeout bounds one read.
	choreTimeout = 30 * time.Second
)

// chores are the pending single reads of a link: kinds to discover, and objects that are missing in their stream. One
// goroutine does them while there are any. The Watcher's lock guards them.
type chores struct {
	kinds   map[schema.GroupVersionKind]kindChore
	objects map[target]time.Time
	running bool
	wake    chan struct{}
	// failures is how often in a row an object could not be read.
	failures int
}

func newChores() chores {
	return chores{
		kinds: map[schema.GroupVersionKind]kindChore{}, objects: map[target]time.Time{}, wake: make(chan struct{}, 1),
	}
}

// empty replaces the maps, because Go maps never shrink and most clusters never have pending reads.
func (c *chores) empty() {
	c.kinds, c.objects = map[schema.GroupVersionKind]kindChore{}, map[target]time.Time{}
}

// confirm asks for an object to be read.
func (c *chores) confirm(t target, after time.Duration) {
	c.objects[t] = time.Now().Add(after)
}

// forget drops the pending reads of a release.
func (c *chores) forget(r *release) {
	for t := range c.objects {
		if t.release == r {
			delete(c.objects, t)
		}
	}
}

// pauseAfter returns a pause that grows with the number of failures in a row before.
func pauseAfter(failures int) time.Duration {
	return backoff.Spread(backoff.Exponential(minPause, maxPause, failures))
}

// next returns the read that is due first: an object, or a kind if the release of the target is nil.
func (c *chores) next() (due time.Time, t target, gvk schema.GroupVersionKind, ok bool) {
	for candidate, k := range c.kinds {
		if !ok || k.due.Before(due) {
			due, gvk, ok = k.due, candidate, true
		}
	}
	for candidate, at := range c.objects {
		if !ok || at.Before(due) {
			due, t, ok = at, candidate, true
		}
	}
	return due, t, gvk, ok
}

// workLocked starts the goroutine for the pending reads unless it runs.
func (l *link) workLocked() {
	c := &l.chores
	if c.running {
		select {
		case c.wake <- struct{}{}:
		default:
		}
		return
	}
	if len(c.kinds)+len(c.objects) > 0 {
		c.running = true
		l.watcher.goLocked(l.work)
	}
}

// work does the pending reads of a link until there are none.
func (l *link) work() {
	for l.ctx.Err() == nil {
		l.watcher.mu.Lock()
		due, t, gvk, ok := l.chores.next()
		l.chores.running = ok
		if !ok {
			l.chores.empty()
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
	case <-l.chores.wake:
	}
}

// confirmObject reads an object that is not in its stream.
func (l *link) confirmObject(t target) {
	w := l.watcher
	w.mu.Lock()
	if _, ok := l.chores.objects[t]; !ok || t.release.objects[t.index].stream == nil {
		delete(l.chores.objects, t)
		w.mu.Unlock()
		return
	}
	s := t.release.objects[t.index].stream
	at := l.keyOfLocked(t)
	w.mu.Unlock()

	obj, err := l.read(s.key, at)
	var f finding
	if err == nil {
		f = s.examine(obj, t.release.checker)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := l.chores.objects[t]; !ok || l.ctx.Err() != nil {
		return // the stream, or the release, was faster
	}
	switch {
	case err == nil:
		l.chores.failures = 0
		w.applyLocked(t, f)
		if obj.GetLabels()[managedLabel] != managedValue && s.key.mode != listed {
			l.moveAloneLocked(t, at)
		}
	case isUnserved(err):
		l.chores.failures = 0
		l.goneLocked(s.key.resource, err)
	case apierrors.IsNotFound(err):
		l.chores.failures = 0
		w.applyLocked(t, absent)
		if !commonlyDeleted(t.release.objects[t.index].ref.Value()) {
			l.chores.confirm(t, absenceInterval)
		}
	case apierrors.IsForbidden(err):
		w.applyLocked(t, finding{verdict: health.Unknown, message: "cannot be read: permission denied"})
		l.chores.confirm(t, absenceInterval)
	default:
		l.chores.confirm(t, pauseAfter(l.chores.failures))
		l.chores.failures++
	}
}

// commonlyDeleted reports whether an object is expected to be deleted some time after it has done its work.
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
	ctx, cancel := context.WithTimeout(l.ctx, choreTimeout)
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

// moveAloneLocked moves an object without Helm's label to a stream of its own. If the release has too many of those, it
// is read from time to time.
func (l *link) moveAloneLocked(t target, at objectKey) {
	if t.release.lone >= maxLoneStreams {
		l.chores.confirm(t, absenceInterval)
		return
	}
	t.release.lone++
	from := t.release.objects[t.index].stream
	from.removeLocked(at, from.wanted[at], func(other target) bool { return other == t })
	l.placeAloneLocked(t.release, t.index, from.key, at)
	from.endIfIdleLocked()
}
