// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"sync/atomic"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// firstReadKept is how long a second pass may use the result of a release's first read. With thousands of releases, the
// second pass is late.
const firstReadKept = time.Minute

// First is the result of a release's first read, for the passes after a start of the manager. A manager that starts
// reconciles each release twice: once before its watches have the objects, and once after. The zero value is for a
// release without a read. A First is safe for concurrent use.
type First struct {
	// read is nil before the first read. It is &used after the result was used or dropped.
	read atomic.Pointer[firstRead]
}

// firstRead is the result of a read, with the key of the read.
type firstRead struct {
	model.Observation
	key string
	at  time.Time
	// again is true if a pass may use the result and keep it for another pass.
	again bool
}

var used firstRead

// IsUnread reports whether the records were not read yet.
func (f *First) IsUnread() bool { return f.read.Load() == nil }

// Keep stores the result of the first read, which the current pass uses, for one more pass. It ignores the results of
// later reads.
func (f *First) Keep(key string, observation model.Observation) {
	f.read.CompareAndSwap(nil, &firstRead{Observation: observation, key: key, at: time.Now()})
}

// keepForTwo stores the result of the first read for two passes, and reports whether it did. It ignores the results of
// later reads.
func (f *First) keepForTwo(key string, observation model.Observation, at time.Time) bool {
	return f.read.CompareAndSwap(nil, &firstRead{Observation: observation, key: key, at: at, again: true})
}

// Take returns the result of the first read. It drops the result with its last use. The result must be younger than
// firstReadKept. [MayUseCached] reports whether a decision may use it.
func (f *First) Take(key string) (model.Observation, bool) {
	read, next := f.read.Load(), &used
	if read == nil {
		return model.Observation{}, false
	}
	if read.again {
		last := *read
		last.again, next = false, &last
	}
	if !f.read.CompareAndSwap(read, next) {
		return model.Observation{}, false // Outdated in the meantime.
	}
	return read.Observation, read.key == key && time.Since(read.at) < firstReadKept
}

// Outdate drops the result, because the records will change.
func (f *First) Outdate() { f.read.Store(&used) }

// MayUseCached reports whether a decision may use the result of an earlier read. Only the decision to do nothing may
// use it, and only without drift correction. A waiting release needs the current state to end its wait. The correction
// of drift needs the currently deployed revision.
func MayUseCached(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}
