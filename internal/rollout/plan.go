// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"
)

// plan is a plan in the making.
type plan struct {
	in    *Input
	state State

	// goal is the revision that the Clusters are to have: the last good one if that which is wanted was given up.
	goal    int64
	givenUp bool

	// standings are those of the Clusters, groups and total count them; groups are the waves, and last the Clusters in no wave.
	standings []standing
	groups    []tally
	total     tally

	// isKnown is true if what is wanted can be told for at least one Cluster.
	isKnown bool

	// left and promoted are the indices of the last wave that was left behind, and that was promoted; -1 if none was.
	left, promoted int

	// turn is the index of the group whose turn it is.
	turn int

	// stuck counts the Clusters that cannot return to the last good revision, because it cannot be told any more.
	stuck int

	// deletions counts the releases that are being uninstalled, the replaced ones included.
	deletions *deletions

	requeueAfter time.Duration
}

// Plan tells what is done for each Cluster now. It changes nothing of its input, and its time grows with the number of
// Clusters only.
func Plan(in Input) Result {
	p := &plan{
		in: &in, state: in.State,
		standings: make([]standing, len(in.Clusters)),
		groups:    make([]tally, len(in.Strategy.Waves)+1),
	}
	switch p.state.Phase {
	case PhaseComplete, PhasePaused, PhaseRolledBack, PhaseAborted:
	default:
		p.state.Phase = PhaseProgressing
	}
	p.aim()
	p.survey()
	if phase := p.state.Phase; p.advance() != phase {
		p.aim()
		p.survey()
	}
	p.findTurn()

	steps := make([]Step, len(in.Clusters))
	for i := range in.Clusters {
		steps[i] = p.decide(i)
	}
	p.deletions = newDeletions(in.Strategy, in.Clusters)
	p.paceReplacements(steps)
	p.pace(steps)
	p.deletions.pace(in.Clusters, steps, p.whyDeletionsWait(), p.leave)
	return Result{Steps: steps, State: p.state, Progress: p.progress(steps), RequeueAfter: p.requeueAfter}
}

// aim finds out which revision the Clusters are to have. One that was given up without a good one to return to stays.
func (p *plan) aim() {
	p.goal = p.state.Revision
	p.givenUp = (p.state.Phase == PhaseRolledBack || p.state.Phase == PhaseAborted) && p.state.Good != 0
	if p.givenUp {
		p.goal = p.state.Good
	}
}

// advance finds out what the rollout is about from now on. What is over stays over.
func (p *plan) advance() Phase {
	s := &p.state
	if s.Phase != PhaseProgressing && s.Phase != PhasePaused {
		return s.Phase
	}
	failed := p.total.by[standingFailed]
	s.Acknowledged = min(s.Acknowledged, failed)
	switch {
	case p.in.Requests.Abort && s.Good != 0:
		s.Phase, s.Reason = PhaseAborted, fmt.Sprintf("somebody asked to end the rollout; the last good revision is %d", s.Good)
		return s.Phase
	case p.in.Requests.Abort:
		s.Phase, s.Reason = PhasePaused, "somebody asked to end the rollout, but there is no good revision to return to; "+
			"no request to continue counts until the annotation that asks to end it is removed"
		return s.Phase
	case p.in.Requests.Continue:
		s.Phase, s.Reason, s.Acknowledged = PhaseProgressing, "", failed
	}
	spent := p.in.Strategy.Budgeted && failed-s.Acknowledged >= p.maxFailures()
	switch {
	case spent && p.in.Strategy.Rollback && s.Good != 0:
		s.Phase, s.Reason = PhaseRolledBack, p.budgetSpent()
	case s.Phase == PhasePaused:
		// It takes somebody to go on, even if the failures were mended since.
	case spent && p.in.Strategy.Rollback:
		s.Phase, s.Reason = PhasePaused, p.budgetSpent()+"; there is no good revision to return to"
	case spent:
		s.Phase, s.Reason = PhasePaused, p.budgetSpent()
	case p.isComplete():
		s.Phase, s.Reason = PhaseComplete, ""
	}
	return s.Phase
}

func (p *plan) maxFailures() int {
	return p.in.Strategy.MaxFailures.Of(p.total.selected)
}

func (p *plan) budgetSpent() string {
	return fmt.Sprintf("the failure budget is spent: %s failed, maxFailures is %d",
		clusters(p.total.by[standingFailed]-p.state.Acknowledged), p.maxFailures())
}

// isComplete tells if nothing is left to do and the revision has proven itself: somewhere, and in no fewer Clusters than those that
// could not be told of it, or do not answer since they were. Otherwise a network that is down for a minute, or clusterctl move, which unpauses one Cluster after the
// other, would end the rollout, and with it the waves and the budget, for most of the Clusters. Nor is it complete while those
// that could not be told are behind a wave that only a promotion opens, or while nobody can be told what it means.
func (p *plan) isComplete() bool {
	by := &p.total.by
	done := by[standingDone] + by[standingJoined]
	isDone := p.total.unfinished() == 0 && done > 0 && done >= p.total.untold()+p.total.silent() &&
		(by[standingDone] > 0 || by[standingJoining] == 0) && (p.isKnown || by[standingUnknown] == 0)
	return isDone && !p.isBehindPromotion()
}

// isBehindPromotion tells if Clusters that could not be told are behind a wave that was not passed.
func (p *plan) isBehindPromotion() bool {
	p.findTurn()
	for group := p.turn + 1; group < len(p.groups); group++ {
		if p.groups[group].untold() > 0 {
			return true
		}
	}
	return false
}

// findTurn finds the first group that is not passed; the last group is the turn of all.
func (p *plan) findTurn() {
	waves := p.in.Strategy.Waves
	p.left, p.promoted = waveNamed(waves, p.state.Passed), waveNamed(waves, p.in.Requests.Promoted)
	p.turn = p.left + 1
	for p.turn < len(waves) && p.isPassed(p.turn) {
		p.turn++
	}
}

// isPassed tells if the wave after a wave may begin.
func (p *plan) isPassed(wave int) bool {
	promoted := wave <= p.promoted
	return p.groups[wave].unfinished() == 0 && (promoted || p.isProven(wave) && !p.in.Strategy.Waves[wave].Manual)
}

// isProven tells if a finished wave speaks for the revision. A wave in which all failed does not, unless somebody asked to continue in
// spite of that. One that nobody counts in does; one that waits for HelmOps that come first does not: if several of them change at
// once, the later waves would overtake the first where it is needed most. One whose Clusters went dark when they were told does not
// either: a broken CNI shows itself like that. To go on nevertheless takes a promotion.
func (p *plan) isProven(wave int) bool {
	by, isLit := &p.groups[wave].by, p.groups[wave].silent() == 0
	acknowledged := by[standingFailed] > 0 && p.total.by[standingFailed] <= p.state.Acknowledged && isLit
	saysNothing := by[standingFailed]+by[standingExcused]+by[standingBlocked]+by[standingUnknown] == 0 && isLit
	return by[standingDone] > 0 || acknowledged || saysNothing
}

// waveNamed returns the index of a wave, or -1.
func waveNamed(waves []Wave, name string) int {
	for i := range waves {
		if name != "" && waves[i].Name == name {
			return i
		}
	}
	return -1
}

// isHeld tells if no Cluster is told of another revision than it has.
func (p *plan) isHeld() bool {
	return p.in.Strategy.Paused || p.state.Phase == PhasePaused ||
		!p.givenUp && (p.state.Phase == PhaseRolledBack || p.state.Phase == PhaseAborted)
}

// pace tells Clusters of the revision that they are to have, wave by wave and within the limits.
func (p *plan) pace(steps []Step) {
	if p.isHeld() || p.total.by[standingPending] == 0 {
		return
	}
	last := len(p.groups) - 1
	if p.state.Phase == PhaseProgressing {
		last = p.turn
	}
	for group := 0; group <= last; group++ {
		told := 0
		for place := range pacings {
			told += p.paceGroup(group, place, steps)
		}
		if told > 0 && group-1 > p.left && p.state.Phase == PhaseProgressing {
			p.left = group - 1
			p.state.Passed = p.in.Strategy.Waves[p.left].Name
		}
	}
}

// paceGroup tells as many Clusters of a group as there is room for, of those of one place in the order, and returns how many that were.
func (p *plan) paceGroup(group int, place pacing, steps []Step) int {
	told := 0
	if place == paceLate && p.groups[group].late == 0 {
		return 0
	}
	for i := 0; i < len(steps) && p.groups[group].by[standingPending] > 0 && p.hasRoom(group, place == paceLate); i++ {
		c := &p.in.Clusters[i]
		if p.standings[i] != standingPending || c.Child == nil || p.group(c) != group || p.pacing(c) != place {
			continue
		}
		next := p.tell(c, "another revision is wanted")
		if next.Action == ActionReplace {
			if !p.deletions.hasRoom(c) {
				continue
			}
			p.deletions.begin(c)
		}
		steps[i] = next
		p.move(i, standingInFlight)
		told++
	}
	return told
}

// hasRoom tells if one more Cluster of a group may be told within the limits. Those that are late are not available anyway: they hold
// their places against the others, and not against themselves.
func (p *plan) hasRoom(group int, isLate bool) bool {
	if !isBelow(p.in.Strategy.MaxUnavailable, &p.total, isLate) {
		return false
	}
	return group >= len(p.in.Strategy.Waves) || isBelow(p.in.Strategy.Waves[group].MaxUnavailable, &p.groups[group], isLate)
}

func isBelow(limit Limit, t *tally, isLate bool) bool {
	taken := t.taken()
	if !isLate {
		taken += t.late
	}
	return taken < limit.Of(t.selected)
}
