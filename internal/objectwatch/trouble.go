// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import "time"

// trouble is what stands in the way of following something, and since when. The zero trouble is none.
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

// isStuck reports whether the trouble has lasted for long.
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

// stuckLocked asks for a release because something has stood in its way for long: once, however many streams it is, and
// once more if later it comes to stand in the way of its health, too.
func (w *Watcher) stuckLocked(r *release) {
	worst, health := r.trouble()
	if !worst.since.Equal(r.stuckSince) || health.isStuck(w.stuckAfter) && !health.since.Equal(r.healthStuckSince) {
		r.stuckSince, r.healthStuckSince = worst.since, health.since
		w.notifier.changed(r.key)
	}
}
