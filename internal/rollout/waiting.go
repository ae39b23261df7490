// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// progress returns the progress of the rollout after the steps of the plan.
func (p *plan) progress(steps []Step) Progress {
	by := &p.total.by
	progress := Progress{
		Wave:     p.wave,
		Done:     by[standingDone] + by[standingJoined],
		InFlight: by[standingInFlight] + by[standingJoining] + by[standingUnobserved],
	}
	for group := range p.groups {
		if p.isHeld() || p.state.Phase == PhaseProgressing && group > p.wave {
			break
		}
		if opens := p.groups[group].opens; !opens.IsZero() && (progress.Opens.IsZero() || opens.Before(progress.Opens)) {
			progress.Opens = opens
		}
	}
	for i := range steps {
		c := &p.in.Clusters[i]
		switch {
		case c.Selected && !c.Gone && !c.Deleting && p.hasRevision(c, &steps[i]):
			progress.Updated++
		case IsLeaving(c) && !c.Paused && steps[i].Action == ActionNone:
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

// hasRevision reports whether a Cluster has the current revision after its step. A Cluster whose release waits for its
// adoption does not have the revision yet.
func (p *plan) hasRevision(c *Cluster, s *Step) bool {
	if c.Child != nil && c.Child.AwaitsAdoption && !s.Adopts {
		return false
	}
	switch s.Action {
	case ActionCreate, ActionUpdate:
		return s.Revision == p.state.Revision
	case ActionNone:
		return c.Child != nil && !c.Child.Deleting && c.Child.Revision == p.state.Revision
	default:
		return false
	}
}

// waitingFor returns what the rollout waits for, and the wave that needs a promotion. The text contains no durations:
// the status changes only when something happens.
func (p *plan) waitingFor() (waitingFor, promote string) {
	by := &p.total.by
	switch {
	case p.givenUp:
		return p.waitingForReturn(), ""
	case p.in.Unapproved:
		return fmt.Sprintf("the approval of HelmOp revision %d", p.state.Revision), ""
	case p.state.Phase == PhaseComplete && by[standingPending] == 0,
		p.state.Phase == PhaseRolledBack,
		p.state.Phase == PhaseAborted:
		return "", ""
	case p.state.Phase == PhasePaused && p.in.Requests.Abort:
		return "the annotation rollout-abort to be removed and then rollout-continue to be set, " +
			"or for a change of the spec", ""
	case p.state.Phase == PhasePaused:
		return "the annotation rollout-continue, or for a change of the spec", ""
	case p.in.Strategy.Paused && by[standingPending] > 0:
		return fmt.Sprintf("spec.rollout.paused to be unset: %s outdated",
			plural.Count(by[standingPending], "Cluster is", "Clusters are")), ""
	case p.state.Phase == PhaseComplete:
		return fmt.Sprintf("%s that could not be updated before", clusters(by[standingPending])), ""
	case p.wave < len(p.in.Strategy.Waves):
		waitingFor, promote = p.waitingForWave()
	default:
		waitingFor = p.waitingForLast()
	}
	return waitingFor + p.slotHolders(), promote
}

// slotHolders returns a text with the Clusters that take slots although the rollout does not wait for them.
func (p *plan) slotHolders() string {
	text := ""
	switch n := p.total.unreachable(); n {
	case 0:
	case 1:
		text = "; 1 Cluster became unreachable after its update"
	default:
		text = fmt.Sprintf("; %d Clusters became unreachable after their update", n)
	}
	if p.total.late > 0 {
		text += fmt.Sprintf("; %s still being updated to an earlier HelmOp revision",
			plural.Count(p.total.late, "Cluster is", "Clusters are"))
	}
	return text
}

func (p *plan) waitingForReturn() string {
	by := &p.total.by
	back := ""
	if n := by[standingInFlight] + by[standingPending]; n > 0 {
		back = fmt.Sprintf("%s to be ready with HelmOp revision %d", clusters(n), p.goal)
	} else if by[standingDeferred] > 0 {
		back = maintenanceIn(&p.total)
	}
	if p.stuck == 0 {
		return back
	}
	if back != "" {
		back += "; "
	}
	return back + fmt.Sprintf(
		"a change of the spec: HelmOp revision %d can no longer be rendered for %s",
		p.goal,
		clusters(p.stuck),
	)
}

// waitingForWave returns what the first wave that has not passed waits for.
func (p *plan) waitingForWave() (waitingFor, promote string) {
	wave, tally := &p.in.Strategy.Waves[p.wave], &p.groups[p.wave]
	of := " of wave " + wave.Name
	switch {
	case tally.unfinished() > 0:
		return waitingForGroup(tally, of, wave.Soak), ""
	case tally.by[standingDeferred] > 0:
		return maintenanceIn(tally) + of, wave.Name
	case p.isSuccessful(p.wave):
		return "the promotion of wave " + wave.Name, wave.Name
	case tally.by[standingBlocked] > 0:
		return fmt.Sprintf("the dependencies in %s%s", clusters(tally.by[standingBlocked]), of), wave.Name
	case tally.by[standingUnapproved] > 0:
		return fmt.Sprintf("the approval of changes in %s%s", clusters(tally.by[standingUnapproved]), of), wave.Name
	case tally.by[standingAdoptionHeld] > 0:
		return fmt.Sprintf("%s%s, whose adoption would change releases", clusters(tally.by[standingAdoptionHeld]), of),
			wave.Name
	case tally.by[standingConflict] > 0:
		return fmt.Sprintf("%s%s with the release of another owner", clusters(tally.by[standingConflict]), of), wave.Name
	case tally.by[standingVetoed] > 0:
		return vetoIn(tally, of), wave.Name
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

// waitingForLast returns what the Clusters in no wave wait for. If these Clusters are done, it returns what the
// completion waits for.
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
	case by[standingDeferred] > 0:
		return maintenanceIn(&p.total)
	case by[standingJoining] > 0 && by[standingDone] == 0:
		return fmt.Sprintf("%s to be ready", clusters(by[standingJoining]))
	case by[standingUnknown] > 0 && !p.isKnown:
		return unknownIn(&p.total, "")
	case p.total.untried() > p.total.unreachable() && p.total.untried() > done:
		return p.waitingForOutdated()
	case p.total.unreachable() > done && done > 0:
		return fmt.Sprintf(
			"more ready Clusters: %d ready, and %d became unreachable after the update",
			done,
			p.total.unreachable(),
		)
	case p.total.selected > 0 && by[standingPinned] == p.total.selected:
		return "a Cluster that is not pinned"
	case p.total.selected > 0:
		return fmt.Sprintf("a Cluster to be ready: %d selected, 0 ready", p.total.selected)
	default:
		return "a Cluster to be selected"
	}
}

func (p *plan) waitingForOutdated() string {
	by := &p.total.by
	text := fmt.Sprintf("Clusters that cannot be updated now: %d unreachable, %d waiting for dependencies, %d paused",
		by[standingUnreachable], by[standingBlocked], by[standingPaused])
	if n := by[standingUnknown]; n > 0 {
		text += fmt.Sprintf(", %d with an unknown desired release", n)
	}
	if n := by[standingUnapproved]; n > 0 {
		text += fmt.Sprintf(", %d waiting for an approval", n)
	}
	if n := by[standingVetoed]; n > 0 {
		text += fmt.Sprintf(", %d waiting for maintenance without a known time", n)
	}
	if n := by[standingAdoptionHeld]; n > 0 {
		text += fmt.Sprintf(", %d whose adoption would change the release", n)
	}
	if n := by[standingConflict]; n > 0 {
		text += fmt.Sprintf(", %d with the release of another owner", n)
	}
	if n := by[standingUnread]; n > 0 {
		text += fmt.Sprintf(", %d in which HelmOp has not looked for a release yet", n)
	}
	return text
}

// maintenanceIn returns a text with the number of Clusters that must not be changed now although the rollout waits for
// them, and the time until which they must not be changed.
func maintenanceIn(t *tally) string {
	return fmt.Sprintf("maintenance (the next is at %s) in %s", t.opens.UTC().Format(time.RFC3339),
		clusters(t.by[standingDeferred]))
}

func vetoIn(t *tally, of string) string {
	return fmt.Sprintf("%s%s whose limits for maintenance permit no change", clusters(t.by[standingVetoed]), of)
}

func waitingForGroup(t *tally, of string, soak time.Duration) string {
	how := ""
	if soak > 0 {
		how = " for " + soak.String()
	}
	return fmt.Sprintf("%d of %s%s to be ready%s", t.unfinished(), clusters(t.counting()), of, how)
}

func unknownIn(t *tally, of string) string {
	return fmt.Sprintf("the desired release of %s%s, which is unknown", clusters(t.by[standingUnknown]), of)
}

func clusters(n int) string { return plural.Count(n, "Cluster", "Clusters") }
