// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import "time"

// trouble is an error that prevents following an object, and its begin. The zero value means no error.
type trouble struct {
	err   error
	since time.Time
	// lasts is whether those concerned are asked for because it has lasted for long.
	lasts bool
}

// set takes the error of another try that failed, and reports whether it is news.
func (t *trouble) set(err error) bool {
	if t.err == nil {
		*t = trouble{since: time.Now()}
	}
	news := t.err == nil || t.err.Error() != err.Error()
	t.err = err
	return news
}

// isStuck reports whether the error has lasted long.
func (t *trouble) isStuck(after time.Duration) bool {
	t.lasts = t.err != nil && time.Since(t.since) >= after
	return t.lasts
}

// older returns the one of two that began first.
func (t trouble) older(other trouble) trouble {
	if t.err == nil || other.err != nil && other.since.Before(t.since) {
		return other
	}
	return t
}

// stuckLocked requests a release because of a lasting error: once for all streams, and once more if an error later
// affects objects whose health is followed.
func (w *Watcher) stuckLocked(r *release) {
	worst, health := r.trouble()
	if !worst.since.Equal(r.stuckSince) || health.isStuck(w.stuckAfter) && !health.since.Equal(r.healthStuckSince) {
		r.stuckSince, r.healthStuckSince = worst.since, health.since
		w.notifier.changed(r.key)
	}
}
