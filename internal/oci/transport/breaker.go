// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import "time"

const (
	// breakerLimit is the number of requests in a row without a connection or an answer after which
	// requests to a host are refused.
	breakerLimit = 3
	// breakerPause is how long requests to the host are refused, with a jitter of 20 % either way.
	breakerPause = 10 * time.Second
)

// outcome classifies the result of a request for the breaker of its host.
type outcome int

const (
	// outcomeNone proves nothing about the host: the caller gave up, or its deadline was too short.
	outcomeNone outcome = iota
	// outcomeAnswer is any answer, also an error status.
	outcomeAnswer
	// outcomeNoAnswer is a refused connection, or no answer in time.
	outcomeNoAnswer
)

// breaker is a circuit breaker for one host. It lets callers fail at once instead of waiting for a
// host that does not answer. After a pause one probe request is admitted, and its outcome decides
// about the others. Callers pass the current time.
type breaker struct {
	// unanswered counts the requests in a row without an answer.
	unanswered int
	// until is the end of the pause; zero without a pause.
	until time.Time
	// probing is set while the probe request after a pause is running.
	probing bool
	// last describes the last failure.
	last string
}

// closed reports whether all requests are admitted.
func (b *breaker) closed() bool { return b.unanswered < breakerLimit }

// refuses reports whether a request is refused at the given time, and for how long. A request with
// an alternative host is refused after a single failure, because the alternative may answer at
// once.
func (b *breaker) refuses(now time.Time, alternative bool) (wait time.Duration, refused bool) {
	if b.closed() && !alternative {
		return 0, false
	}
	wait = max(0, b.until.Sub(now))
	return wait, wait > 0 || b.probing
}

// begin must be called for each admitted request. It returns whether the request is the probe; pass
// the result to report.
func (b *breaker) begin() (probe bool) {
	probe = !b.closed()
	b.probing = b.probing || probe
	return probe
}

// report must be called at the end of each admitted request. spread is a random number in [0, 1).
func (b *breaker) report(now time.Time, probe bool, result outcome, spread float64) {
	if probe {
		b.probing = false
	}
	switch result {
	case outcomeAnswer:
		b.unanswered, b.probing, b.until = 0, false, time.Time{}
	case outcomeNoAnswer:
		if !b.closed() && !probe {
			return // the request began before the pause
		}
		b.unanswered++
		b.until = now.Add(time.Duration(float64(breakerPause) * (0.8 + 0.4*spread)))
	}
}
