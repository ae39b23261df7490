// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

const (

	// maxSharedAge is the longest time for which HelmOps share a result.
	maxSharedAge = 10 * time.Minute
)

// resolutionSchedule knows when the next lookup of each reference of each HelmOp is due. It is in memory and not in the
// status, so that an unchanged fleet writes nothing. After a restart each reference is looked up once.
type resolutionSchedule struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]map[addonsv1.ArtifactReference]resolutionEntry
	// shares are the last results that several HelmOps can share.
	shares map[lookupKey]sharedResult
}

// resolutionKey is a reference of a HelmOp: that of spec.source, or one beside it.
type resolutionKey struct {
	helmOp types.NamespacedName
	ref    addonsv1.ArtifactReference
}

// sharedResult is a result and its time.
type sharedResult struct {
	resolved
	at time.Time
}

// lookupKey is what a lookup depends on. After a change of any of it, a lookup is due at once.
type lookupKey struct {
	// source and access are digests.
	source, access string
	// request is the value of the annotation that asks for a lookup now.
	request string
}

type resolutionEntry struct {
	lookupKey
	failures int
	// asked is the time of the last result, next the time of the next lookup.
	asked, next time.Time
	// fixed is true if the result can never change.
	fixed bool
	// artifact is the last artifact of this source; nil if there is none.
	artifact *addonsv1.ArtifactStatus
	// lastResult is the result of the last lookup.
	lastResult lookupResult
}

// covers reports whether a lookup with this key needs no other one for another key. A request that was removed needs
// none.
func (q lookupKey) covers(asked lookupKey) bool {
	return q.source == asked.source && q.access == asked.access && (asked.request == "" || q.request == asked.request)
}

func newResolutionSchedule() *resolutionSchedule {
	return &resolutionSchedule{
		entries: map[types.NamespacedName]map[addonsv1.ArtifactReference]resolutionEntry{},
		shares:  map[lookupKey]sharedResult{},
	}
}

// entry returns what is remembered of a reference. The caller holds mu.
func (s *resolutionSchedule) entry(key resolutionKey) (resolutionEntry, bool) {
	entry, ok := s.entries[key.helmOp][key.ref]
	return entry, ok
}

// set remembers something of a reference. The caller holds mu.
func (s *resolutionSchedule) set(key resolutionKey, entry resolutionEntry) {
	if s.entries[key.helmOp] == nil {
		s.entries[key.helmOp] = map[addonsv1.ArtifactReference]resolutionEntry{}
	}
	s.entries[key.helmOp][key.ref] = entry
}

// due returns how long it takes until the next lookup of a reference; 0 or less is now. Known is true if there is a
// last known artifact: a success without one does not count.
func (s *resolutionSchedule) due(key resolutionKey, asked lookupKey, known bool,
	now time.Time,
) (wait time.Duration, never bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	switch {
	case !ok, !entry.covers(asked):
		return 0, false
	case entry.failures == 0 && !known:
		return 0, false
	default:
		return entry.next.Sub(now), entry.fixed
	}
}

// record stores that a lookup ended, and returns how long it takes until the next; 0 is never. A registry that asks for
// a longer wait after a failure gets it.
func (s *resolutionSchedule) record(key resolutionKey, entry resolutionEntry, interval time.Duration, now time.Time,
	failed bool,
	retryAfter time.Duration,
) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.entry(key)
	if before.source == entry.source {
		entry.artifact = before.artifact
	}
	var delay time.Duration
	switch {
	case failed:
		entry.fixed = false
		entry.failures = 1
		if before.source == entry.source && before.access == entry.access {
			entry.failures = before.failures + 1
		}
		// After a failure, the wait is never longer than the interval.
		delay = min(requeue.ResolveRetry(entry.failures), max(interval, requeue.MinResolveRetry))
		delay = max(wait.Jitter(delay, requeue.IntervalJitter), retryAfter)
	case !entry.fixed:
		delay = wait.Jitter(interval, requeue.IntervalJitter)
	}
	entry.asked, entry.next = now, now.Add(delay)
	s.set(key, entry)
	return delay
}

// share stores a result for other HelmOps with the same key. Its signers are not shared: they may come from the status
// of one HelmOp, which others must not trust.
func (s *resolutionSchedule) share(asked lookupKey, found resolved, now time.Time) {
	found.signed = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for known, answer := range s.shares {
		if now.Sub(answer.at) > maxSharedAge {
			delete(s.shares, known)
		}
	}
	asked.request = ""
	s.shares[asked] = sharedResult{resolved: found, at: now}
}

// shared returns the recent result of another HelmOp with the same key. HelmOps whose results came together stay
// together: fifty of them cost the registry as much as one. It is for HelmOps that have an artifact already, from
// before a restart or the last interval. A HelmOp that looks up for the first time, after a failure, or by request,
// sends its own request.
func (s *resolutionSchedule) shared(key resolutionKey, asked lookupKey, interval time.Duration,
	now time.Time,
) (sharedResult, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	if ok && (entry.failures > 0 || !entry.covers(asked)) {
		return sharedResult{}, false
	}
	asked.request = ""
	answer, ok := s.shares[asked]
	age := now.Sub(answer.at)
	return answer, ok && answer.at.After(entry.asked) &&
		age < min(maxSharedAge, time.Duration(float64(interval)*requeue.IntervalJitter))
}

// setArtifact stores the artifact of the last lookup.
func (s *resolutionSchedule) setArtifact(key resolutionKey, artifact *addonsv1.ArtifactStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	entry.artifact = artifact.DeepCopy()
	s.set(key, entry)
}

// setLastResult stores the result of the last lookup.
func (s *resolutionSchedule) setLastResult(key resolutionKey, said lookupResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	entry.lastResult = said
	s.set(key, entry)
}

// lastResult returns the result of the last lookup with the same key, and whether that failed. ok is false if there was
// none.
func (s *resolutionSchedule) lastResult(key resolutionKey, asked lookupKey) (said lookupResult, failing, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	if !ok || !entry.covers(asked) {
		return lookupResult{}, false, false
	}
	return entry.lastResult, entry.failures > 0, true
}

// lastArtifact returns the last artifact of a source; nil if there is none.
func (s *resolutionSchedule) lastArtifact(key resolutionKey, source string) *addonsv1.ArtifactStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	if entry.source != source {
		return nil
	}
	return entry.artifact.DeepCopy()
}

// retain drops the references that a HelmOp does not have any more.
func (s *resolutionSchedule) retain(helmOp types.NamespacedName, refs map[addonsv1.ArtifactReference]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.entries[helmOp], func(ref addonsv1.ArtifactReference, _ resolutionEntry) bool { return !refs[ref] })
}

// forget drops a HelmOp.
func (s *resolutionSchedule) forget(helmOp types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, helmOp)
}
