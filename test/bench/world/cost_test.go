// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"
	"time"
)

func TestSettledMemory(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		samples []int64
		want    bool
	}{
		"too few":                       {[]int64{100, 100, 100}, false},
		"even":                          {[]int64{100, 100, 100, 100}, true},
		"it fell earlier":               {[]int64{900, 500, 100, 100, 100, 100}, true},
		"it falls":                      {[]int64{130, 120, 110, 100}, false},
		"it falls in the end":           {[]int64{100, 100, 100, 90}, false},
		"it grows":                      {[]int64{100, 110, 120, 130}, true},
		"pages are returned one by one": {[]int64{100, 99, 99, 98}, true},
		"garbage comes and goes":        {[]int64{100, 125, 120, 100}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isSettled(tc.samples, 4); got != tc.want {
				t.Errorf("isSettled(%v) is %t", tc.samples, got)
			}
		})
	}
}

// TestIntervalFor checks that a wait reads the metrics rarely while its end is far, and often before its end.
func TestIntervalFor(t *testing.T) {
	t.Parallel()
	for waiting, want := range map[float64]time.Duration{
		0: metricsInterval, manyWaiting: metricsInterval, manyWaiting + 1: busyInterval, 5000: busyInterval,
	} {
		if got := intervalFor(waiting); got != want {
			t.Errorf("the time until the next read is %s with %.0f waiting releases, want %s", got, waiting, want)
		}
	}
}
