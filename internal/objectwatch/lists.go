// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"fmt"
	"time"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
)

// listAgain is the pause before a failed list is repeated.
const listAgain = time.Minute

// lists schedules the due lists of a link. There is no goroutine while no list is due. The Watcher's lock guards the
// fields.
type lists struct {
	timer *time.Timer
	due   time.Time
	// running is true while a goroutine lists. again is the time after which further lists are due; 0 if there are none.
	running bool
	again   time.Duration
}

// stop cancels the timer for the next lists.
func (l *lists) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// List reads all listed objects of a release within seconds. Objects that the identity may not list are read one by
// one, which may take longer. A list that has just failed is repeated only after a minute. Until then their state is
// unknown. When all are known, the release is reconciled, see Source. List does nothing for a release that is not
// followed.
func (w *Watcher) List(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.releases[key]; r != nil && r.link != nil {
		r.listRequested = true
		r.link.listLocked(r)
	}
}

// Installed marks all listed objects of a release as existing: an action has just created the missing ones.
func (w *Watcher) Installed(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.releases[key]
	if r == nil {
		return
	}
	for i := range r.objects {
		if o := &r.objects[i]; o.listed {
			o.exists, o.known, o.status, o.message = true, false, unique.Make(health.Unknown), unique.Make("")
			if r.link != nil {
				r.link.pendingReads.objects.remove(target{release: r, index: i})
			}
		}
	}
}

// applyListed does the same as apply for an object whose health is not followed. That the object exists is a change
// only if it did not exist, or was not permitted to be read, before.
func (r *release) applyListed(i int, f finding) bool {
	o := &r.objects[i]
	changed := o.denied != f.denied
	o.known, o.denied = true, f.denied
	if f.denied {
		// The last known state still counts.
		return r.listCompleted() || changed
	}
	changed = changed || o.exists != f.exists
	o.exists, o.moveMark = f.exists, o.markAfter(f)
	o.status, o.message = unique.Make(f.status), unique.Make(f.message)
	return r.listCompleted() || changed
}

// listCompleted returns true once: when all listed objects are known after a call of List.
func (r *release) listCompleted() bool {
	if !r.listRequested {
		return false
	}
	for i := range r.objects {
		if r.objects[i].listed && !r.objects[i].known {
			return false
		}
	}
	r.listRequested = false
	return true
}

// listLocked schedules lists of the kinds whose objects a release must know. The results of running lists no longer
// count: they may be older than the request.
func (l *link) listLocked(r *release) {
	for i := range r.objects {
		o := &r.objects[i]
		if !o.listed {
			continue
		}
		o.known = false
		if o.stream != nil {
			o.stream.run++
			o.stream.listedAt = time.Time{}
		}
	}
	if r.listCompleted() {
		l.watcher.notifier.changed(r.key)
		return
	}
	// Lists that are requested at about the same time run together.
	l.scheduleListsLocked(rejoinTime)
}

// scheduleListsLocked schedules lists within a time.
func (l *link) scheduleListsLocked(after time.Duration) {
	if l.lists.running {
		if l.lists.again == 0 || after < l.lists.again {
			l.lists.again = after
		}
		return
	}
	due := time.Now().Add(after)
	if l.lists.timer != nil && !due.Before(l.lists.due) {
		return
	}
	l.lists.stop()
	l.lists.due = due
	l.lists.timer = time.AfterFunc(after, l.beginLists)
}

// beginLists starts a goroutine that runs the due lists. The goroutine ends with the Watcher.
func (l *link) beginLists() {
	w := l.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.ctx.Err() != nil || l.lists.running || l.lists.timer == nil {
		return
	}
	l.lists.timer, l.lists.running, l.lists.again = nil, true, 0
	w.goLocked(l.list)
}

// list runs the due lists of kinds, one after the other, and schedules the next lists.
func (l *link) list() {
	next := time.Duration(0)
	for l.ctx.Err() == nil {
		var due []*feed
		if due, next = l.dueLists(); len(due) == 0 {
			break
		}
		for _, f := range due {
			l.listOne(f)
		}
	}
	l.endLists(next)
}

// endLists records that no list runs any more, and schedules the next lists. next is the time until the lists that were
// known when none was due; 0 if there were none. A release may have joined since then.
func (l *link) endLists(next time.Duration) {
	w := l.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if again := l.lists.again; next == 0 || again > 0 && again < next {
		next = again
	}
	if l.lists.running = false; l.ctx.Err() == nil && next > 0 {
		l.scheduleListsLocked(next)
	}
}

// listOne runs one list, unless its stream has ended.
func (l *link) listOne(f *feed) {
	if !f.stream.isCurrent(f.run) {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, readTimeout)
	defer cancel()
	if f.widen(ctx) {
		return
	}
	l.wasListed(f, f.list(ctx))
}

// isCurrent reports whether a run of the stream has not ended.
func (s *stream) isCurrent(run int) bool {
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	return s.run == run
}

// dueLists returns the feeds for all due lists. If none is due, it returns the time until the next list; 0 if there is
// none.
func (l *link) dueLists() (due []*feed, next time.Duration) {
	w := l.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, candidate := range l.streams {
		every := candidate.listEvery()
		if every == 0 {
			continue
		}
		wait := candidate.listedAt.Add(every).Sub(now)
		if wait <= every/4 {
			// Lists that are due soon run together with the due lists. A failed list waits for its pause.
			wait = candidate.retryAt.Sub(now)
		}
		switch {
		case wait <= 0:
			due = append(due, &feed{stream: candidate, run: candidate.run, scope: candidate.limitLocked(), relist: true})
		case next == 0 || wait < next:
			next = wait
		}
	}
	return due, next
}

// listEvery returns how often a stream is listed: the shortest interval among its releases. It returns 0 for a stream
// that is watched.
func (s *stream) listEvery() (every time.Duration) {
	if s.key.mode != listed {
		return 0
	}
	for _, targets := range s.followers {
		for _, t := range targets {
			if every == 0 || t.release.listEvery < every {
				every = t.release.listEvery
			}
		}
	}
	return every
}

// wasListed records the end of a list. If the list is not permitted, its objects are read one by one. If another list
// was requested meanwhile, it stays due.
func (l *link) wasListed(f *feed, err error) {
	w, s := l.watcher, f.stream
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && s.run != f.run {
		return
	}
	now, every := time.Now(), s.listEvery()
	s.listedAt = now
	switch {
	case err == nil || l.streams[s.key] != s:
	case apierrors.IsNotFound(err):
		l.unservedLocked(s.key.resource, err)
	case apierrors.IsForbidden(err):
		if s.isWide() && l.narrowLocked(s) {
			return
		}
		s.failure = failure{}
		w.options.Log.V(1).Info("Not permitted to list objects of releases: reading each object",
			"cluster", l.id.cluster, "kind", s.describe())
		for _, targets := range s.followers {
			for _, t := range targets {
				l.pendingReads.readInTurn(t)
			}
		}
		l.workLocked()
	default:
		s.listedAt, s.retryAt = time.Time{}, now.Add(min(listAgain, every))
		s.failLocked(fmt.Errorf("listing %s: %s", s.describe(), shorten(err)))
		w.options.Log.V(1).Info("Cannot list objects of releases; retrying", "cluster", l.id.cluster, "kind", s.describe(),
			"reason", shorten(err))
	}
}
