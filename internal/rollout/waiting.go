// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"
)

// progress tells how far the rollout is with the steps of the plan.
func (p *plan) progress(steps []Step) Progress {
	by := &p.total.by
	progress := Progress{
		Wave:     p.turn,
		Done:     by[standingDone] + by[standingJoined],
		InFlight: by[standingInFlight] + by[standingJoining],
	}
	for i := range steps {
		c := &p.in.Clusters[i]
		switch {
		case c.Selected && !c.Gone && p.hasRevision(c, &steps[i]):
			progress.Updated++
		case IsLeaving(c) && steps[i].Action == ActionNone:
			progress.DeletionsWaiting++
		}
	}
	if p.givenUp || p.state.Phase == PhaseComplete {
		progress.Wave = len(p.groups)
	}
	if !p.givenUp {
		progress.Failed = by[standingFailed] - min(by[standingFailed], p.state.Acknowledged)
	}
	progress.WaitingFor, progress.Promote = p.waitingFor()
	return progress
}

// hasRevision tells if a Cluster has the revision that is wanted when its step is done.
func (p *plan) hasRevision(c *Cluster, s *Step) bool {
	switch s.Action {
	case ActionCreate, ActionUpdate:
		return s.Revision == p.state.Revision
	case ActionNone:
		return c.Child != nil && !c.Child.Deleting && c.Child.Revision == p.state.Revision
	default:
		return false
	}
}

// waitingFor tells what it takes to go on, and which wave only a promotion opens. It names no point in time, so that a status that
// says it changes only when something happened.
func (p *plan) waitingFor() (waitingFor, promote string) {
	by := &p.total.by
	switch {
	case p.givenUp:
		return p.waitingForReturn(), ""
	case p.state.Phase == PhaseComplete && by[standingPending] == 0, p.state.Phase == PhaseRolledBack, p.state.Phase == PhaseAborted:
		return "", ""
	case p.state.Phase == PhasePaused && p.in.Requests.Abort:
		return "the end of the request to end the rollout, and one to continue, or another revision", ""
	case p.state.Phase == PhasePaused:
		return "a request to continue, or another revision", ""
	case p.in.Strategy.Paused && by[standingPending] > 0:
		return fmt.Sprintf("the end of the pause: %s another revision", have(by[standingPending])), ""
	case p.state.Phase == PhaseComplete:
		return fmt.Sprintf("%s that could not be told before", clusters(by[standingPending])), ""
	case p.turn < len(p.in.Strategy.Waves):
		waitingFor, promote = p.waitingForWave()
	default:
		waitingFor = p.waitingForLast()
	}
	return waitingFor + p.holdingPlaces(), promote
}

// holdingPlaces tells who holds places within the limits without being waited for.
func (p *plan) holdingPlaces() string {
	text := ""
	switch n := p.total.silent(); n {
	case 0:
	case 1:
		text = "; 1 Cluster does not answer since it was told"
	default:
		text = fmt.Sprintf("; %d Clusters do not answer since they were told", n)
	}
	if p.total.late > 0 {
		text += fmt.Sprintf("; still on their way to an earlier revision: %s", clusters(p.total.late))
	}
	return text
}

func (p *plan) waitingForReturn() string {
	by := &p.total.by
	back := ""
	if n := by[standingInFlight] + by[standingPending]; n > 0 {
		back = fmt.Sprintf("%s to be ready with revision %d", clusters(n), p.goal)
	}
	if p.stuck == 0 {
		return back
	}
	if back != "" {
		back += "; "
	}
	return back + fmt.Sprintf("another revision: what %s had under revision %d cannot be told any more", clusters(p.stuck), p.goal)
}

// waitingForWave is about the wave whose turn it is, which is not passed.
func (p *plan) waitingForWave() (waitingFor, promote string) {
	wave, tally := &p.in.Strategy.Waves[p.turn], &p.groups[p.turn]
	of := " of wave " + wave.Name
	switch {
	case tally.unfinished() > 0:
		return waitingForGroup(tally, of, wave.Soak), ""
	case p.isProven(p.turn):
		return "the promotion of wave " + wave.Name, wave.Name
	case tally.by[standingBlocked] > 0:
		return fmt.Sprintf("HelmOps that come first, in %s%s", clusters(tally.by[standingBlocked]), of), wave.Name
	case tally.by[standingUnknown] > 0 && !p.isKnown:
		return unknownIn(tally, of), ""
	case tally.by[standingUnknown] > 0:
		return unknownIn(tally, of), wave.Name
	default:
		failed := tally.by[standingFailed] + tally.by[standingExcused]
		if failed == 0 {
			return fmt.Sprintf("a Cluster%s to be ready", of), wave.Name
		}
		return fmt.Sprintf("a Cluster%s to be ready: %s failed", of, clusters(failed)), wave.Name
	}
}

// waitingForLast is about the Clusters in no wave, or about all if every other is done.
func (p *plan) waitingForLast() string {
	by := &p.total.by
	last := &p.groups[len(p.groups)-1]
	done := by[standingDone] + by[standingJoined]
	switch {
	case last.unfinished() > 0 && len(p.groups) == 1:
		return waitingForGroup(last, "", p.in.Strategy.Soak)
	case last.unfinished() > 0:
		return waitingForGroup(last, " in no wave", p.in.Strategy.Soak)
	case p.total.unfinished() > 0:
		return fmt.Sprintf("%s of earlier waves to be ready", clusters(p.total.unfinished()))
	case by[standingJoining] > 0 && by[standingDone] == 0:
		return fmt.Sprintf("%s to be ready", clusters(by[standingJoining]))
	case by[standingUnknown] > 0 && !p.isKnown:
		return unknownIn(&p.total, "")
	case p.total.untold() > 0 && p.total.untold()+p.total.silent() > done:
		return p.waitingForUntold()
	case p.total.silent() > done && done > 0:
		return fmt.Sprintf("as many Clusters to be ready as do not answer: %d of %d", done, p.total.silent())
	case p.total.selected > 0:
		return fmt.Sprintf("a Cluster to be ready: none of %d is", p.total.selected)
	default:
		return "a Cluster: none is selected"
	}
}

func (p *plan) waitingForUntold() string {
	by := &p.total.by
	text := fmt.Sprintf("Clusters that cannot be told now: %d do not answer, %d wait for HelmOps that come first, %d are paused",
		by[standingAway], by[standingBlocked], by[standingPaused])
	if n := by[standingUnknown]; n > 0 {
		text += fmt.Sprintf(", and what the revision means for %d is not known", n)
	}
	return text
}

func waitingForGroup(t *tally, of string, soak time.Duration) string {
	how := ""
	if soak > 0 {
		how = " for " + soak.String()
	}
	return fmt.Sprintf("%d of %s%s to be ready%s", t.unfinished(), clusters(t.counting()), of, how)
}

func unknownIn(t *tally, of string) string {
	return fmt.Sprintf("what the revision means for %s%s: it cannot be told now", clusters(t.by[standingUnknown]), of)
}

func clusters(n int) string {
	if n == 1 {
		return "1 Cluster"
	}
	return fmt.Sprintf("%d Clusters", n)
}

func have(n int) string {
	if n == 1 {
		return "1 Cluster has"
	}
	return fmt.Sprintf("%d Clusters have", n)
}
