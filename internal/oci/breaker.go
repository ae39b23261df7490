// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import "time"

const (
	// breakerLimit is how many requests in a row must fail to connect, or stay
	// unanswered, before a host is left alone.
	breakerLimit = 3
	// breakerPause is for how long, spread by a fifth either way.
	breakerPause = 10 * time.Second
)

// outcome is what a request told about its host.
type outcome int

const (
	// outcomeNone says nothing: the caller left, or had no time.
	outcomeNone outcome = iota
	// outcomeAnswer is any answer, a refusal too.
	outcomeAnswer
	// outcomeSilence is a connection that was refused, or no answer in time.
	outcomeSilence
)

// breaker lets callers fail at once that would wait for a host which does not
// answer. After a pause one request is let through; its outcome decides about
// the others. It is no clock: the time comes in.
type breaker struct {
	// silent counts the requests in a row that got no answer.
	silent int
	// until is the end of the pause, if there is one.
	until time.Time
	// probing is set while the one request after a pause is under way.
	probing bool
	// last describes the last failure.
	last string
}

// closed says whether requests pass freely.
func (b *breaker) closed() bool { return b.silent < breakerLimit }

// refuses returns whether a request would be refused now, and for how long. One
// that may as well be sent elsewhere is refused after a single failure: it would
// wait in vain while others could answer.
func (b *breaker) refuses(now time.Time, alternative bool) (wait time.Duration, refused bool) {
	if b.closed() && !alternative {
		return 0, false
	}
	wait = max(0, b.until.Sub(now))
	return wait, wait > 0 || b.probing
}

// begin is called for each request that refuses does not refuse. It returns
// whether the request is the probe, which report wants to know.
func (b *breaker) begin() (probe bool) {
	probe = !b.closed()
	b.probing = b.probing || probe
	return probe
}

// report is called at the end of each request that began. spread is a random
// number from 0 up to 1.
func (b *breaker) report(now time.Time, probe bool, result outcome, spread float64) {
	if probe {
		b.probing = false
	}
	switch result {
	case outcomeAnswer:
		b.silent, b.probing, b.until = 0, false, time.Time{}
	case outcomeSilence:
		if !b.closed() && !probe {
			return // it began before the pause and tells nothing new
		}
		b.silent++
		b.until = now.Add(time.Duration(float64(breakerPause) * (0.8 + 0.4*spread)))
	}
}
