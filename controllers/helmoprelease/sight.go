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

// writtenGrace is how long a working watch may show an object older than the last action left it. After that, the
// object counts as changed since.
const writtenGrace = time.Minute

// objectView is what the watches show of the objects of a release.
type objectView struct {
	// objects are the objects whose state is known.
	objects []health.Object

	// blocker is why not all objects are seen in their current state; empty if all are.
	blocker string

	// watchError is the oldest error of the watches of these objects, or a lack of permissions; nil if all can be
	// watched.
	watchError *objectwatch.WatchError

	// missing is the number of objects that do not exist, other than Jobs, which are commonly deleted. unlisted is
	// true if it is not known of other objects whether they exist.
	missing  int
	unlisted bool
}

// isDenied reports whether permissions to watch an object are missing. With any other error, the last known state
// stays.
func (s *objectView) isDenied() bool {
	return s.watchError != nil && errors.Is(s.watchError.Err, objectwatch.ErrForbidden)
}

// addWatchError adds the watch error of an object, which may be nil.
func (s *objectView) addWatchError(added *objectwatch.WatchError) {
	switch {
	case added == nil || added == s.watchError || s.isDenied():
	case s.watchError == nil || errors.Is(added.Err, objectwatch.ErrForbidden) ||
		added.Since.Before(s.watchError.Since):
		s.watchError = added
	}
}

// observeObjects returns the state of objects as the watches show it, if that is not older than the last action.
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
		result.addWatchError(state.WatchError)
		isKnown = isKnown && state.Known
		switch isWell := state.Known && state.WatchError == nil; {
		case !state.Exists && state.Health != health.NotFound:
			unseen = append(unseen, ref.String()+": "+cmp.Or(state.Message, "it was not looked at yet"))
		case !written.isSeen(ref, state, isWell, r.now()):
			unseen = append(unseen, ref.String()+": its last change is yet to be seen")
		default:
			result.objects = append(result.objects, health.Object{Ref: ref, Status: state.Health, Message: state.Message})
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

// healthRefs are the followed objects that have a health beyond their existence.
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

// written is how an action left objects whose change the watches do not show yet. The health of an older state must
// not count.
type written struct {
	at      time.Time
	objects map[inventory.Ref]model.Generation
}

// writtenBy is how an action left those of its objects that have a health.
func writtenBy(refs []inventory.Ref, generations map[inventory.Ref]model.Generation, now time.Time) written {
	w := written{at: now, objects: map[inventory.Ref]model.Generation{}}
	for _, ref := range refs {
		if generation, ok := generations[ref]; ok {
			w.objects[ref] = generation
		}
	}
	return w
}

// isSeen reports whether the state of an object is the one that the last action left, or a later one. An object that
// is gone or re-created may be in an older or in a later state: a working watch shows which within a minute.
func (w *written) isSeen(ref inventory.Ref, state objectwatch.State, isWell bool, now time.Time) bool {
	wanted, ok := w.objects[ref]
	if !ok {
		return true
	}
	if isSame := state.Exists && (state.UID == wanted.UID || wanted.UID == ""); isSame {
		// The resource versions of some API servers do not grow, so an older one counts after a minute.
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
