// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// maxSharedAge is the longest time for which HelmOps share a result.
const maxSharedAge = 10 * time.Minute

// schedule holds the time of the next lookup and the last result, for each reference of each HelmOp. It is in memory
// and not in the status, so that a fleet without changes writes nothing. After a restart, each reference is looked up
// once.
type schedule struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]map[addonsv1.ArtifactReference]scheduleEntry
	// shares holds the last results that several HelmOps can share.
	shares map[lookupKey]sharedResult
}

// referenceKey identifies a reference of a HelmOp: the reference in spec.source, or another one.
type referenceKey struct {
	helmOp types.NamespacedName
	ref    addonsv1.ArtifactReference
}

// sharedResult is a result and its time.
type sharedResult struct {
	resolved
	at time.Time
}

// lookupKey identifies the inputs of a lookup. After a change of any field, a lookup is due at once.
type lookupKey struct {
	// source and access are digests.
	source, access string
	// request is the value of the annotation that requests a lookup.
	request string
}

type scheduleEntry struct {
	lookupKey
	failures int
	// last is the time of the last result, and next the time of the next lookup.
	last, next time.Time
	// fixed is true if the result can never change.
	fixed bool
	// artifact is the last artifact of this source; nil if there is none.
	artifact *addonsv1.ArtifactStatus
	// lastResult is the result of the last lookup.
	lastResult lookupResult
}

// covers reports whether the result of a lookup with this key is valid for another key. The removal of a request needs
// no new lookup.
func (q lookupKey) covers(other lookupKey) bool {
	return q.source == other.source && q.access == other.access && (other.request == "" || q.request == other.request)
}

func newSchedule() *schedule {
	return &schedule{
		entries: map[types.NamespacedName]map[addonsv1.ArtifactReference]scheduleEntry{},
		shares:  map[lookupKey]sharedResult{},
	}
}

// entry returns the entry of a reference. ok is false if there is none. The caller holds mu.
func (s *schedule) entry(key referenceKey) (scheduleEntry, bool) {
	entry, ok := s.entries[key.helmOp][key.ref]
	return entry, ok
}

// set stores the entry of a reference. The caller holds mu.
func (s *schedule) set(key referenceKey, entry scheduleEntry) {
	if s.entries[key.helmOp] == nil {
		s.entries[key.helmOp] = map[addonsv1.ArtifactReference]scheduleEntry{}
	}
	s.entries[key.helmOp][key.ref] = entry
}

// due returns the time until the next lookup of a reference; 0 or less means now. known is true if there is a last
// known artifact. Without one, a lookup is due even after a success.
func (s *schedule) due(key referenceKey, current lookupKey, known bool,
	now time.Time,
) (wait time.Duration, never bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	switch {
	case !ok, !entry.covers(current):
		return 0, false
	case entry.failures == 0 && !known:
		return 0, false
	default:
		return entry.next.Sub(now), entry.fixed
	}
}

// record records that a lookup ended, and returns the time until the next lookup; 0 means never. After a failure, the
// time is at least retryAfter, which a registry may have requested.
func (s *schedule) record(key referenceKey, entry scheduleEntry, interval time.Duration, now time.Time,
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
	entry.last, entry.next = now, now.Add(delay)
	s.set(key, entry)
	return delay
}

// share stores a result for other HelmOps with the same key. It does not share the signers: they may come from the
// status of one HelmOp, which other HelmOps must not trust.
func (s *schedule) share(key lookupKey, found resolved, now time.Time) {
	found.signed = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, result := range s.shares {
		if now.Sub(result.at) > maxSharedAge {
			delete(s.shares, other)
		}
	}
	key.request = ""
	s.shares[key] = sharedResult{resolved: found, at: now}
}

// shared returns the recent result of another HelmOp with the same key. HelmOps that got a result at the same time
// continue to share results. So fifty of them send as many requests to the registry as one HelmOp.
//
// Only a HelmOp that already has an artifact uses a shared result. The artifact may be from before a restart or from
// the last interval. A HelmOp sends its own request for a first lookup, for a lookup after a failure, and for a
// requested lookup.
func (s *schedule) shared(key referenceKey, current lookupKey, interval time.Duration,
	now time.Time,
) (sharedResult, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	if ok && (entry.failures > 0 || !entry.covers(current)) {
		return sharedResult{}, false
	}
	current.request = ""
	result, ok := s.shares[current]
	age := now.Sub(result.at)
	return result, ok && result.at.After(entry.last) &&
		age < min(maxSharedAge, time.Duration(float64(interval)*requeue.IntervalJitter))
}

// setArtifact stores the artifact of the last lookup.
func (s *schedule) setArtifact(key referenceKey, artifact *addonsv1.ArtifactStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	entry.artifact = artifact.DeepCopy()
	s.set(key, entry)
}

// setLastResult stores the result of the last lookup.
func (s *schedule) setLastResult(key referenceKey, result lookupResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	entry.lastResult = result
	s.set(key, entry)
}

// lastResult returns the result of the last lookup with the same key. failed is true if the lookup failed. ok is false
// if there was no such lookup.
func (s *schedule) lastResult(key referenceKey, current lookupKey) (result lookupResult, failed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	if !ok || !entry.covers(current) {
		return lookupResult{}, false, false
	}
	return entry.lastResult, entry.failures > 0, true
}

// lastArtifact returns the last artifact of a source; nil if there is none.
func (s *schedule) lastArtifact(key referenceKey, source string) *addonsv1.ArtifactStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	if entry.source != source {
		return nil
	}
	return entry.artifact.DeepCopy()
}

// retain drops the entries of references that a HelmOp no longer has.
func (s *schedule) retain(helmOp types.NamespacedName, refs map[addonsv1.ArtifactReference]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.entries[helmOp], func(ref addonsv1.ArtifactReference, _ scheduleEntry) bool { return !refs[ref] })
}

// forget drops the entries of a HelmOp.
func (s *schedule) forget(helmOp types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, helmOp)
}
