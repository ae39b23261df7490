// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import "time"

const (
	// breakerLimit is the number of consecutive requests without a response after which requests to a host are refused.
	breakerLimit = 3
	// breakerPause is how long requests to the host are refused. It has a jitter of 20 % in both directions.
	breakerPause = 10 * time.Second
)

// outcome is the result of a request for the breaker of its host.
type outcome int

const (
	// outcomeNone proves nothing about the host. The caller cancelled the request, or its deadline was too short.
	outcomeNone outcome = iota
	// outcomeAnswer is any response, also one with an error status.
	outcomeAnswer
	// outcomeNoAnswer is a refused connection, or no response in time.
	outcomeNoAnswer
)

// breaker is a circuit breaker for one host. If the host does not answer, callers fail at once and do not wait. After a
// pause, the breaker admits one probe request. If the host answers the probe, all requests are admitted again. The
// methods get the current time from the caller.
type breaker struct {
	// unanswered is the number of consecutive requests without a response.
	unanswered int
	// until is the end of the pause. It is zero if there is no pause.
	until time.Time
	// probing is true while the probe request after a pause runs.
	probing bool
	// last is the text of the last failure, for errors.
	last string
}

// closed reports whether all requests are admitted.
func (b *breaker) closed() bool { return b.unanswered < breakerLimit }

// refuses reports whether a request is refused at a time, and for how long. A request with an alternative host is
// refused after a single failure, because the alternative host may answer at once.
func (b *breaker) refuses(now time.Time, alternative bool) (wait time.Duration, refused bool) {
	if b.closed() && !alternative {
		return 0, false
	}
	wait = max(0, b.until.Sub(now))
	return wait, wait > 0 || b.probing
}

// begin must be called for each admitted request. It returns true if the request is the probe. Pass the result to
// report.
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
			return // this request began before the pause
		}
		b.unanswered++
		b.until = now.Add(time.Duration(float64(breakerPause) * (0.8 + 0.4*spread)))
	}
}
