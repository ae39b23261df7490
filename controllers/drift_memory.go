/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// defaultDriftInterval is how often a whole release is compared.
const defaultDriftInterval = time.Hour

// driftMemory is what one manager knows of the drift of one release: what it saw of which object when it compared it, and what
// differed. It is used by one worker at a time.
type driftMemory struct {
	// revision is the one that objects were compared with.
	revision int
	// seen are the fingerprints of the objects when they were last compared, 0 for one that did not exist.
	seen map[inventory.Ref]uint64
	// standing are the differences that are known.
	standing map[inventory.Ref]drift.Difference
	// corrections damp fights.
	corrections drift.History
}

// begin makes the memory one of a revision. What a manager saw before it was restarted counts: if nothing differed and
// nothing changed since, nothing needs to be compared.
func (m *driftMemory) begin(revision int, status *addonsv1.DriftStatus, snapshot *objectwatch.Snapshot) {
	if m.revision == revision {
		return
	}
	restarted := m.revision == 0
	m.revision = revision
	m.seen, m.standing = map[inventory.Ref]uint64{}, map[inventory.Ref]drift.Difference{}
	if restarted && status != nil && status.Differing == 0 && status.Fingerprint == snapshot.Fingerprint && status.Fingerprint != "" {
		for ref, state := range snapshot.Objects {
			m.seen[ref] = fingerprintOf(state)
		}
	}
}

// suspects are the objects to compare: all of them if all is true, else those that changed since they were last compared and,
// if differences are to be corrected, those that differ and are not held.
func (m *driftMemory) suspects(snapshot *objectwatch.Snapshot, all, correct bool, now time.Time) map[inventory.Ref]bool {
	suspects := map[inventory.Ref]bool{}
	for ref, state := range snapshot.Objects {
		if state.OptOut {
			delete(m.standing, ref)
			m.seen[ref] = fingerprintOf(state)
			continue
		}
		seen, ok := m.seen[ref]
		if all || !ok || seen != fingerprintOf(state) {
			suspects[ref] = true
		}
	}
	for ref := range m.standing {
		if _, held := m.corrections.HeldUntil(ref, now); correct && !held {
			suspects[ref] = true
		}
	}
	return suspects
}

// learn takes in what a comparison of objects found. Those that could not be compared are compared again.
func (m *driftMemory) learn(compared map[inventory.Ref]bool, found []drift.Difference, failed map[inventory.Ref]bool, snapshot *objectwatch.Snapshot) {
	for ref := range compared {
		if failed[ref] {
			continue
		}
		delete(m.standing, ref)
		m.seen[ref] = fingerprintOf(snapshot.Objects[ref])
	}
	for _, difference := range found {
		m.standing[difference.Ref] = difference
	}
}

// differences are the known ones, in an order that is always the same.
func (m *driftMemory) differences() []drift.Difference {
	list := make([]drift.Difference, 0, len(m.standing))
	for _, difference := range m.standing {
		list = append(list, difference)
	}
	slices.SortFunc(list, func(a, b drift.Difference) int { return inventory.Compare(a.Ref, b.Ref) })
	return list
}

// heldFor is how long it takes until the first of the differing objects that are left alone is corrected again; 0 if none is.
func (m *driftMemory) heldFor(now time.Time) time.Duration {
	var first time.Duration
	for ref := range m.standing {
		if until, held := m.corrections.HeldUntil(ref, now); held && (first == 0 || until.Sub(now) < first) {
			first = until.Sub(now)
		}
	}
	return first
}

func fingerprintOf(state objectwatch.State) uint64 {
	if !state.Exists {
		return 0
	}
	return state.Fingerprint
}

// isFullCheckDue tells whether it is time to compare a whole release.
func isFullCheckDue(release *addonsv1.HelmOpRelease, now time.Time) bool {
	return release.Status.Drift == nil || !now.Before(release.Status.Drift.LastCheckedAt.Add(driftInterval(release)))
}

// driftInterval is the time between two comparisons of a whole release, longer by up to a tenth so that a fleet spreads.
func driftInterval(release *addonsv1.HelmOpRelease) time.Duration {
	interval := defaultDriftInterval
	if spec := release.Spec.DriftDetection; spec != nil && spec.Interval != nil {
		interval = spec.Interval.Duration
	}
	return interval + time.Duration(jitter(release)*float64(interval)/10)
}

// driftMemories hold what is known of all releases. They are safe for concurrent use.
type driftMemories struct {
	mu        sync.Mutex
	byRelease map[types.NamespacedName]*driftMemory
}

func newDriftMemories() *driftMemories {
	return &driftMemories{byRelease: map[types.NamespacedName]*driftMemory{}}
}

func (m *driftMemories) of(key types.NamespacedName) *driftMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.byRelease[key]
	if !ok {
		known = &driftMemory{}
		m.byRelease[key] = known
	}
	return known
}

func (m *driftMemories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byRelease, key)
}
