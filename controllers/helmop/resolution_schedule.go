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

	// maxSharedAge bounds the age of an answer that another HelmOp was given.
	maxSharedAge = 10 * time.Minute
)

// resolutionSchedule remembers when each reference of each HelmOp is to be resolved again. It is kept in memory, not in the status: an
// unchanged fleet writes nothing. After a restart each reference is checked once.
type resolutionSchedule struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]map[addonsv1.ArtifactReference]resolutionEntry
	// answers are the last answers to questions that several HelmOps may have.
	answers map[question]sharedAnswer
}

// resolutionKey is a reference of a HelmOp: that of spec.source, or one beside it.
type resolutionKey struct {
	helmOp types.NamespacedName
	ref    addonsv1.ArtifactReference
}

// sharedAnswer is an answer and when it was given.
type sharedAnswer struct {
	Resolution
	at time.Time
}

// question is what a registry is asked, and with what. A change of any of it is asked at once.
type question struct {
	// source and access are digests.
	source, access string
	// request is the value of the annotation that asks to resolve now.
	request string
}

type resolutionEntry struct {
	question
	failures int
	// asked is when the last answer was given, next when it is to be asked again.
	asked, next time.Time
	// fixed is true if the answer can never change.
	fixed bool
	// artifact is the last answer for this source; nil if there was none.
	artifact *addonsv1.ArtifactStatus
	// said is what was said when the question was asked last.
	said verdict
}

// answers tells whether a question was asked already. One who does not ask to resolve now any more is content with what was found.
func (q question) answers(asked question) bool {
	return q.source == asked.source && q.access == asked.access && (asked.request == "" || q.request == asked.request)
}

// newResolutionSchedule remembers no answer.
func newResolutionSchedule() *resolutionSchedule {
	return &resolutionSchedule{
		entries: map[types.NamespacedName]map[addonsv1.ArtifactReference]resolutionEntry{}, answers: map[question]sharedAnswer{},
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

// due tells how long a reference needs not be resolved again; 0 or less is now. Known tells whether the status has what it
// stands for: a success that could not be written down is no success.
func (s *resolutionSchedule) due(key resolutionKey, asked question, known bool, now time.Time) (wait time.Duration, never bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	switch {
	case !ok, !entry.answers(asked):
		return 0, false
	case entry.failures == 0 && !known:
		return 0, false
	default:
		return entry.next.Sub(now), entry.fixed
	}
}

// record notes an attempt and returns how long to wait before the next; 0 is for ever. A registry that asks for a longer wait
// after a failure gets it.
func (s *resolutionSchedule) record(key resolutionKey, entry resolutionEntry, interval time.Duration, now time.Time, failed bool,
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
		// Nobody is to wait longer for a registry that is back than for one that was never away.
		delay = min(requeue.ResolveRetry(entry.failures), max(interval, requeue.MinResolveRetry))
		delay = max(wait.Jitter(delay, requeue.IntervalJitter), retryAfter)
	case !entry.fixed:
		delay = wait.Jitter(interval, requeue.IntervalJitter)
	}
	entry.asked, entry.next = now, now.Add(delay)
	s.set(key, entry)
	return delay
}

// share notes an answer for other HelmOps with the same question. Who signed it is not shared: it may be known from the status
// of one HelmOp, which must not vouch to others.
func (s *resolutionSchedule) share(asked question, found Resolution, now time.Time) {
	found.signed = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for known, answer := range s.answers {
		if now.Sub(answer.at) > maxSharedAge {
			delete(s.answers, known)
		}
	}
	asked.request = ""
	s.answers[asked] = sharedAnswer{Resolution: found, at: now}
}

// shared returns what another HelmOp was answered lately to the question that a HelmOp asks again and again, and when. HelmOps
// whose answers have come together stay together: fifty of them cost the registry what one does. It is for HelmOps that
// know an answer already, from before a restart or the last interval: one that asks for the first time, after a failure or
// because it was told to, asks itself.
func (s *resolutionSchedule) shared(key resolutionKey, asked question, interval time.Duration, now time.Time) (sharedAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	if ok && (entry.failures > 0 || !entry.answers(asked)) {
		return sharedAnswer{}, false
	}
	asked.request = ""
	answer, ok := s.answers[asked]
	age := now.Sub(answer.at)
	return answer, ok && answer.at.After(entry.asked) && age < min(maxSharedAge, time.Duration(float64(interval)*requeue.IntervalJitter))
}

// remember notes the answer to what was asked last.
func (s *resolutionSchedule) remember(key resolutionKey, artifact *addonsv1.ArtifactStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	entry.artifact = artifact.DeepCopy()
	s.set(key, entry)
}

// say notes what was said when the question was asked last.
func (s *resolutionSchedule) say(key resolutionKey, said verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	entry.said = said
	s.set(key, entry)
}

// said returns what was said when a question was asked last, and whether asking had failed. ok is false if it was never asked.
func (s *resolutionSchedule) said(key resolutionKey, asked question) (said verdict, failing, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entry(key)
	if !ok || !entry.answers(asked) {
		return verdict{}, false, false
	}
	return entry.said, entry.failures > 0, true
}

// answer returns the last answer for a source, nil if there is none.
func (s *resolutionSchedule) answer(key resolutionKey, source string) *addonsv1.ArtifactStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, _ := s.entry(key)
	if entry.source != source {
		return nil
	}
	return entry.artifact.DeepCopy()
}

// retain forgets the references of a HelmOp that it does not have any more.
func (s *resolutionSchedule) retain(helmOp types.NamespacedName, refs map[addonsv1.ArtifactReference]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.entries[helmOp], func(ref addonsv1.ArtifactReference, _ resolutionEntry) bool { return !refs[ref] })
}

// forget forgets a HelmOp.
func (s *resolutionSchedule) forget(helmOp types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, helmOp)
}
