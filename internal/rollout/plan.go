// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"
)

// plan holds the working state of Plan.
type plan struct {
	in    *Input
	state State

	// goal is the desired revision of the Clusters: the current revision, or the last known good revision after a rollback
	// or an abort.
	goal    int64
	givenUp bool

	// standings are the standings of the Clusters. groups and total count them. groups are the waves, and a last group for
	// the Clusters in no wave.
	standings []standing
	groups    []tally
	total     tally

	// isKnown is true if the desired release of at least one Cluster is known.
	isKnown bool

	// closed is the index of the last closed wave, and promoted the index of the last promoted wave; -1 if there is none.
	// A wave is closed when a Cluster of a later wave was updated.
	closed, promoted int

	// wave is the index of the first group that has not passed. Groups include the Clusters in no wave.
	wave int

	// stuck counts the Clusters that cannot return, because their release under the last known good revision is unknown.
	stuck int

	// deletions counts the releases that are being uninstalled, including replaced releases.
	deletions *deletions

	requeueAfter time.Duration
}

// Plan returns the next step of each Cluster. It does not change its input. Its time is linear in the number of
// Clusters.
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
	p.setGoal()
	p.countStandings()
	if phase := p.state.Phase; p.advance() != phase {
		p.setGoal()
		p.countStandings()
	}
	p.findCurrentWave()

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

// setGoal sets the goal.
func (p *plan) setGoal() {
	p.goal = p.state.Goal()
	p.givenUp = p.goal != p.state.Revision
}

// isUnapproved reports whether the goal must not be assigned to any Cluster yet. The last known good revision needs no
// approval.
func (p *plan) isUnapproved() bool {
	return p.in.Unapproved && !p.givenUp
}

// isGoalUnapproved reports whether the release of a Cluster in the goal is not approved. If this plan changes the goal,
// the approvals for the new goal are not known.
func (p *plan) isGoalUnapproved(c *Cluster) bool {
	return c.GoalUnapproved && p.goal == p.in.State.Goal()
}

// advance sets and returns the phase of the rollout. Final phases do not change.
func (p *plan) advance() Phase {
	s := &p.state
	if s.Phase != PhaseProgressing && s.Phase != PhasePaused {
		return s.Phase
	}
	failed := p.total.by[standingFailed]
	s.Acknowledged = min(s.Acknowledged, failed+p.total.unrepaired)
	switch {
	case p.in.Requests.Abort && s.Good != 0:
		s.Phase, s.Reason = PhaseAborted, fmt.Sprintf(
			"the annotation rollout-abort is set; the last known good revision is %d",
			s.Good,
		)
		return s.Phase
	case p.in.Requests.Abort:
		s.Phase, s.Reason = PhasePaused, "the annotation rollout-abort is set, but there is no last known "+
			"good revision to return to; "+
			"remove it, and then set rollout-continue to continue"
		return s.Phase
	case p.in.Requests.Continue:
		s.Phase, s.Reason, s.Acknowledged = PhaseProgressing, "", max(s.Acknowledged, failed)
	}
	spent := p.in.Strategy.Budgeted && failed-s.Acknowledged >= p.maxFailures()
	switch {
	case spent && p.in.Strategy.Rollback && s.Good != 0:
		s.Phase, s.Reason = PhaseRolledBack, p.budgetSpent()
	case s.Phase == PhasePaused:
		// Only a request to continue resumes a paused rollout, even if the failures were repaired.
	case spent && p.in.Strategy.Rollback:
		s.Phase, s.Reason = PhasePaused, p.budgetSpent()+"; there is no last known good revision to return to"
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

// isComplete reports whether nothing is left to do and enough Clusters are done. At least one Cluster must be done. At
// least as many Clusters must be done as could not be updated or became unreachable after their update. Otherwise a
// short network outage would complete the rollout, and most Clusters would be updated without waves and budget.
// clusterctl move unpauses Clusters one by one, and would have the same effect, as would the takeover of one release
// after the other with the first revision after a restore. The rollout is also not complete in
// these cases: Clusters that could not be updated are in a wave after one that needs a promotion, no desired release is
// known, the revision is not approved, or Clusters wait for maintenance at a known time. The failure budget must
// protect these Clusters too.
func (p *plan) isComplete() bool {
	by := &p.total.by
	done := by[standingDone] + by[standingJoined]
	isDone := !p.in.Unapproved && p.total.unfinished()+by[standingDeferred] == 0 && done > 0 &&
		done >= p.total.untried() &&
		(by[standingDone] > 0 || by[standingJoining] == 0) && (p.isKnown || by[standingUnknown] == 0)
	return isDone && !p.isBehindPromotion()
}

// isBehindPromotion reports whether Clusters that could not be updated are in a wave after one that has not passed.
func (p *plan) isBehindPromotion() bool {
	p.findCurrentWave()
	for group := p.wave + 1; group < len(p.groups); group++ {
		if p.groups[group].outdated() > 0 {
			return true
		}
	}
	return false
}

// findCurrentWave finds the first group that has not passed. If this is the last group, all groups may be updated.
func (p *plan) findCurrentWave() {
	waves := p.in.Strategy.Waves
	p.closed, p.promoted = waveNamed(waves, p.state.Passed), waveNamed(waves, p.in.Requests.Promoted)
	p.wave = p.closed + 1
	for p.wave < len(waves) && p.isPassed(p.wave) {
		p.wave++
	}
}

// isPassed reports whether the next wave may begin. Clusters that wait for maintenance at a known time delay their wave
// until a promotion.
func (p *plan) isPassed(wave int) bool {
	group, promoted := &p.groups[wave], wave <= p.promoted
	return group.unfinished() == 0 && (promoted || p.isSuccessful(wave) && group.by[standingDeferred] == 0 &&
		!p.in.Strategy.Waves[wave].Manual)
}

// isSuccessful reports whether a finished wave allows the next wave without a promotion. A wave in which no Cluster
// counts allows it. A wave in which all Clusters failed allows it only if the failures were acknowledged. If no Cluster
// is done and a Cluster waits for a dependency, the wave does not allow it: if several dependent HelmOps change at
// once, later waves would begin before this wave. A wave with Clusters that became unreachable after their update does
// not allow it, because a broken CNI has this effect. If no Cluster is done, the wave does not allow it while a Cluster
// waits for an approval or for maintenance, or for an adoption that would change its release. The same applies if the
// release of a new Cluster has another owner: a user may permit the takeover in a later wave first.
func (p *plan) isSuccessful(wave int) bool {
	by, allReachable := &p.groups[wave].by, p.groups[wave].unreachable() == 0
	acknowledged := by[standingFailed] > 0 && p.total.by[standingFailed] <= p.state.Acknowledged && allReachable
	isEmpty := by[standingFailed]+by[standingExcused]+by[standingBlocked]+by[standingUnknown]+by[standingUnapproved]+
		by[standingAdoptionHeld]+by[standingConflict]+by[standingDeferred]+by[standingVetoed] == 0 && allReachable
	return by[standingDone] > 0 || acknowledged || isEmpty
}

// waveNamed returns the index of a wave; -1 if there is none.
func waveNamed(waves []Wave, name string) int {
	for i := range waves {
		if name != "" && waves[i].Name == name {
			return i
		}
	}
	return -1
}

// isHeld reports whether no Cluster may get another revision.
func (p *plan) isHeld() bool {
	return p.in.Strategy.Paused || p.isUnapproved() || p.state.Phase == PhasePaused ||
		!p.givenUp && (p.state.Phase == PhaseRolledBack || p.state.Phase == PhaseAborted)
}
