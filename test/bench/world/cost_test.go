// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import "testing"

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
