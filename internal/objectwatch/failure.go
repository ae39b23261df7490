// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import "time"

// failure is an error that prevents following an object, with the time when it began. The zero value means no error.
type failure struct {
	err   error
	since time.Time
}

// set records the error of another failed attempt, and reports whether it differs from the previous one.
func (t *failure) set(err error) bool {
	if t.err == nil {
		*t = failure{since: time.Now()}
	}
	news := t.err == nil || t.err.Error() != err.Error()
	t.err = err
	return news
}

// isStuck reports whether the error has lasted for a long time.
func (t failure) isStuck(after time.Duration) bool {
	return t.err != nil && time.Since(t.since) >= after
}

// older returns the failure that began first.
func (t failure) older(other failure) failure {
	if t.err == nil || other.err != nil && other.since.Before(t.since) {
		return other
	}
	return t
}

// releases is a set of releases.
type releases map[*release]struct{}

// requestLocked requests releases.
func (w *Watcher) requestLocked(concerned releases) {
	for r := range concerned {
		w.notifier.changed(r.key)
	}
}

// requestFailureLocked requests releases because of a lasting error. It does so once for all streams, and once more if
// an error later affects objects whose health is followed. It looks at all objects of each release, so callers must
// collect the releases first.
func (w *Watcher) requestFailureLocked(concerned releases) {
	for r := range concerned {
		worst, health := r.failure()
		if !worst.since.Equal(r.stuckSince) || health.isStuck(w.stuckAfter) && !health.since.Equal(r.healthStuckSince) {
			r.stuckSince, r.healthStuckSince = worst.since, health.since
			w.notifier.changed(r.key)
		}
	}
}
