// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"testing"
	"time"
)

// TestSelf measures this process.
func TestSelf(t *testing.T) {
	t.Parallel()
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for begun, x := time.Now(), 0; time.Since(begun) < 100*time.Millisecond; x++ {
		_ = x
	}
	peak := FollowPeak(os.Getpid())
	after, err := CPU(os.Getpid())
	if err != nil || after <= before {
		t.Errorf("CPU %v, then %v, %v", before, after, err)
	}
	memory, err := Memory(os.Getpid())
	if err != nil || memory < 1<<20 {
		t.Errorf("memory %d, %v", memory, err)
	}
	if most := peak.Stop(); most != 0 && most < 1<<20 {
		t.Errorf("peak %d", most)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	metrics := Metrics(`# HELP up it is
up{cluster="a",zone="x"} 1
up{cluster="b",zone="x y"} 1
up{cluster="c",zone="z"} 2.5e+01
up_total 7
goroutines 12
`)
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"up", nil, 27}, {"up", []string{`cluster="b"`}, 1}, {"up", []string{`cluster="b"`, `zone="x"`}, 0},
		{"goroutines", nil, 12}, {"none", nil, 0},
	} {
		if got := metrics.Sum(test.name, test.labels...); got != test.want {
			t.Errorf("%s %v is %v, not %v", test.name, test.labels, got, test.want)
		}
	}
}
