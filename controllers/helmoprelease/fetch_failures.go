// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// fetchError is why a chart cannot be had, and how long not to try again.
type fetchError struct {
	err  error
	wait time.Duration
}

// Error implements error.
func (e *fetchError) Error() string { return e.err.Error() }

// Unwrap implements the interface of errors.Is.
func (e *fetchError) Unwrap() error { return e.err }

// fetchFailures remember which artifacts could not be had, and with which credentials and demands. All releases that want one
// wait for the same time, and the next try is one for all of them: a thousand clusters do not ask a thousand times.
type fetchFailures struct {
	mu       sync.Mutex
	failures map[string]fetchFailure
}

type fetchFailure struct {
	err   error
	count int
	next  time.Time
}

// newFetchFailures knows of no failure.
func newFetchFailures() *fetchFailures {
	return &fetchFailures{failures: map[string]fetchFailure{}}
}

// record notes how a try ended.
func (f *fetchFailures) record(key string, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, failure := range f.failures {
		if now.Sub(failure.next) > time.Hour {
			delete(f.failures, other) // nobody wants it any more
		}
	}
	if err == nil {
		delete(f.failures, key)
		return
	}
	count := f.failures[key].count + 1
	delay := max(wait.Jitter(requeue.ResolveRetry(count), requeue.IntervalJitter), requeue.RetryAfter(err))
	f.failures[key] = fetchFailure{err: err, count: count, next: now.Add(delay)}
}

// standing returns the last failure until the time of the next try; nil if there is none, or it is time.
func (f *fetchFailures) standing(key string, now time.Time) *fetchError {
	failure := f.failure(key, now)
	if failure == nil || failure.wait <= 0 {
		return nil
	}
	return failure
}

// failure returns the last failure; nil if there is none.
func (f *fetchFailures) failure(key string, now time.Time) *fetchError {
	f.mu.Lock()
	defer f.mu.Unlock()
	failure, ok := f.failures[key]
	if !ok {
		return nil
	}
	return &fetchError{err: failure.err, wait: failure.next.Sub(now)}
}

// isFailing tells whether the last try failed.
func (f *fetchFailures) isFailing(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.failures[key]
	return ok
}
