// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package driftmemory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// defaultDriftInterval is the default time between two comparisons of all objects of a release.
const defaultDriftInterval = time.Hour

// Memory is the state of drift detection for one release in this process: the fingerprints of the compared objects, and
// the differences. Only one worker may use it at a time.
type Memory struct {
	// Revision is the Helm revision whose manifest is compared. rules is the digest of the ignore rules.
	Revision int
	rules    string
	// compared holds the fingerprint of each object at its last comparison; 0 for an object that did not exist. Objects
	// that were not compared yet are not in the map.
	compared map[inventory.Ref]uint64
	// Differing are the objects that differ, without what corrects them: an object may differ for a long time, and its
	// content may have megabytes. Each correction follows a comparison.
	Differing map[inventory.Ref]drift.Difference
	// Uncompared holds the objects whose comparison failed. Uncorrected holds the objects whose correction failed.
	Uncompared, Uncorrected failures
	// retriedFor is the last retry request that dropped the failures.
	retriedFor string
	// Corrections is the history of corrections. It delays corrections of an object that another program changes
	// repeatedly.
	Corrections drift.History
}

// Begin resets the memory if the Helm revision or the ignore rules changed. After a restart of the manager, Begin uses
// the fingerprint in the status. If no object differed in the last comparison and no object has changed after it, the
// memory counts all objects as compared.
func (m *Memory) Begin(revision int, rules string, status *addonsv1.DriftStatus, snapshot *objectwatch.Snapshot) {
	if m.Revision == revision && m.rules == rules {
		return
	}
	restarted := m.Revision == 0
	m.Revision, m.rules = revision, rules
	m.compared, m.Differing = map[inventory.Ref]uint64{}, map[inventory.Ref]drift.Difference{}
	m.Uncompared, m.Uncorrected = failures{}, failures{}
	if restarted && status != nil && status.Differing == 0 && status.Fingerprint == m.Fingerprint(snapshot) &&
		status.Fingerprint != "" {
		for ref, state := range snapshot.Objects {
			m.compared[ref] = FingerprintOf(state)
		}
	}
}

// Fingerprint returns a digest of what a comparison depends on: the objects, the Helm revision and the ignore rules. It
// is empty if the snapshot has no digest of the objects.
func (m *Memory) Fingerprint(snapshot *objectwatch.Snapshot) string {
	if snapshot.Fingerprint == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q", m.Revision, m.rules, snapshot.Fingerprint))
	return hex.EncodeToString(sum[:16])
}

// BeginCheck starts a comparison of all objects. It may take several passes. Objects whose comparison failed wait until
// their next try is due.
func (m *Memory) BeginCheck() { clear(m.compared) }

// RetryFor makes all comparisons and corrections due that wait after a failure, once for each retry request. request is
// empty if there is none.
func (m *Memory) RetryFor(request string) {
	if request == "" || request == m.retriedFor {
		return
	}
	m.retriedFor = request
	clear(m.Uncompared)
	clear(m.Uncorrected)
}

// Suspects returns the objects to compare now: the objects that were not compared in their current state. If correct is
// true, it also returns objects that differ and whose correction is due. If there are none, a failure to compare any
// object no longer counts.
func (m *Memory) Suspects(snapshot *objectwatch.Snapshot, correct bool, now time.Time) map[inventory.Ref]bool {
	suspects := m.suspects(snapshot, correct, now)
	if len(suspects) == 0 {
		delete(m.Uncompared, inventory.Ref{})
	}
	if m.Uncompared.wait(inventory.Ref{}, 0, now) > 0 {
		return nil
	}
	return suspects
}

func (m *Memory) suspects(snapshot *objectwatch.Snapshot, correct bool, now time.Time) map[inventory.Ref]bool {
	suspects := map[inventory.Ref]bool{}
	for ref, state := range snapshot.Objects {
		if state.OptOut {
			m.noteEqual(ref)
			m.compared[ref] = FingerprintOf(state)
			continue
		}
		if m.isUncompared(ref, state) {
			suspects[ref] = true
		}
	}
	for ref := range m.Differing {
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

// isUncompared reports whether an object was not compared in its current state.
func (m *Memory) isUncompared(ref inventory.Ref, state objectwatch.State) bool {
	fingerprint, ok := m.compared[ref]
	return !ok || fingerprint != FingerprintOf(state)
}

// noteEqual notes that an object does not differ.
func (m *Memory) noteEqual(ref inventory.Ref) {
	delete(m.Differing, ref)
	delete(m.Uncompared, ref)
	delete(m.Uncorrected, ref)
}

// Left returns the number of objects that were not compared in their current state. It does not count objects whose
// comparison failed.
func (m *Memory) Left(snapshot *objectwatch.Snapshot) int {
	count := 0
	for ref, state := range snapshot.Objects {
		if _, failed := m.Uncompared[ref]; !failed && m.isUncompared(ref, state) {
			count++
		}
	}
	return count
}

// ToCompare returns the suspects among the objects of a manifest. Objects whose last comparison failed come last, so
// that they do not use the time of the others.
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

var errUnmatched = errors.New("the cluster does not serve the kind, or its scope has changed after the last action")

// Unmatched returns an error for each suspect that the manifest has only in another namespace. If the cluster does not
// serve a kind, HelmOp does not know whether the kind is cluster-scoped. So the manifest may have a namespace that the
// suspect does not have.
func Unmatched(manifest []*unstructured.Unstructured, suspects map[inventory.Ref]bool) []*drift.ObjectError {
	exact, anywhere := map[inventory.Ref]bool{}, map[inventory.Ref]bool{}
	for _, ref := range inventory.FromObjects(manifest) {
		exact[ref], anywhere[withoutNamespace(ref)] = true, true
	}
	var unmatched []*drift.ObjectError
	for ref := range suspects {
		if !exact[ref] && anywhere[withoutNamespace(ref)] {
			unmatched = append(unmatched, &drift.ObjectError{Ref: ref, Err: errUnmatched})
		}
	}
	return unmatched
}

func withoutNamespace(ref inventory.Ref) inventory.Ref {
	ref.Namespace = ""
	return ref
}

// Update records the result of a comparison of objects. Suspects that are neither in the manifest nor among the failed
// ones are recorded as equal.
func (m *Memory) Update(suspects map[inventory.Ref]bool, compared []inventory.Ref, found drift.Comparison,
	snapshot *objectwatch.Snapshot, now time.Time,
) {
	delete(m.Uncompared, inventory.Ref{})
	done := map[inventory.Ref]bool{}
	maps.Copy(done, suspects)
	for _, ref := range compared {
		delete(done, ref)
	}
	for _, ref := range found.Compared {
		done[ref] = true
	}
	for _, failed := range found.Failed {
		delete(done, failed.Ref)
		delete(m.compared, failed.Ref)
		m.Uncompared.Add(failed.Ref, FingerprintOf(snapshot.Objects[failed.Ref]), failed, now)
	}
	differ := map[inventory.Ref]bool{}
	for _, difference := range found.Differences {
		differ[difference.Ref] = true
		m.Differing[difference.Ref] = difference.WithoutContent()
	}
	for ref := range done {
		m.compared[ref] = FingerprintOf(snapshot.Objects[ref])
		delete(m.Uncompared, ref)
		if !differ[ref] {
			m.noteEqual(ref)
		}
	}
}

// Corrected records that an object was corrected. The object is compared again when the watch shows the corrected
// state.
func (m *Memory) Corrected(ref inventory.Ref, now time.Time) {
	m.Corrections.Corrected(ref, now)
	m.noteEqual(ref)
	delete(m.compared, ref)
}

// Hold returns the time until the next correction of an object that differs. The correction waits if another program
// changes the object repeatedly, or if the last correction failed. Hold returns 0 if a correction is due.
func (m *Memory) Hold(ref inventory.Ref, snapshot *objectwatch.Snapshot, now time.Time) time.Duration {
	wait := m.Uncorrected.wait(ref, FingerprintOf(snapshot.Objects[ref]), now)
	if until, held := m.Corrections.HeldUntil(ref, now); held {
		wait = max(wait, until.Sub(now))
	}
	return wait
}

// Differences returns the differences, in the order of their objects.
func (m *Memory) Differences() []drift.Difference {
	list := make([]drift.Difference, 0, len(m.Differing))
	for _, difference := range m.Differing {
		list = append(list, difference)
	}
	slices.SortFunc(list, func(a, b drift.Difference) int { return inventory.Compare(a.Ref, b.Ref) })
	return list
}

// RetryIn returns the time until the next comparison or correction that waits after a failure; 0 if none waits.
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
	for ref := range m.Differing {
		if correct {
			earlier(m.Hold(ref, snapshot, now))
		}
	}
	return first
}

// FingerprintOf returns the fingerprint of a watched object; 0 if the object does not exist.
func FingerprintOf(state objectwatch.State) uint64 {
	if !state.Exists {
		return 0
	}
	return state.Fingerprint
}

// IsFullCheckDue reports whether the comparison of all objects of a release is due. It is due, too, if the time of the
// last comparison is in the future: the clock of a former manager was ahead, and the wait would become longer by the
// difference.
func IsFullCheckDue(release *addonsv1.HelmOpRelease, now time.Time) bool {
	status := release.Status.Drift
	return status == nil || status.LastCheckedAt.After(now) || !now.Before(status.LastCheckedAt.Add(Interval(release)))
}

// Interval returns the time between two comparisons of all objects of a release. It is up to a tenth longer than
// specified. The addition is constant for a release, so that the comparisons of a fleet are spread.
func Interval(release *addonsv1.HelmOpRelease) time.Duration {
	interval := defaultDriftInterval
	if spec := release.Spec.DriftDetection; spec != nil && spec.Interval != nil {
		interval = spec.Interval.Duration
	}
	return interval + time.Duration(apiutil.Jitter(release)*float64(interval)/10)
}
