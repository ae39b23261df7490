// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"
	"time"
)

func TestSlope(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	line := func(values ...float64) (samples []sample) {
		for i, value := range values {
			samples = append(samples, sample{at: noon.Add(time.Duration(i) * 6 * time.Minute), heap: value})
		}
		return samples
	}
	for name, test := range map[string]struct {
		samples []sample
		want    float64
	}{
		"nothing": {nil, 0},
		"one":     {line(5), 0},
		"flat":    {line(5, 5, 5), 0},
		"grows":   {line(5, 6, 7, 8), 10},
		"noise":   {line(5, 6, 5, 6, 5), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := slope(test.samples, func(s sample) float64 { return s.heap }); math.Abs(got-test.want) > 1e-6 {
				t.Errorf("%f per hour, want %f", got, test.want)
			}
		})
	}
	if got := warm(line(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)); len(got) != 8 || got[0].heap != 3 {
		t.Errorf("after the warm-up: %v", got)
	}
}
