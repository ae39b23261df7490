// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo

import (
	"sync/atomic"
	"time"
)

// Clock is a clock for tests.
type Clock struct{ minutes atomic.Int64 }

// Step moves the clock beyond the time for which an index is used without a request.
func (c *Clock) Step() { c.minutes.Add(2) }

// UseClock gives a client a clock that does not advance by itself.
func UseClock(client *Client) *Clock {
	clock, start := &Clock{}, time.Now()
	client.now = func() time.Time { return start.Add(time.Duration(clock.minutes.Load()) * time.Minute) }
	return clock
}
