// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// Failure is why there is no chart.
type Failure struct {
	err error
	// Wait is how long it takes until the next try; 0 or less if that is due.
	Wait time.Duration
}

// Error implements error.
func (e *Failure) Error() string { return e.err.Error() }

// Unwrap implements the interface of errors.Is.
func (e *Failure) Unwrap() error { return e.err }

// failures remember which artifacts could not be had, and with which credentials and demands. All releases that want
// one wait for the same time, and the next try is one for all of them: a thousand clusters do not ask a thousand times.
type failures struct {
	mu    sync.Mutex
	byKey map[string]keptFailure
}

type keptFailure struct {
	err   error
	count int
	next  time.Time
}

func newFailures() *failures {
	return &failures{byKey: map[string]keptFailure{}}
}

// record notes how a try ended.
func (f *failures) record(key string, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, failure := range f.byKey {
		if now.Sub(failure.next) > time.Hour {
			delete(f.byKey, other) // no release has asked for an hour
		}
	}
	if err == nil {
		delete(f.byKey, key)
		return
	}
	count := f.byKey[key].count + 1
	delay := max(wait.Jitter(requeue.ResolveRetry(count), requeue.IntervalJitter), requeue.RetryAfter(err))
	f.byKey[key] = keptFailure{err: err, count: count, next: now.Add(delay)}
}

// standing returns the last failure until the time of the next try; nil if there is none, or it is time.
func (f *failures) standing(key string, now time.Time) *Failure {
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

// isFailing reports whether the last try failed.
func (f *failures) isFailing(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.byKey[key]
	return ok
}
