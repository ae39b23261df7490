// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
)

const (
	// refusalPause is the pause before another discovery of a kind that the cluster did not serve. It doubles each time.
	// It is longer than the time for which a mapper caches that a kind does not exist.
	refusalPause = 3 * time.Second
	// unservedMemory is how long the number of failures of an unserved resource is kept. It is longer than quietPause.
	unservedMemory = 10 * time.Minute
)

// resource describes how a cluster serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// pendingKind is a kind whose discovery is pending.
type pendingKind struct {
	due time.Time
	// refusals is how many times in a row the cluster reported that it does not serve the kind.
	refusals int
	// outdated means that the mapper's result for the kind was wrong.
	outdated bool
	// failures is how many discoveries of the kind failed in a row.
	failures int
	// failure is the error of discovery, or the error of the resource that served the kind.
	failure failure
}

// unserved is the state of a resource that is not served although discovery named it.
type unserved struct {
	at    time.Time
	count int
	// failure is set when the responses of the cluster contradict each other: discovery names the resource, but it is not
	// served.
	failure failure
}

// resolve schedules the discovery of a kind for a new plan: at once if the kind is new or was not served.
func (c *pendingReads) resolve(gvk schema.GroupVersionKind) {
	if k, ok := c.kinds[gvk]; !ok || k.refusals > 0 {
		k.due, k.refusals = time.Now(), 0
		c.setKind(gvk, k)
	}
}

// resolveKind determines the resource of a kind.
func (l *link) resolveKind(gvk schema.GroupVersionKind) {
	w := l.watcher
	w.mu.Lock()
	outdated := l.pendingReads.kinds[gvk].outdated
	served, isBuiltIn := builtIn[gvk]
	_, wasUnserved := l.unserved[served.GroupVersionResource]
	w.mu.Unlock()
	var err error
	if !isBuiltIn || wasUnserved {
		served, err = l.discover(gvk, outdated)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	// The error continues if discovery only names again a resource that is not served.
	hasEnded := (err == nil || meta.IsNoMatchError(err)) && l.unserved[served.GroupVersionResource].failure.err == nil
	if hasEnded && l.pendingReads.kinds[gvk].failure.isStuck(w.stuckAfter) {
		w.requestLocked(l.withoutStreamLocked(gvk))
	}
	switch {
	case err == nil:
		l.pendingReads.forgetKind(gvk)
		l.resolvedLocked(gvk, served)
	case meta.IsNoMatchError(err):
		l.notServedLocked(gvk)
	default:
		l.unresolvedLocked(gvk, err)
	}
}

// discover returns the resource of a kind in the requested version. If this version is not served, it uses any version.
func (l *link) discover(gvk schema.GroupVersionKind, outdated bool) (resource, error) {
	if outdated {
		meta.MaybeResetRESTMapper(l.conn.Mapper)
	}
	mapping, err := l.conn.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = l.conn.Mapper.RESTMapping(gvk.GroupKind())
	}
	if err != nil {
		return resource{}, err
	}
	return resource{
		GroupVersionResource: mapping.Resource, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}

// notServedLocked handles a kind that the cluster does not serve in any version. Existing objects count as deleted only
// after a second such result. While the cluster changes versions of a kind, it may serve no version for a moment.
func (l *link) notServedLocked(gvk schema.GroupVersionKind) {
	refusals := l.pendingReads.kinds[gvk].refusals
	pause := backoff.Exponential(refusalPause, absenceInterval, refusals)
	l.pendingReads.setKind(gvk, pendingKind{due: time.Now().Add(pause), refusals: refusals + 1})
	followers := false
	l.eachWithoutStreamLocked(gvk, func(r *release, i int) {
		followers = true
		if refusals > 0 || !r.objects[i].exists {
			l.watcher.applyLocked(target{release: r, index: i}, absent)
		}
	})
	if !followers {
		l.pendingReads.forgetKind(gvk)
	}
}

// unresolvedLocked handles a failed discovery of a kind.
func (l *link) unresolvedLocked(gvk schema.GroupVersionKind, err error) {
	w, k := l.watcher, l.pendingReads.kinds[gvk]
	first := k.failure.err == nil
	k.failure.set(fmt.Errorf("discovering %s: %s", gvk.GroupKind(), shorten(err)))
	stuck := k.failure.isStuck(w.stuckAfter)
	k.due, k.failures = time.Now().Add(pauseAfter(k.failures)), k.failures+1
	l.pendingReads.setKind(gvk, k)
	if !first && !stuck {
		return
	}
	concerned := l.withoutStreamLocked(gvk)
	if first {
		w.requestLocked(concerned)
	}
	if stuck {
		w.requestFailureLocked(concerned)
	}
}

// resolvedLocked adds the objects of a discovered kind to streams. The state of existing objects stays valid until the
// stream changes it.
func (l *link) resolvedLocked(gvk schema.GroupVersionKind, served resource) {
	l.kinds[gvk] = served
	l.eachWithoutStreamLocked(gvk, func(r *release, i int) {
		o := &r.objects[i]
		if o.known && !o.exists {
			r.setKnown(i, false)
		}
		l.assignStreamLocked(r, i)
		o.stream.beginLocked()
	})
}

// unservedLocked handles a resource that the cluster does not serve. The kind may be served in another version. So
// discovery of the kind runs again, and the state of its objects stays until then. The pause before the discovery grows
// while discovery still names the resource.
func (l *link) unservedLocked(served schema.GroupVersionResource, err error) {
	now, g := time.Now(), l.unserved[served]
	if now.Sub(g.at) > unservedMemory {
		g = unserved{}
	}
	pause := backoff.Spread(backoff.Exponential(minPause, quietPause, g.count))
	if g.count > 0 {
		g.failure.set(fmt.Errorf("watching %s: %s", served.GroupResource(), shorten(err)))
	}
	g.at, g.count = now, g.count+1
	stuck := g.failure.isStuck(l.watcher.stuckAfter)
	l.unserved[served] = g

	chore := pendingKind{due: now.Add(pause), outdated: true, failure: g.failure}
	concerned := releases{}
	for _, s := range l.streams {
		if s.key.resource == served && s.key.mode != helmRecords {
			l.clearLocked(s, func(t target) {
				concerned[t.release] = struct{}{}
				l.pendingReads.setKind(t.release.objects[t.index].ref.Value().GroupVersionKind(), chore)
			})
		}
	}
	for gvk, known := range l.kinds {
		if known.GroupVersionResource == served {
			delete(l.kinds, gvk)
		}
	}
	if stuck {
		l.watcher.requestFailureLocked(concerned)
	}
	l.workLocked()
}

// clearLocked ends a stream. Its objects wait for the discovery of their kinds.
func (l *link) clearLocked(s *stream, each func(target)) {
	for _, targets := range s.followers {
		for _, t := range targets {
			if s.key.name != "" {
				t.release.ownStreams--
			}
			t.release.objects[t.index].stream = nil
			l.pendingReads.objects.remove(t)
			each(t)
		}
	}
	clear(s.followers)
	s.endIfIdleLocked()
}

// servedLocked handles a resource that is served. It keeps the number of earlier failures; the number is dropped after
// unservedMemory.
func (l *link) servedLocked(served schema.GroupVersionResource) {
	if g, ok := l.unserved[served]; ok {
		g.failure = failure{}
		l.unserved[served] = g
	}
}

// withoutStreamLocked returns the releases with objects of a kind that have no stream.
func (l *link) withoutStreamLocked(gvk schema.GroupVersionKind) releases {
	found := releases{}
	l.eachWithoutStreamLocked(gvk, func(r *release, _ int) { found[r] = struct{}{} })
	return found
}

func (l *link) eachWithoutStreamLocked(gvk schema.GroupVersionKind, do func(*release, int)) {
	for r := range l.releases {
		for i := range r.objects {
			if r.objects[i].stream == nil && r.objects[i].ref.Value().GroupVersionKind() == gvk {
				do(r, i)
			}
		}
	}
}
