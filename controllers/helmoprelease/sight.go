// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// writtenGrace is how long after an action a watch that works may show an object otherwise than the action left it, before
// that counts as what became of the object since.
const writtenGrace = time.Minute

// objectView is what is seen of the objects of a release.
type objectView struct {
	// objects are those of which it is known how they are.
	objects []health.Object

	// blocker is why not all objects are seen as they are now; empty if all are.
	blocker string

	// watchError is what has stood in the way of watching one of the objects for the longest time, or a lack of rights; nil if
	// all can be watched. What else is watched for the release does not count.
	watchError *objectwatch.Trouble

	// missing is how many of the objects do not exist, but for Jobs, which are commonly deleted. unlisted tells that there are others of which
	// it is yet to be seen whether they exist.
	missing  int
	unlisted bool
}

// isDenied tells whether an object cannot be watched for lack of rights. Other errors pass, and what was seen before stands.
func (s *objectView) isDenied() bool {
	return s.watchError != nil && errors.Is(s.watchError.Err, objectwatch.ErrForbidden)
}

// addWatchError takes in what stands in the way of an object, nil if nothing does.
func (s *objectView) addWatchError(trouble *objectwatch.Trouble) {
	switch {
	case trouble == nil || trouble == s.watchError || s.isDenied():
	case s.watchError == nil || errors.Is(trouble.Err, objectwatch.ErrForbidden) || trouble.Since.Before(s.watchError.Since):
		s.watchError = trouble
	}
}

// observeObjects returns what the watches show of objects, as far as it is not older than the last action.
func (r *Reconciler) observeObjects(p *releasePass, refs []inventory.Ref) objectView {
	var result objectView
	if len(refs) == 0 {
		return result
	}
	if p.snapshot == nil {
		result.blocker = aboutToLook
		return result
	}
	written, isKnown := &r.memoryOf(p.release).written, true
	var unseen []string
	for _, ref := range refs {
		state := p.snapshot.Objects[ref]
		result.addWatchError(state.Trouble)
		isKnown = isKnown && state.Known
		switch isWell := state.Known && state.Trouble == nil; {
		case !state.Exists && state.Verdict != health.NotFound:
			unseen = append(unseen, ref.String()+": "+cmp.Or(state.Message, "it was not looked at yet"))
		case !written.isSeen(ref, state, isWell, r.now()):
			unseen = append(unseen, ref.String()+": its last change is yet to be seen")
		default:
			result.objects = append(result.objects, health.Object{Ref: ref, Verdict: state.Verdict, Message: state.Message})
		}
	}
	switch {
	case result.watchError != nil:
		result.blocker = "not all objects of the release can be watched: " + result.watchError.Err.Error()
	case !isKnown:
		result.blocker = aboutToLook
	case len(unseen) > 0:
		result.blocker = fmt.Sprintf("%d of %d objects are not seen as they are now: %s", len(unseen), len(refs), unseen[0])
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

// written is how an action left objects whose change is yet to be seen: what a watch shows may lag behind, and the health
// of before must not pass for that of now.
type written struct {
	at      time.Time
	objects map[inventory.Ref]model.Generation
}

// writtenBy is how an action left those of its objects that are to be seen.
func writtenBy(refs []inventory.Ref, generations map[inventory.Ref]model.Generation, now time.Time) written {
	w := written{at: now, objects: map[inventory.Ref]model.Generation{}}
	for _, ref := range refs {
		if generation, ok := generations[ref]; ok {
			w.objects[ref] = generation
		}
	}
	return w
}

// isSeen tells whether an object is seen as the last action left it, or as what became of it later. That it is gone, or made
// anew, may be news or the opposite: a watch that works shows which after a while.
func (w *written) isSeen(ref inventory.Ref, state objectwatch.State, isWell bool, now time.Time) bool {
	wanted, ok := w.objects[ref]
	if !ok {
		return true
	}
	if isSame := state.Exists && (state.UID == wanted.UID || wanted.UID == ""); isSame {
		// Not every API server counts its resource versions up, so an older one counts after a while.
		countsNow := wanted.IsVersion && isWell && now.Sub(w.at) >= writtenGrace
		if state.Generation < wanted.Number && !countsNow {
			return false
		}
	} else if !isWell || now.Sub(w.at) < writtenGrace {
		return false
	}
	if delete(w.objects, ref); len(w.objects) == 0 {
		w.objects = nil // An empty map keeps its memory.
	}
	return true
}
