// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"
	"time"
)

// bigFleet returns a fleet in the middle of a rollout: a tenth is done, some Clusters are in flight, the rest is
// pending.
func bigFleet(n int) Input {
	in := Input{
		Strategy: Strategy{MaxUnavailable: Limit{Percent: 5}, Budgeted: true, MaxFailures: Limit{Percent: 10}},
		State:    State{Revision: 7, Good: 6}, Now: testNow,
	}
	for i := range 16 {
		in.Strategy.Waves = append(in.Strategy.Waves, Wave{Name: fmt.Sprintf("wave%d", i), Soak: time.Minute})
	}
	for i := range n {
		revision, health := int64(6), HealthReady
		switch {
		case i < n/10:
			revision = 7
		case i < n/10+n/50:
			revision, health = 7, HealthProgressing
		}
		in.Clusters = append(in.Clusters, fleetMember(fmt.Sprintf("cluster%05d", i), 17*i/n, revision, health))
	}
	return in
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		in := bigFleet(n)
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Plan(in)
			}
		})
	}
}

// BenchmarkPlanIdle plans when nothing is left to do, which is the usual case.
func BenchmarkPlanIdle(b *testing.B) {
	in := bigFleet(10_000)
	in.State.Phase = PhaseComplete
	for i := range in.Clusters {
		in.Clusters[i] = fleetMember(in.Clusters[i].Name, in.Clusters[i].Wave, 7, HealthReady)
	}
	b.ReportAllocs()
	for b.Loop() {
		Plan(in)
	}
}

// TestPlanAllocates checks that a plan takes a few allocations, regardless of the number of Clusters.
func TestPlanAllocates(t *testing.T) {
	in := bigFleet(2_000)
	if allocs := testing.AllocsPerRun(10, func() { Plan(in) }); allocs > 20 {
		t.Errorf("%v allocations", allocs)
	}
}
