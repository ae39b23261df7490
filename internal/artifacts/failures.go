// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// Failure is the reason why a chart is not available.
type Failure struct {
	err error
	// Wait is the time until the next attempt; 0 or less if it is due.
	Wait time.Duration
}

// Error implements error.
func (e *Failure) Error() string { return e.err.Error() }

// Unwrap implements the interface of errors.Is.
func (e *Failure) Unwrap() error { return e.err }

// failures records which artifacts could not be fetched, by artifact, credentials and policy of signatures. All
// releases with the same artifact wait for the same next attempt, so that a thousand clusters do not cause a thousand
// requests.
type failures struct {
	mu    sync.Mutex
	byKey map[string]recordedFailure
}

type recordedFailure struct {
	err   error
	count int
	next  time.Time
}

func newFailures() *failures {
	return &failures{byKey: map[string]recordedFailure{}}
}

// record records the result of an attempt. It ignores an attempt for which the manager was busy.
func (f *failures) record(key string, err error, now time.Time) {
	if IsBusy(err) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, failure := range f.byKey {
		if now.Sub(failure.next) > time.Hour {
			delete(f.byKey, other) // no release has needed the artifact for an hour
		}
	}
	if err == nil {
		delete(f.byKey, key)
		return
	}
	count := f.byKey[key].count + 1
	delay := max(wait.Jitter(requeue.ResolveRetry(count), requeue.IntervalJitter), requeue.RetryAfter(err))
	f.byKey[key] = recordedFailure{err: err, count: count, next: now.Add(delay)}
}

// pending returns the last failure if its next attempt is not due yet; otherwise nil.
func (f *failures) pending(key string, now time.Time) *Failure {
	failure := f.failure(key, now)
	if failure == nil || failure.Wait <= 0 {
		return nil
	}
	return failure
}

// failure returns the last failure; nil if there is none.
func (f *failures) failure(key string, now time.Time) *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	failure, ok := f.byKey[key]
	if !ok {
		return nil
	}
	return &Failure{err: failure.err, Wait: failure.next.Sub(now)}
}

// isFailing reports whether the last attempt failed.
func (f *failures) isFailing(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.byKey[key]
	return ok
}
