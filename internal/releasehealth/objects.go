// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasehealth

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
)

// writtenGrace is the longest time for which a working watch may show a state of an object from before the last action.
// After this time, the shown state counts as newer than the action.
const writtenGrace = time.Minute

// objectView is the state of the objects of a release according to the watches.
type objectView struct {
	// objects are the objects whose current state is known.
	objects []health.Object

	// blocker is the reason why the current state of some objects is not known; empty if all states are known.
	blocker string

	// watchError is the oldest error of the watches of these objects, or a missing permission; nil if all can be watched.
	watchError *objectwatch.WatchError

	// missing is the number of objects that do not exist. It does not count Jobs, because they are commonly deleted after
	// they complete. unlisted is true if it is not known whether the other objects exist. It does not count objects that
	// HelmOp may not watch, because they can never be listed.
	missing  int
	unlisted bool

	// denied is the number of objects that HelmOp may neither list nor get. firstDenied is the first of them.
	denied      int
	firstDenied inventory.Ref

	// failing is the number of other objects without a health rule that HelmOp has not been able to watch or list for
	// objectwatch.StuckAfter. firstFailing is the first of them, and failure is its error.
	failing      int
	firstFailing inventory.Ref
	failure      error
}

// isDenied reports whether permissions to watch an object are missing. After any other error, the last known state
// still counts.
func (v *objectView) isDenied() bool { return isForbidden(v.watchError) }

// isForbidden reports whether a watch error, which may be nil, means that permissions are missing.
func isForbidden(watchError *objectwatch.WatchError) bool {
	return watchError != nil && errors.Is(watchError.Err, objectwatch.ErrForbidden)
}

// addWatchError adds the watch error of an object, which may be nil.
func (v *objectView) addWatchError(watchError *objectwatch.WatchError) {
	switch {
	case watchError == nil || watchError == v.watchError || v.isDenied():
	case v.watchError == nil || isForbidden(watchError) ||
		watchError.Since.Before(v.watchError.Since):
		v.watchError = watchError
	}
}

// observe returns the state of objects according to the watches. It ignores a state from before the last action.
func (a *assessment) observe(refs []inventory.Ref) objectView {
	var result objectView
	if len(refs) == 0 {
		return result
	}
	if a.seen.Snapshot == nil {
		result.blocker = notCheckedYet
		return result
	}
	written, isKnown := &a.memory.written, true
	var unknown []string
	for _, ref := range refs {
		state := a.seen.Snapshot.Objects[ref]
		result.addWatchError(state.WatchError)
		isKnown = isKnown && state.Known
		switch isWell := state.Known && state.WatchError == nil; {
		case !state.Exists && state.Health != health.NotFound:
			unknown = append(unknown, ref.String()+": "+cmp.Or(state.Message, "it is not checked yet"))
		case !written.isSeen(ref, state, isWell, a.seen.Now):
			unknown = append(unknown, ref.String()+": its last change is not observed yet")
		default:
			result.objects = append(result.objects, health.Object{Ref: ref, Status: state.Health, Message: state.Message,
				IsStale: a.isStale(state)})
		}
	}
	switch {
	case result.watchError != nil:
		result.blocker = "Not all objects of the release can be watched: " + result.watchError.Err.Error()
	case !isKnown:
		result.blocker = notCheckedYet
	case len(unknown) > 0:
		result.blocker = fmt.Sprintf("The current state of %d of %s is not known: %s", len(unknown),
			plural.Count(len(refs), "object", "objects"), unknown[0])
	}
	return result
}

// isStale reports whether a state may be older than a change that HelmOp could not observe, for example while the
// cluster was unreachable. A release that is unhealthy already stays unhealthy meanwhile.
func (a *assessment) isStale(state objectwatch.State) bool {
	return (!state.Known || state.WatchError != nil) && !conditions.IsFalse(a.release, addonsv1.HealthyCondition)
}

// written holds the generations of objects after an action, until the watches show them. The health of an older state
// must not count.
type written struct {
	at      time.Time
	objects map[inventory.Ref]model.Generation
}

// writtenBy returns the generations after an action of the objects that have a health.
func writtenBy(refs []inventory.Ref, generations map[inventory.Ref]model.Generation, now time.Time) written {
	w := written{at: now, objects: map[inventory.Ref]model.Generation{}}
	for _, ref := range refs {
		if generation, ok := generations[ref]; ok {
			w.objects[ref] = generation
		}
	}
	return w
}

// isSeen reports whether a state of an object is newer than the last action. For an object that is deleted or
// re-created, the state alone does not show this. But a working watch shows the current state within writtenGrace.
func (w *written) isSeen(ref inventory.Ref, state objectwatch.State, isWell bool, now time.Time) bool {
	expected, ok := w.objects[ref]
	if !ok {
		return true
	}
	if isSame := state.Exists && (state.UID == expected.UID || expected.UID == ""); isSame {
		// In some API servers, resource versions do not grow. So a smaller one counts after writtenGrace.
		countsNow := expected.IsVersion && isWell && now.Sub(w.at) >= writtenGrace
		if state.Generation < expected.Number && !countsNow {
			return false
		}
	} else if !isWell || now.Sub(w.at) < writtenGrace {
		return false
	}
	if delete(w.objects, ref); len(w.objects) == 0 {
		w.objects = nil // Emptying the map would not free its memory.
	}
	return true
}

// addExistence adds the objects that are healthy if they exist. They are watched for drift detection, or listed from
// time to time. They count as existing until they are known to be missing, also if HelmOp may not read them.
func (a *assessment) addExistence(view *objectView) {
	for _, object := range view.objects {
		if object.Status == health.NotFound && !isJob(object.Ref) {
			view.missing++
		}
	}
	if a.seen.Snapshot == nil {
		return
	}
	isUnchecked := false
	for _, ref := range releaseinventory.OtherRefs(a.release) {
		state, isFollowed := a.seen.Snapshot.Objects[ref]
		isUnknown := isFollowed && !state.Known
		isUnchecked = isUnchecked || isUnknown
		view.unlisted = view.unlisted || isUnknown && !isForbidden(state.WatchError)
		switch {
		case state.Denied:
			if view.denied++; view.denied == 1 {
				view.firstDenied = ref
			}
		case a.isFailing(state.WatchError):
			if view.failing++; view.failing == 1 {
				view.firstFailing, view.failure = ref, state.WatchError.Err
			}
		}
		if !state.Exists && state.Health == health.NotFound {
			view.missing++
			view.objects = append(view.objects, health.Object{Ref: ref, Status: health.NotFound, Message: state.Message,
				IsStale: a.isStale(state)})
		} else {
			view.objects = append(view.objects, health.Object{Ref: ref, Status: health.Current})
		}
	}
	if isUnchecked && view.missing == 0 && view.blocker == "" && LacksObjects(a.release) {
		// After a restart, the objects that are missing according to the status may not be listed yet.
		view.blocker = notCheckedYet
	}
}

// isFailing reports whether a watch error, which may be nil, has lasted long. Missing permissions do not count.
func (a *assessment) isFailing(watchError *objectwatch.WatchError) bool {
	return watchError != nil && !isForbidden(watchError) && a.seen.Now.Sub(watchError.Since) >= objectwatch.StuckAfter
}

// existence counts the missing objects of a release whose health is not followed. unlisted is true if it is not known
// whether other objects exist. An object that HelmOp may not watch counts as existing.
func (a *assessment) existence() (missing int, unlisted bool) {
	if a.seen.Snapshot == nil {
		return 0, false
	}
	for _, ref := range releaseinventory.Refs(a.release.Status.Inventory) {
		state, isFollowed := a.seen.Snapshot.Objects[ref]
		switch {
		case !isFollowed || isForbidden(state.WatchError) || isJob(ref):
		case !state.Known:
			unlisted = true
		case !state.Exists && state.Health == health.NotFound:
			missing++
		}
	}
	return missing, unlisted
}

func isJob(ref inventory.Ref) bool { return ref.Group == "batch" && ref.Kind == "Job" }

// LacksObjects reports whether objects of a release are known to be missing.
func LacksObjects(release *addonsv1.HelmOpRelease) bool {
	return conditions.GetReason(release, addonsv1.HealthyCondition) == addonsv1.ObjectsMissingReason
}
