// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

func (p *plan) standingOf(c *Cluster) standing {
	switch {
	case !c.Selected || c.Gone || c.Deleting:
		return standingOut
	case c.AfterMove:
		return p.standAfterMove(c)
	case c.Paused && p.isUnread(c):
		return standingUnread
	case !c.Initialized:
		return standingOut
	case c.Paused && c.Pin == nil && c.Child != nil && c.Child.Revision != p.goal && !p.isReturning(c) &&
		!p.hasGoalAlready(c) && !c.Child.OfFormerCluster:
		return standingPaused
	case c.Paused:
		return standingOut
	case c.Child == nil && p.isNew(c):
		return p.standNew(c, standingOut)
	case c.Child == nil:
		return p.standOutdated(c)
	case c.Child.Deleting:
		return p.standDeleting(c)
	case c.Pin != nil:
		return standingPinned
	case c.Child.OfFormerCluster:
		return standingOut
	case p.isReturning(c):
		return p.standReturning(c)
	case c.Child.AwaitsAdoption && (c.Child.Revision != p.goal || p.release(c) != nil):
		return p.standOutdated(c)
	case p.isUnobserved(c):
		return standingUnobserved
	case c.Child.Revision == p.goal && c.Child.Joined, mayAdoptLater(c) && p.hasGoalAlready(c):
		return p.standNew(c, asNew(p.standUpdated(c, c.Child.FailedBefore)))
	case c.Child.Revision == p.goal:
		return p.standUpdated(c, c.Child.FailedBefore)
	case p.hasGoalAlready(c):
		return p.standUpdated(c, p.failedBefore(c))
	default:
		return p.standOutdated(c)
	}
}

// standAfterMove returns the standing of a Cluster whose release HelmOp has not read since a move or a restore. An
// updated Cluster counts as unreachable. An outdated Cluster counts as one that cannot be updated now, and so does a
// Cluster that may wait for an adoption.
func (p *plan) standAfterMove(c *Cluster) standing {
	isUpdated := c.Child.Replaced || c.Child.Revision == p.goal
	switch {
	case c.Pin != nil:
		return standingPinned
	case c.Child.Deleting && !c.Child.Replaced, p.isReturning(c):
		return standingOut
	case !isUpdated, c.Child.Joined && c.Child.Unobserved:
		return standingUnknown
	case c.Child.Joined, !p.mayHaveBroken(c):
		return standingOut
	default:
		return standingUnreachableAfterUpdate
	}
}

// standDeleting returns the standing of a selected Cluster whose release is being deleted. A failed deletion proves
// nothing about the new revision, which is not installed yet. If the deletion is not for a replacement, the revision is
// not the reason why the Cluster is unreachable.
func (p *plan) standDeleting(c *Cluster) standing {
	switch {
	case c.Health == HealthUnreachable && c.Child.Replaced && p.isTrial():
		return standingUnreachableAfterUpdate
	case c.Health == HealthUnreachable:
		return standingUnreachable
	case c.Health == HealthFailed:
		return standingExcused
	default:
		return standingInFlight
	}
}

// standReturning returns the standing of a Cluster that has a revision that was rolled back or aborted.
func (p *plan) standReturning(c *Cluster) standing {
	switch {
	case !p.canReturn(c) || c.Health == HealthUnreachable:
		return standingOut
	case c.Defers.Returns:
		return p.standDeferred(c)
	default:
		// A return does not wait for dependencies.
		return standingInFlight
	}
}

// standDeferred returns the standing of a Cluster that waits for maintenance, and schedules the next plan.
func (p *plan) standDeferred(c *Cluster) standing {
	if c.Defers.Opens.IsZero() {
		return standingVetoed
	}
	p.wakeAt(c.Defers.Opens)
	return standingDeferred
}

func (p *plan) standOutdated(c *Cluster) standing {
	isInvalid := !p.givenUp && c.Target == nil && c.TargetInvalid
	switch {
	case isInvalid && !c.Known:
		// A new Cluster has the last known good revision because the current revision cannot be rendered for it.
		return standingOut
	case isInvalid && p.failedBefore(c):
		return standingExcused
	case isInvalid:
		return standingFailed
	case c.Health == HealthUnreachable:
		return standingUnreachable
	case p.release(c) == nil:
		return standingUnknown
	case p.isGoalUnapproved(c):
		return standingUnapproved
	case c.Child != nil && c.Defers.Changes:
		return p.standDeferred(c)
	case c.Blocked:
		return standingBlocked
	default:
		return standingPending
	}
}

func (p *plan) standUpdated(c *Cluster, failedBefore bool) standing {
	release := p.release(c)
	changes := release != nil && !sameContent(c.Child.Release, *release) && !p.isGoalUnapproved(c) && !c.Defers.Changes
	switch {
	case c.Health == HealthUnreachable && p.mayHaveBroken(c) && c.WasReady && c.ReadyFor >= p.soak(p.group(c)):
		return standingUnreachableAfterReady
	case c.Health == HealthUnreachable && p.mayHaveBroken(c):
		return standingUnreachableAfterUpdate
	case c.Health == HealthUnreachable:
		return standingOut
	case c.Child.Deferred && c.Defers.Changes && c.Health == HealthProgressing:
		return p.standDeferred(c)
	case c.Blocked && (changes && c.Health != HealthProgressing ||
		c.Child.AwaitsDependencies && c.Health == HealthProgressing):
		// An update that began before a dependency became unready goes on, and takes its slot.
		return standingBlocked
	case changes:
		// This plan updates the Cluster, so its current health is not the result of the update.
		return standingInFlight
	case c.Child.AdoptionHeld:
		return standingAdoptionHeld
	case c.Health == HealthFailed && failedBefore:
		return standingExcused
	case c.Health == HealthFailed:
		return standingFailed
	case c.Health == HealthReady && p.soaked(c):
		return standingDone
	default:
		return standingInFlight
	}
}

// asNew returns the standing of a new Cluster, given the standing that an existing Cluster would have.
func asNew(s standing) standing {
	switch s {
	case standingDone:
		return standingJoined
	case standingInFlight:
		return standingJoining
	case standingAdoptionHeld, standingDeferred, standingVetoed:
		return s
	default:
		return standingOut
	}
}

// standNew returns the standing of a new Cluster. s is its standing if no release can be lost. A Cluster that cannot
// get the revision does not count: it may have no release for a long time.
func (p *plan) standNew(c *Cluster, s standing) standing {
	switch {
	case s != standingOut || !p.isUnread(c) || p.release(c) == nil:
		return s
	case c.Child != nil && c.Child.Foreign:
		return standingConflict
	default:
		return standingUnread
	}
}
