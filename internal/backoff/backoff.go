// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff computes the waits between tries of what fails again and again.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential returns the first wait, which must be positive, doubled a number of times, but no longer than the longest
// one. The number is that of the failures before this one.
func Exponential(first, longest time.Duration, doublings int) time.Duration {
	for ; doublings > 0 && first < longest; doublings-- {
		first *= 2
	}
	return min(first, longest)
}

// Spread returns a random wait from half to one and a half of the given one, so that many do not try again in the same
// moment.
func Spread(wait time.Duration) time.Duration { return wait/2 + rand.N(wait) }
