// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"maps"
	"sync/atomic"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// keptFor is how long later passes may use a result. With thousands of releases, these passes are late.
	keptFor = time.Minute

	// keptForAction is how long an action may be based on a result. The engine lists the records again for an action
	// that begins later.
	keptForAction = 5 * time.Second

	// unwatchedFor is how long after an action the watches may not show the objects yet.
	unwatchedFor = 10 * time.Second
)

// Kept is what is known about the records of a release without another read. It has one of these results:
//
//   - The first read after a start of the manager. A manager that starts reconciles each release twice: once before its
//     watches have the objects, and once after.
//   - The read of a pass that then waited for its chart or for a slot, for the pass that acts.
//   - The records as an action has left them, for the passes that follow because the objects become healthy.
//
// The zero value is for a release without a read. A Kept is safe for concurrent use.
type Kept struct {
	// last is nil before the first read. Its key is empty if there is no result.
	last atomic.Pointer[entry]
}

// entry is a result, with the key of its read.
type entry struct {
	Result
	key string
	// uses is the number of passes that may still use the result; 0 if there is no limit.
	uses int
}

// Result is a result that was kept.
type Result struct {
	model.Observation

	// forAction is true if an action may be based on the result.
	forAction bool

	// Left is what an action has left; nil for the result of a read.
	Left *Left
}

// Left is what an action has left in addition to the records. If any of it has changed, the records may have changed,
// too: another program may have acted on the release, or a user has asked for a look at it.
type Left struct {
	// Objects are the generations of the objects.
	Objects map[inventory.Ref]model.Generation

	at                  time.Time
	generation          int64
	labels, annotations map[string]string
}

// LeftFor returns what an action has left for a release at the end of the action.
func LeftFor(release *addonsv1.HelmOpRelease, objects map[inventory.Ref]model.Generation) *Left {
	return &Left{Objects: objects, at: time.Now(), generation: release.Generation, labels: maps.Clone(release.Labels),
		annotations: maps.Clone(release.Annotations)}
}

// IsNew reports whether the action has just ended, so that the watches may not show the objects yet.
func (l *Left) IsNew() bool { return time.Since(l.at) < unwatchedFor }

// Mark is a moment after which the records were not outdated. The zero value is no such moment.
type Mark struct{ last *entry }

// IsUnread reports whether the records were not read yet.
func (k *Kept) IsUnread() bool { return k.last.Load() == nil }

// Unread makes the records count as not read again, if they were not outdated after the mark: a pass that only assumed
// that there are none has waited, and has changed nothing.
func (k *Kept) Unread(mark Mark) {
	if mark.last != nil {
		k.last.CompareAndSwap(mark.last, nil)
	}
}

// KeepFirst stores the result of the first read, which the current pass uses, for one more pass. It ignores the results
// of later reads.
func (k *Kept) KeepFirst(key string, observation model.Observation) {
	k.last.CompareAndSwap(nil, &entry{Result: Result{Observation: observation}, key: key, uses: 1})
}

// keepForTwo stores the result of the first read for two passes, and reports whether it did. It ignores the results of
// later reads.
func (k *Kept) keepForTwo(key string, observation model.Observation) bool {
	return k.last.CompareAndSwap(nil, &entry{Result: Result{Observation: observation}, key: key, uses: 2})
}

// KeepForAction stores the result of a read for the next pass, which may act on it. It does nothing if the records were
// outdated after the mark.
func (k *Kept) KeepForAction(mark Mark, key string, observation model.Observation) {
	k.keepFor(keptForAction, mark, &entry{Result: Result{Observation: observation, forAction: true}, key: key, uses: 1})
}

// KeepLeft stores the records as an action has left them, for all passes of the next time. It does nothing if the
// records were outdated after the mark.
func (k *Kept) KeepLeft(mark Mark, key string, observation model.Observation, left *Left) {
	k.keepFor(keptFor, mark, &entry{Result: Result{Observation: observation, Left: left}, key: key})
}

// keepFor stores a result for some time after its read. A result that no pass uses must not fill the memory of the
// process.
func (k *Kept) keepFor(age time.Duration, mark Mark, result *entry) {
	left := time.Until(result.ReadAt.Add(age))
	if mark.last == nil || left <= 0 || !k.last.CompareAndSwap(mark.last, result) {
		return
	}
	time.AfterFunc(left, func() { k.last.CompareAndSwap(result, &entry{}) })
}

// Take returns the last result for the current pass over a release. It drops the result with its last use.
// [Result.Permits] reports whether a decision may use it.
func (k *Kept) Take(key string, release *addonsv1.HelmOpRelease) (*Result, bool) {
	last := k.last.Load()
	if last == nil || last.key == "" {
		return nil, false
	}
	if last.uses > 0 {
		next := &entry{}
		if last.uses > 1 {
			*next = *last
			next.uses--
		}
		if !k.last.CompareAndSwap(last, next) {
			return nil, false // Outdated in the meantime.
		}
	}
	return &last.Result, last.key == key && last.isCurrent() && last.Left.isOf(release)
}

func (e *entry) isCurrent() bool {
	age := time.Since(e.ReadAt)
	return age < keptForAction || age < keptFor && !e.forAction
}

// isOf reports whether a release is still as it was for the action. A user asks for a look at a release by a change of
// its metadata, for example with a retry request.
func (l *Left) isOf(release *addonsv1.HelmOpRelease) bool {
	return l == nil || l.generation == release.Generation && maps.Equal(l.labels, release.Labels) &&
		maps.Equal(l.annotations, release.Annotations)
}

// Outdate drops the result, because the records will change or may have changed.
func (k *Kept) Outdate() Mark {
	next := &entry{}
	k.last.Store(next)
	return Mark{next}
}

// Permits reports whether a decision may be based on the result. Most results permit only to do nothing, and this only
// without drift correction. A waiting release needs the current state to end its wait. The correction of drift needs
// the currently deployed revision. A result for an action also permits to install and to upgrade: such an action checks
// the records on which it is based by the preconditions of its writes. An assumption permits only an installation.
func (r *Result) Permits(decision decide.Decision, policy model.Policy) bool {
	switch decision.Action {
	case model.ActionNone:
		return !policy.CorrectDrift && !r.Assumed
	case model.ActionInstall, model.ActionUpgrade:
		return r.forAction && decision.Recovery == decide.RecoverNothing && decision.State != model.StateForeign
	default:
		return false
	}
}
