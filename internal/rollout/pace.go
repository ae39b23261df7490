// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// pacing is the order in which the Clusters of a wave are updated.
type pacing uint8

const (
	paceLate pacing = iota
	paceNotReady
	paceReady
	pacings
)

func (p *plan) pacing(c *Cluster) pacing {
	switch {
	case p.isLate(c):
		return paceLate
	case c.Health != HealthReady:
		return paceNotReady
	default:
		return paceReady
	}
}

// pace assigns the goal to Clusters, in the order of the waves and within the limits.
func (p *plan) pace(steps []Step) {
	if p.isHeld() || p.total.by[standingPending] == 0 {
		return
	}
	last := len(p.groups) - 1
	if p.state.Phase == PhaseProgressing {
		last = p.wave
	}
	for group := 0; group <= last; group++ {
		assigned := 0
		for order := range pacings {
			assigned += p.paceGroup(group, order, steps)
		}
		if assigned > 0 && group-1 > p.closed && p.state.Phase == PhaseProgressing {
			p.closed = group - 1
			p.state.Passed = p.in.Strategy.Waves[p.closed].Name
		}
	}
}

// paceGroup assigns the goal to the Clusters of one group with one pacing, until no slot is free. It returns the number
// of assigned Clusters.
func (p *plan) paceGroup(group int, order pacing, steps []Step) int {
	assigned := 0
	if order == paceLate && p.groups[group].late == 0 {
		return 0
	}
	for i := 0; i < len(steps) && p.groups[group].by[standingPending] > 0 && p.hasRoom(group, order == paceLate); i++ {
		c := &p.in.Clusters[i]
		if p.standings[i] != standingPending || c.Child == nil || p.group(c) != group || p.pacing(c) != order {
			continue
		}
		next := p.assign(c, "the Cluster is outdated")
		if c.Child.AwaitsAdoption {
			next.Joined, next.Adopts, next.Why = false, true, "the release is not of this child and is adopted"
		}
		if next.Action == ActionReplace {
			if !p.deletions.hasRoom(c) {
				continue
			}
			p.deletions.begin(c)
		}
		steps[i] = next
		p.move(i, standingInFlight)
		assigned++
	}
	return assigned
}

// hasRoom reports whether the limits allow one more Cluster of a group. Late Clusters already take their slots, because
// they are unavailable. So their slots are free for themselves but not for other Clusters.
func (p *plan) hasRoom(group int, isLate bool) bool {
	if !isBelow(p.in.Strategy.MaxUnavailable, &p.total, isLate) {
		return false
	}
	return group >= len(p.in.Strategy.Waves) ||
		isBelow(p.in.Strategy.Waves[group].MaxUnavailable, &p.groups[group], isLate)
}

func isBelow(limit Limit, t *tally, isLate bool) bool {
	taken := t.usedSlots()
	if !isLate {
		taken += t.late
	}
	return taken < limit.Of(t.selected)
}

// soaked reports whether a ready Cluster was ready for its whole soak time. If it was not, soaked schedules the next
// plan.
func (p *plan) soaked(c *Cluster) bool {
	soak := p.soak(p.group(c))
	if soak <= 0 {
		return true
	}
	left := soak
	if !c.ReadySince.IsZero() {
		left = c.ReadySince.Add(soak).Sub(p.in.Now)
	}
	if left <= 0 {
		return true
	}
	p.wakeAfter(left)
	return false
}

// wakeAfter schedules the next plan after a time or earlier.
func (p *plan) wakeAfter(left time.Duration) {
	if p.requeueAfter == 0 || left < p.requeueAfter {
		p.requeueAfter = left
	}
}

// wakeAt schedules the next plan at the time when a Cluster may be changed, or earlier.
func (p *plan) wakeAt(opens time.Time) { p.wakeAfter(max(time.Millisecond, opens.Sub(p.in.Now))) }

func (p *plan) soak(group int) time.Duration {
	if group < len(p.in.Strategy.Waves) {
		return p.in.Strategy.Waves[group].Soak
	}
	return p.in.Strategy.Soak
}
