// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// writtenGrace is how long after an action a watch that works may show an object otherwise than the action left it, before
// that counts as what became of the object since.
const writtenGrace = time.Minute

// sight is what is seen of the objects of a release.
type sight struct {
	// objects are those of which it is known how they are.
	objects []health.Object

	// obstacle is why not all objects are seen as they are now; empty if all are.
	obstacle string

	// trouble is what has stood in the way of watching one of the objects for the longest time, or a lack of rights; nil if
	// all can be watched. What else is watched for the release does not count.
	trouble *objectwatch.Trouble

	// missing is how many of the objects do not exist, but for Jobs, which are commonly deleted. unlisted tells that there are others of which
	// it is yet to be seen whether they exist.
	missing  int
	unlisted bool
}

// isDenied tells whether an object cannot be watched for lack of rights. Other errors pass, and what was seen before stands.
func (s *sight) isDenied() bool {
	return s.trouble != nil && errors.Is(s.trouble.Err, objectwatch.ErrForbidden)
}

// suffer takes in what stands in the way of an object, nil if nothing does.
func (s *sight) suffer(trouble *objectwatch.Trouble) {
	switch {
	case trouble == nil || trouble == s.trouble || s.isDenied():
	case s.trouble == nil || errors.Is(trouble.Err, objectwatch.ErrForbidden) || trouble.Since.Before(s.trouble.Since):
		s.trouble = trouble
	}
}

// see returns what the watches show of objects, as far as it is not older than the last action.
func (r *Reconciler) see(p *releasePass, refs []inventory.Ref) sight {
	var result sight
	if len(refs) == 0 {
		return result
	}
	if p.snapshot == nil {
		result.obstacle = aboutToLook
		return result
	}
	key, isKnown := client.ObjectKeyFromObject(p.release), true
	var unseen []string
	for _, ref := range refs {
		state := p.snapshot.Objects[ref]
		result.suffer(state.Trouble)
		isKnown = isKnown && state.Known
		switch isWell := state.Known && state.Trouble == nil; {
		case !state.Exists && state.Verdict != health.NotFound:
			unseen = append(unseen, ref.String()+": "+cmp.Or(state.Message, "it was not looked at yet"))
		case !r.Written.isSeen(key, ref, state, isWell, r.Now()):
			unseen = append(unseen, ref.String()+": its last change is yet to be seen")
		default:
			result.objects = append(result.objects, health.Object{Ref: ref, Verdict: state.Verdict, Message: state.Message})
		}
	}
	switch {
	case result.trouble != nil:
		result.obstacle = "not all objects of the release can be watched: " + result.trouble.Err.Error()
	case !isKnown:
		result.obstacle = aboutToLook
	case len(unseen) > 0:
		result.obstacle = fmt.Sprintf("%d of %d objects are not seen as they are now: %s", len(unseen), len(refs), unseen[0])
	}
	return result
}

// healthRefs are the followed objects whose health is more than that they exist.
func healthRefs(release *addonsv1.HelmOpRelease) []inventory.Ref {
	var refs []inventory.Ref
	checked := checkedKinds(&release.Spec)
	for _, ref := range refsOf(release.Status.Inventory) {
		if hasHealth(checked, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// writtenGenerations remember, until it was seen, as what an action left each object: what a watch shows may lag behind, and
// the health of before must not pass for that of now. It is safe for concurrent use.
type writtenGenerations struct {
	mu        sync.Mutex
	byRelease map[types.NamespacedName]written
}

// written is what is yet to be seen of an action.
type written struct {
	at      time.Time
	objects map[inventory.Ref]model.Generation
}

// NewWrittenGenerations remembers no generation.
func NewWrittenGenerations() *writtenGenerations {
	return &writtenGenerations{byRelease: map[types.NamespacedName]written{}}
}

// set notes as what an action left those objects that are to be seen.
func (w *writtenGenerations) set(key types.NamespacedName, refs []inventory.Ref, generations map[inventory.Ref]model.Generation, now time.Time) {
	objects := map[inventory.Ref]model.Generation{}
	for _, ref := range refs {
		if generation, ok := generations[ref]; ok {
			objects[ref] = generation
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(objects) == 0 {
		delete(w.byRelease, key)
		return
	}
	w.byRelease[key] = written{at: now, objects: objects}
}

func (w *writtenGenerations) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byRelease, key)
}

// isSeen tells whether an object is seen as the last action left it, or as what became of it later. That it is gone, or made
// anew, may be news or the opposite: a watch that works shows which after a while.
func (w *writtenGenerations) isSeen(key types.NamespacedName, ref inventory.Ref, state objectwatch.State, isWell bool, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	action := w.byRelease[key]
	wanted, ok := action.objects[ref]
	if !ok {
		return true
	}
	if isSame := state.Exists && (state.UID == wanted.UID || wanted.UID == ""); isSame {
		// Not every API server counts its resource versions up, so an older one counts after a while.
		countsNow := wanted.IsVersion && isWell && now.Sub(action.at) >= writtenGrace
		if state.Generation < wanted.Number && !countsNow {
			return false
		}
	} else if !isWell || now.Sub(action.at) < writtenGrace {
		return false
	}
	if delete(action.objects, ref); len(action.objects) == 0 {
		// An empty map keeps the room that it had.
		delete(w.byRelease, key)
	}
	return true
}

// blindness remembers since when the objects of releases are not fully seen. The zero value is empty; it is safe for
// concurrent use.
type blindness struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// begin notes that a release is not fully seen, and returns since when.
func (b *blindness) begin(key types.NamespacedName, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since == nil {
		b.since = map[types.NamespacedName]time.Time{}
	}
	since, ok := b.since[key]
	if !ok {
		since = now
		b.since[key] = now
	}
	return since
}

// end notes that a release is fully seen, or nobody looks any more.
func (b *blindness) end(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.since, key)
}
