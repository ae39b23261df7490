// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"sync/atomic"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// firstReadKept is how long the result of the first read of a release may be used in a second pass. With thousands of
// releases, the second pass is late.
const firstReadKept = time.Minute

// First is the result of the first read of a release, for one more pass. A manager that starts reconciles each release
// twice: first without its watches, and again when the watches have the objects. The zero value is for a release that
// was not read yet. It is safe for concurrent use.
type First struct {
	// read is nil before the first read, and &used after the use of its result.
	read atomic.Pointer[firstRead]
}

// firstRead is the result of a read, by the key of the read.
type firstRead struct {
	model.Observation
	key string
	at  time.Time
}

var used firstRead

// Keep keeps the result of a read, unless it is not the first one.
func (f *First) Keep(key string, observation model.Observation) {
	f.read.CompareAndSwap(nil, &firstRead{Observation: observation, key: key, at: time.Now()})
}

// Take returns, once, the result of the first read if it is younger than firstReadKept. [MayUseCached] reports whether
// a decision may use it.
func (f *First) Take(key string) (model.Observation, bool) {
	if f.read.Load() == nil {
		return model.Observation{}, false
	}
	read := f.read.Swap(&used)
	return read.Observation, read.key == key && time.Since(read.at) < firstReadKept
}

// Outdate drops the result, because the records are about to change.
func (f *First) Outdate() { f.read.Store(&used) }

// MayUseCached reports whether a decision may use the result of an earlier read. Only the decision to do nothing may
// use it. A waiting release needs the current state to end its wait, and drift is corrected to the currently deployed
// revision.
func MayUseCached(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}
