// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"math"
	"testing"
	"time"
)

func TestExponential(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		first, longest time.Duration
		doublings      int
		want           time.Duration
	}{
		{time.Second, time.Minute, math.MinInt, time.Second},
		{time.Second, time.Minute, -1, time.Second},
		{time.Second, time.Minute, 0, time.Second},
		{time.Second, time.Minute, 1, 2 * time.Second},
		{time.Second, time.Minute, 5, 32 * time.Second},
		{time.Second, time.Minute, 6, time.Minute},
		{time.Second, time.Minute, 64, time.Minute},
		{time.Second, time.Minute, math.MaxInt, time.Minute},
		{time.Second, 8 * time.Second, 3, 8 * time.Second},
		{time.Minute, time.Second, 0, time.Second},
	} {
		if got := Exponential(test.first, test.longest, test.doublings); got != test.want {
			t.Errorf("Exponential(%s, %s, %d) = %s, want %s", test.first, test.longest, test.doublings, got, test.want)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	different := map[time.Duration]bool{}
	for range 100 {
		wait := Spread(time.Minute)
		if wait < 30*time.Second || wait >= 90*time.Second {
			t.Fatalf("the wait is %s", wait)
		}
		different[wait] = true
	}
	if len(different) < 90 {
		t.Errorf("only %d different waits", len(different))
	}
}
