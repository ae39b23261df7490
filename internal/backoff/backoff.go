// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff computes the waits between attempts after repeated failures. It does not count failures and does not
// wait. Callers pass the number of failures, and wait themselves.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential returns the wait before the next attempt: the first wait, doubled a number of times, but at most the
// longest wait. The first wait must be positive. The number of doublings is the number of failures before the current
// one.
func Exponential(first, longest time.Duration, doublings int) time.Duration {
	for ; doublings > 0 && first < longest; doublings-- {
		first *= 2
	}
	return min(first, longest)
}

// Spread returns a random wait between half and one and a half of the given wait, so that many clients do not try again
// at the same time.
func Spread(wait time.Duration) time.Duration { return wait/2 + rand.N(wait) }
