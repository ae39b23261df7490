// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
)

const (
	// refusalPause is when a kind is asked for again that the cluster did not serve; each pause is twice the one before.
	// It is longer than a mapper may hold on to an answer that does not have the kind.
	refusalPause = 3 * time.Second
	// goneMemory is how long it counts that a resource turned out not to be served. It is longer than quietPause.
	goneMemory = 10 * time.Minute
)

// resource is how a cluster serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// kindChore is a kind to be resolved.
type kindChore struct {
	due time.Time
	// refusals is how many times in a row the cluster reported that it does not serve the kind.
	refusals int
	// outdated means that the mapper's result for the kind was wrong.
	outdated bool
	// failures is how often in a row the kind could not be asked for.
	failures int
	// trouble is why discovery failed, or the error of the resource that served the kind.
	trouble trouble
}

// gone is the state of a resource that is not served, although discovery named it.
type gone struct {
	at    time.Time
	count int
	// trouble is set when the cluster contradicts itself: discovery names the resource, but it is not served.
	trouble trouble
}

// resolve schedules the discovery of a kind: at once if it is new or was not served, because a new plan asks for it.
func (c *chores) resolve(gvk schema.GroupVersionKind) {
	if k, ok := c.kinds[gvk]; !ok || k.refusals > 0 {
		k.due, k.refusals = time.Now(), 0
		c.kinds[gvk] = k
	}
}

// resolveKind discovers the resource of a kind: in the requested version or, if that is not served, in any.
func (l *link) resolveKind(gvk schema.GroupVersionKind) {
	w := l.watcher
	w.mu.Lock()
	outdated := l.chores.kinds[gvk].outdated
	w.mu.Unlock()
	if outdated {
		meta.MaybeResetRESTMapper(l.conn.Mapper)
	}
	mapping, err := l.conn.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = l.conn.Mapper.RESTMapping(gvk.GroupKind())
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	if l.chores.kinds[gvk].trouble.lasts && (err == nil || meta.IsNoMatchError(err)) {
		l.eachUnplacedLocked(gvk, func(r *release, _ int) { w.notifier.changed(r.key) })
	}
	switch {
	case err == nil:
		delete(l.chores.kinds, gvk)
		l.resolvedLocked(gvk, resource{
			GroupVersionResource: mapping.Resource, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		})
	case meta.IsNoMatchError(err):
		l.refusedLocked(gvk)
	default:
		l.unresolvedLocked(gvk, err)
	}
}

// refusedLocked handles a kind that the cluster serves in no version. Existing objects count as deleted only after a
// second report: while the cluster changes versions, it may serve none for a moment.
func (l *link) refusedLocked(gvk schema.GroupVersionKind) {
	refusals := l.chores.kinds[gvk].refusals
	pause := backoff.Exponential(refusalPause, absenceInterval, refusals)
	l.chores.kinds[gvk] = kindChore{due: time.Now().Add(pause), refusals: refusals + 1}
	wanted := false
	l.eachUnplacedLocked(gvk, func(r *release, i int) {
		wanted = true
		if refusals > 0 || !r.objects[i].exists {
			l.watcher.applyLocked(target{release: r, index: i}, absent)
		}
	})
	if !wanted {
		delete(l.chores.kinds, gvk)
	}
}

// unresolvedLocked handles a failed discovery of a kind.
func (l *link) unresolvedLocked(gvk schema.GroupVersionKind, err error) {
	w, k := l.watcher, l.chores.kinds[gvk]
	first := k.trouble.err == nil
	k.trouble.set(fmt.Errorf("discovering %s: %s", gvk.GroupKind(), shorten(err)))
	stuck := k.trouble.isStuck(w.stuckAfter)
	k.due, k.failures = time.Now().Add(pauseAfter(k.failures)), k.failures+1
	l.chores.kinds[gvk] = k
	if first {
		l.eachUnplacedLocked(gvk, func(r *release, _ int) { w.notifier.changed(r.key) })
	}
	if stuck {
		l.eachUnplacedLocked(gvk, func(r *release, _ int) { w.stuckLocked(r) })
	}
}

// resolvedLocked adds the objects of a discovered kind to streams. The state of existing objects stays valid until the
// stream changes it.
func (l *link) resolvedLocked(gvk schema.GroupVersionKind, served resource) {
	l.kinds[gvk] = served
	l.eachUnplacedLocked(gvk, func(r *release, i int) {
		o := &r.objects[i]
		if o.known && !o.exists {
			r.setKnown(i, false)
		}
		l.placeLocked(r, i)
		o.stream.beginLocked()
	})
}

// goneLocked handles a resource that is not served. The kind may be served in another version, so it is discovered
// again, and the state of its objects stays until then. The pause before that grows while discovery still names the
// resource.
func (l *link) goneLocked(served schema.GroupVersionResource, err error) {
	now, g := time.Now(), l.gone[served]
	if now.Sub(g.at) > goneMemory {
		g = gone{}
	}
	pause := backoff.Spread(backoff.Exponential(minPause, quietPause, g.count))
	if g.count > 0 {
		g.trouble.set(fmt.Errorf("watching %s: %s", served.GroupResource(), shorten(err)))
	}
	g.at, g.count = now, g.count+1
	stuck := g.trouble.isStuck(l.watcher.stuckAfter)
	l.gone[served] = g

	chore := kindChore{due: now.Add(pause), outdated: true, trouble: g.trouble}
	releases := map[*release]struct{}{}
	for _, s := range l.streams {
		if s.key.resource == served && s.key.mode != helmRecords {
			l.clearLocked(s, func(t target) {
				releases[t.release] = struct{}{}
				l.chores.kinds[t.release.objects[t.index].ref.Value().GroupVersionKind()] = chore
			})
		}
	}
	for gvk, known := range l.kinds {
		if known.GroupVersionResource == served {
			delete(l.kinds, gvk)
		}
	}
	if stuck {
		for r := range releases {
			l.watcher.stuckLocked(r)
		}
	}
	l.workLocked()
}

// clearLocked ends a stream and makes the objects in it such whose kinds are yet to be resolved.
func (l *link) clearLocked(s *stream, each func(target)) {
	for _, targets := range s.wanted {
		for _, t := range targets {
			if s.key.name != "" {
				t.release.lone--
			}
			t.release.objects[t.index].stream = nil
			delete(l.chores.objects, t)
			each(t)
		}
	}
	clear(s.wanted)
	s.endIfIdleLocked()
}

// servedLocked handles a resource that is served. Its earlier absences still count for a while.
func (l *link) servedLocked(served schema.GroupVersionResource) {
	if g, ok := l.gone[served]; ok {
		g.trouble = trouble{}
		l.gone[served] = g
	}
}

func (l *link) eachUnplacedLocked(gvk schema.GroupVersionKind, do func(*release, int)) {
	for r := range l.releases {
		for i := range r.objects {
			if r.objects[i].stream == nil && r.objects[i].ref.Value().GroupVersionKind() == gvk {
				do(r, i)
			}
		}
	}
}

// isUnserved reports whether the response to the read of an object means that its path is not served, which says
// nothing about the object.
func isUnserved(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
