// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package driftmemory

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// defaultDriftInterval is how often a whole release is compared.
const defaultDriftInterval = time.Hour

// Memory is what one manager knows of the drift of one release: what it saw of which object when it compared it, and
// what differed. It is used by one worker at a time.
type Memory struct {
	// Revision is the one that objects were compared with, rules stands for what was left out.
	Revision int
	rules    string
	// seen are the fingerprints of the objects when they were last compared, 0 for one that did not exist. What is not
	// there is yet to be compared.
	seen map[inventory.Ref]uint64
	// Standing are the differences that are known.
	Standing map[inventory.Ref]drift.Difference
	// Uncompared are the objects that could not be compared, uncorrected those that could not be put right.
	Uncompared, Uncorrected failures
	// Corrections damp fights.
	Corrections drift.History
}

// Begin makes the memory one of a revision and of rules. What a manager saw before it was restarted counts: if nothing
// differed and nothing changed since, nothing needs to be compared.
func (m *Memory) Begin(revision int, rules string, status *addonsv1.DriftStatus, snapshot *objectwatch.Snapshot) {
	if m.Revision == revision && m.rules == rules {
		return
	}
	restarted := m.Revision == 0
	m.Revision, m.rules = revision, rules
	m.seen, m.Standing = map[inventory.Ref]uint64{}, map[inventory.Ref]drift.Difference{}
	m.Uncompared, m.Uncorrected = failures{}, failures{}
	if restarted && status != nil && status.Differing == 0 && status.Fingerprint == snapshot.Fingerprint &&
		status.Fingerprint != "" {
		for ref, state := range snapshot.Objects {
			m.seen[ref] = FingerprintOf(state)
		}
	}
}

// BeginCheck makes all objects be compared again, in as many passes as that takes. Those that could not be compared
// wait for their time.
func (m *Memory) BeginCheck() { clear(m.seen) }

// Suspects are the objects to compare now: those that were not yet or that changed since and, if differences are to be
// corrected, those that differ and are not held.
func (m *Memory) Suspects(snapshot *objectwatch.Snapshot, correct bool, now time.Time) map[inventory.Ref]bool {
	suspects := map[inventory.Ref]bool{}
	if m.Uncompared.wait(inventory.Ref{}, 0, now) > 0 {
		return suspects
	}
	for ref, state := range snapshot.Objects {
		if state.OptOut {
			m.accept(ref)
			m.seen[ref] = FingerprintOf(state)
			continue
		}
		if m.isOpen(ref, state) {
			suspects[ref] = true
		}
	}
	for ref := range m.Standing {
		if correct && m.Hold(ref, snapshot, now) == 0 {
			suspects[ref] = true
		}
	}
	for ref := range m.Uncompared {
		if m.Uncompared.wait(ref, FingerprintOf(snapshot.Objects[ref]), now) > 0 {
			delete(suspects, ref)
		}
	}
	return suspects
}

// isOpen tells whether an object was not compared as it is.
func (m *Memory) isOpen(ref inventory.Ref, state objectwatch.State) bool {
	seen, ok := m.seen[ref]
	return !ok || seen != FingerprintOf(state)
}

// accept takes an object for one that does not differ.
func (m *Memory) accept(ref inventory.Ref) {
	delete(m.Standing, ref)
	delete(m.Uncompared, ref)
	delete(m.Uncorrected, ref)
}

// Left is the number of objects that are yet to be compared, and could be.
func (m *Memory) Left(snapshot *objectwatch.Snapshot) int {
	count := 0
	for ref, state := range snapshot.Objects {
		if _, failed := m.Uncompared[ref]; !failed && m.isOpen(ref, state) {
			count++
		}
	}
	return count
}

// ToCompare are those objects of a manifest that are suspects. Those that could not be compared before come last: if
// they take all the time, they keep nothing else from being compared.
func (m *Memory) ToCompare(manifest []*unstructured.Unstructured,
	suspects map[inventory.Ref]bool,
) []*unstructured.Unstructured {
	var first, last []*unstructured.Unstructured
	for _, object := range manifest {
		ref := inventory.Of(object)
		_, failed := m.Uncompared[ref]
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

// Learn takes in what came of a comparison of objects. Suspects that the manifest does not have cannot differ.
func (m *Memory) Learn(suspects map[inventory.Ref]bool, compared []*unstructured.Unstructured, found drift.Comparison,
	snapshot *objectwatch.Snapshot, now time.Time,
) {
	delete(m.Uncompared, inventory.Ref{})
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
		m.Uncompared.Add(failed.Ref, FingerprintOf(snapshot.Objects[failed.Ref]), failed, now)
	}
	differ := map[inventory.Ref]bool{}
	for _, difference := range found.Differences {
		differ[difference.Ref] = true
		m.Standing[difference.Ref] = difference
	}
	for ref := range done {
		m.seen[ref] = FingerprintOf(snapshot.Objects[ref])
		delete(m.Uncompared, ref)
		if !differ[ref] {
			m.accept(ref)
		}
	}
}

// Corrected takes in that a difference was put right. What came of it is compared once it is seen.
func (m *Memory) Corrected(ref inventory.Ref, now time.Time) {
	m.Corrections.Corrected(ref, now)
	m.accept(ref)
	delete(m.seen, ref)
}

// Hold is how long a differing object is still left alone, because somebody changes it back or because it cannot be put
// right; 0 if it is not.
func (m *Memory) Hold(ref inventory.Ref, snapshot *objectwatch.Snapshot, now time.Time) time.Duration {
	wait := m.Uncorrected.wait(ref, FingerprintOf(snapshot.Objects[ref]), now)
	if until, held := m.Corrections.HeldUntil(ref, now); held {
		wait = max(wait, until.Sub(now))
	}
	return wait
}

// Differences are the known ones, in an order that is always the same.
func (m *Memory) Differences() []drift.Difference {
	list := make([]drift.Difference, 0, len(m.Standing))
	for _, difference := range m.Standing {
		list = append(list, difference)
	}
	slices.SortFunc(list, func(a, b drift.Difference) int { return inventory.Compare(a.Ref, b.Ref) })
	return list
}

// RetryIn is how long it takes until the first of the objects that could not be compared, or that are left alone, is
// tried again; 0 if there is none.
func (m *Memory) RetryIn(snapshot *objectwatch.Snapshot, correct bool, now time.Time) time.Duration {
	var first time.Duration
	earlier := func(wait time.Duration) {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	for ref := range m.Uncompared {
		earlier(m.Uncompared.wait(ref, FingerprintOf(snapshot.Objects[ref]), now))
	}
	for ref := range m.Standing {
		if correct {
			earlier(m.Hold(ref, snapshot, now))
		}
	}
	return first
}

// FingerprintOf is the fingerprint of an object that is watched, 0 if it does not exist.
func FingerprintOf(state objectwatch.State) uint64 {
	if !state.Exists {
		return 0
	}
	return state.Fingerprint
}

// IsFullCheckDue tells whether it is time to compare a whole release.
func IsFullCheckDue(release *addonsv1.HelmOpRelease, now time.Time) bool {
	return release.Status.Drift == nil || !now.Before(release.Status.Drift.LastCheckedAt.Add(Interval(release)))
}

// Interval is the time between two comparisons of a whole release, longer by up to a tenth so that a fleet spreads.
func Interval(release *addonsv1.HelmOpRelease) time.Duration {
	interval := defaultDriftInterval
	if spec := release.Spec.DriftDetection; spec != nil && spec.Interval != nil {
		interval = spec.Interval.Duration
	}
	return interval + time.Duration(apiutil.Jitter(release)*float64(interval)/10)
}
