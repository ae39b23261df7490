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
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// revision is the one that objects were compared with, rules stands for what was left out.
	revision int
	rules    string
	// seen are the fingerprints of the objects when they were last compared, 0 for one that did not exist. What is not there
	// is yet to be compared.
	seen map[inventory.Ref]uint64
	// standing are the differences that are known.
	standing map[inventory.Ref]drift.Difference
	// uncompared are the objects that could not be compared, uncorrected those that could not be put right.
	uncompared, uncorrected failures
	// corrections damp fights.
	corrections drift.History
}

// begin makes the memory one of a revision and of rules. What a manager saw before it was restarted counts: if nothing
// differed and nothing changed since, nothing needs to be compared.
func (m *driftMemory) begin(revision int, rules string, status *addonsv1.DriftStatus, snapshot *objectwatch.Snapshot) {
	if m.revision == revision && m.rules == rules {
		return
	}
	restarted := m.revision == 0
	m.revision, m.rules = revision, rules
	m.seen, m.standing = map[inventory.Ref]uint64{}, map[inventory.Ref]drift.Difference{}
	m.uncompared, m.uncorrected = failures{}, failures{}
	if restarted && status != nil && status.Differing == 0 && status.Fingerprint == snapshot.Fingerprint && status.Fingerprint != "" {
		for ref, state := range snapshot.Objects {
			m.seen[ref] = fingerprintOf(state)
		}
	}
}

// beginCheck makes all objects be compared again, in as many passes as that takes. Those that could not be compared wait for
// their time.
func (m *driftMemory) beginCheck() { clear(m.seen) }

// suspects are the objects to compare now: those that were not yet or that changed since and, if differences are to be
// corrected, those that differ and are not held.
func (m *driftMemory) suspects(snapshot *objectwatch.Snapshot, correct bool, now time.Time) map[inventory.Ref]bool {
	suspects := map[inventory.Ref]bool{}
	if m.uncompared.wait(inventory.Ref{}, 0, now) > 0 {
		return suspects
	}
	for ref, state := range snapshot.Objects {
		if state.OptOut {
			m.accept(ref)
			m.seen[ref] = fingerprintOf(state)
			continue
		}
		if m.isOpen(ref, state) {
			suspects[ref] = true
		}
	}
	for ref := range m.standing {
		if correct && m.hold(ref, snapshot, now) == 0 {
			suspects[ref] = true
		}
	}
	for ref := range m.uncompared {
		if m.uncompared.wait(ref, fingerprintOf(snapshot.Objects[ref]), now) > 0 {
			delete(suspects, ref)
		}
	}
	return suspects
}

// isOpen tells whether an object was not compared as it is.
func (m *driftMemory) isOpen(ref inventory.Ref, state objectwatch.State) bool {
	seen, ok := m.seen[ref]
	return !ok || seen != fingerprintOf(state)
}

// accept takes an object for one that does not differ.
func (m *driftMemory) accept(ref inventory.Ref) {
	delete(m.standing, ref)
	delete(m.uncompared, ref)
	delete(m.uncorrected, ref)
}

// left is the number of objects that are yet to be compared, and could be.
func (m *driftMemory) left(snapshot *objectwatch.Snapshot) int {
	count := 0
	for ref, state := range snapshot.Objects {
		if _, failed := m.uncompared[ref]; !failed && m.isOpen(ref, state) {
			count++
		}
	}
	return count
}

// toCompare are those objects of a manifest that are suspects. Those that could not be compared before come last: if they take
// all the time, they keep nothing else from being compared.
func (m *driftMemory) toCompare(manifest []*unstructured.Unstructured, suspects map[inventory.Ref]bool) []*unstructured.Unstructured {
	var first, last []*unstructured.Unstructured
	for _, object := range manifest {
		ref := inventory.Of(object)
		_, failed := m.uncompared[ref]
		switch {
		case !suspects[ref]:
		case failed:
			last = append(last, object)
		default:
			first = append(first, object)
		}
	}
	return append(first, last...)
}

// learn takes in what came of a comparison of objects. Suspects that the manifest does not have cannot differ.
func (m *driftMemory) learn(suspects map[inventory.Ref]bool, compared []*unstructured.Unstructured, found drift.Comparison,
	snapshot *objectwatch.Snapshot, now time.Time,
) {
	delete(m.uncompared, inventory.Ref{})
	done := map[inventory.Ref]bool{}
	maps.Copy(done, suspects)
	for _, object := range compared {
		delete(done, inventory.Of(object))
	}
	for _, ref := range found.Compared {
		done[ref] = true
	}
	for _, failed := range found.Failed {
		delete(m.seen, failed.Ref)
		m.uncompared.add(failed.Ref, fingerprintOf(snapshot.Objects[failed.Ref]), failed, now)
	}
	differ := map[inventory.Ref]bool{}
	for _, difference := range found.Differences {
		differ[difference.Ref] = true
		m.standing[difference.Ref] = difference
	}
	for ref := range done {
		m.seen[ref] = fingerprintOf(snapshot.Objects[ref])
		delete(m.uncompared, ref)
		if !differ[ref] {
			m.accept(ref)
		}
	}
}

// corrected takes in that a difference was put right. What came of it is compared once it is seen.
func (m *driftMemory) corrected(ref inventory.Ref, now time.Time) {
	m.corrections.Corrected(ref, now)
	m.accept(ref)
	delete(m.seen, ref)
}

// hold is how long a differing object is still left alone, because somebody changes it back or because it cannot be put right;
// 0 if it is not.
func (m *driftMemory) hold(ref inventory.Ref, snapshot *objectwatch.Snapshot, now time.Time) time.Duration {
	wait := m.uncorrected.wait(ref, fingerprintOf(snapshot.Objects[ref]), now)
	if until, held := m.corrections.HeldUntil(ref, now); held {
		wait = max(wait, until.Sub(now))
	}
	return wait
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

// retryIn is how long it takes until the first of the objects that could not be compared, or that are left alone, is tried
// again; 0 if there is none.
func (m *driftMemory) retryIn(snapshot *objectwatch.Snapshot, correct bool, now time.Time) time.Duration {
	var first time.Duration
	earlier := func(wait time.Duration) {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	for ref := range m.uncompared {
		earlier(m.uncompared.wait(ref, fingerprintOf(snapshot.Objects[ref]), now))
	}
	for ref := range m.standing {
		if correct {
			earlier(m.hold(ref, snapshot, now))
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
