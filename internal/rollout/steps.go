// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// decide returns the step for a Cluster without the limits, which are applied later. The order of the cases matters:
// cases that forbid a change come first. A Cluster that does not exist comes before all others: deleting its
// HelmOpRelease changes nothing in a cluster, and is right for a paused Cluster too.
func (p *plan) decide(i int) Step {
	c := &p.in.Clusters[i]
	switch {
	case c.Gone && c.Child != nil && !c.Child.Deleting:
		return step(c, ActionDelete, "the Cluster does not exist")
	case c.Gone:
		return step(c, ActionNone, "the Cluster does not exist")
	case c.Deleting:
		return p.leave(c, "the Cluster is under deletion")
	case c.Paused:
		return p.leave(c, "the Cluster is paused")
	case c.Child != nil && c.Child.Deleting:
		return step(c, ActionNone, "the previous release is being deleted")
	case !c.Selected && c.Child != nil:
		return p.unless(c.Defers.Changes, c, step(c, ActionDelete, "the Cluster is no longer selected"))
	case !c.Selected:
		return step(c, ActionNone, "the Cluster is not selected")
	case !c.Initialized:
		return p.leave(c, "the control plane of the Cluster is not initialized")
	case c.Child == nil:
		return p.create(i, c)
	case c.Pin != nil:
		return p.pinned(c)
	case c.Child.OfFormerCluster:
		return p.rejoin(i, c)
	case p.isReturning(c):
		return p.rollBack(c)
	case c.Child.Revision == p.goal || p.hasGoalAlready(c):
		return p.unless(c.Defers.Changes, c, p.keep(c))
	case p.isLeftBehind(c):
		// If its turn has come, the plan updates the Cluster instead.
		return p.rollBack(c)
	default:
		s := p.repair(c, p.whyNot(c, p.standings[i]))
		s.Deferred = s.Deferred || isDeferred(p.standings[i]) && p.isTurn(c)
		return s
	}
}

// isDeferred reports whether a Cluster waits for maintenance.
func isDeferred(s standing) bool { return s == standingDeferred || s == standingVetoed }

// isTurn reports whether the rollout would change an outdated Cluster now. It ignores the limits.
func (p *plan) isTurn(c *Cluster) bool {
	return !p.isHeld() && (p.state.Phase != PhaseProgressing || p.group(c) <= p.wave)
}

// unless returns a step. If changes of the Cluster are deferred and the step would change its release, it returns the
// step to wait.
func (p *plan) unless(isDeferred bool, c *Cluster, s Step) Step {
	if !isDeferred || s.Action == ActionNone || s.Action == ActionUpdate && !p.changesContent(c, s.Source) {
		return s
	}
	return p.waitForMaintenance(c)
}

// waitForMaintenance returns the step for a Cluster whose change waits for maintenance. It also schedules the next
// plan.
func (p *plan) waitForMaintenance(c *Cluster) Step {
	if !c.Defers.Opens.IsZero() {
		p.wakeAt(c.Defers.Opens)
	}
	s := p.leave(c, "the change of the release waits for maintenance")
	s.Deferred = true
	return s
}

// changesContent reports whether the release from a source differs from the current release. The release that a child
// stores for a rollback is not known here.
func (p *plan) changesContent(c *Cluster, source Source) bool {
	var release *Release
	switch source {
	case SourceTarget:
		release = c.Target
	case SourceGood:
		release = c.Good
	case SourceOwn:
		release = c.Own
	case SourcePin:
		release = c.Pin.Release
	}
	return release == nil || !sameContent(c.Child.Release, *release)
}

func step(c *Cluster, action Action, why string) Step {
	return Step{Cluster: c.Name, Action: action, Why: why}
}

// leave returns a step that changes nothing.
func (p *plan) leave(c *Cluster, why string) Step {
	s := step(c, ActionNone, why)
	s.Assigned = p.isAssigned(c)
	return s
}

// isAssigned reports whether a Cluster has its final desired release. This includes a Cluster that returned to a good
// revision that cannot be rendered any more.
func (p *plan) isAssigned(c *Cluster) bool {
	if c.Child == nil || c.Child.Deleting || c.Child.Revision != p.goal {
		return false
	}
	release := p.release(c)
	return release == nil && p.givenUp || release != nil && c.Child.Release == *release
}

// create returns the step for a Cluster without a release. The Cluster gets the current revision if its wave has begun,
// or if no other revision is available. A revision that was rolled back or aborted is never assigned. If the last known
// good revision exists but its release for the Cluster is unknown, there are three rules: a Cluster that is not new
// waits for its wave, no Cluster gets a revision whose budget is spent, and a Cluster waits for the end of a transient
// error.
func (p *plan) create(i int, c *Cluster) Step {
	// While the release under a complete revision is unknown, the Cluster does not get the revision before it.
	mayTakeGood := p.state.Phase != PhaseComplete || c.Target != nil || c.TargetInvalid
	hasGood := p.state.Good != 0 && c.Good != nil && mayTakeGood
	mayTakeCurrent := !p.in.Unapproved && (p.state.Phase == PhaseComplete ||
		p.state.Phase == PhaseProgressing && !p.in.Strategy.Paused && p.group(c) <= p.wave ||
		hasGood && c.Target != nil && sameContent(*c.Good, *c.Target))
	if c.Defers.Installations && p.isNew(c) {
		return p.waitForMaintenance(c)
	}
	s := step(c, ActionCreate, "the Cluster has no release yet")
	s.Joined = p.isNew(c)
	switch {
	case hasGood && (p.givenUp || !mayTakeCurrent || c.Target == nil):
		s.Source, s.Revision, s.Assigned = SourceGood, p.state.Good, p.givenUp
		s.Why = "the Cluster has no release yet, and must not get the current HelmOp revision now"
		if p.givenUp {
			p.start(i, s.Joined)
		}
		return s
	case p.givenUp || c.Target == nil:
		return step(c, ActionNone, "the desired release is unknown")
	case p.in.Unapproved:
		return waitForApproval(c)
	case !mayTakeCurrent && p.state.Good != 0 && (!s.Joined || p.state.Phase != PhaseProgressing || c.GoodPending):
		return step(c, ActionNone,
			"the release under the last known good revision is unknown, and the Cluster's wave has not begun")
	default:
		s.Source, s.Revision, s.Assigned = SourceTarget, p.state.Revision, true
		p.start(i, s.Joined)
		return s
	}
}

// rejoin returns the step for a re-created Cluster, whose child was assigned to the former Cluster. The child gets the
// release that a new Cluster gets. But the Cluster may only have been restored, for a workload cluster that still has
// the release. So a replacement waits for maintenance, and until the release controller has read the release: a release
// that was installed once then gets the name of its child.
func (p *plan) rejoin(i int, c *Cluster) Step {
	s := p.create(i, c)
	release := c.Target
	if s.Source == SourceGood {
		release = c.Good
	}
	switch {
	case s.Deferred, s.Unapproved:
		return s
	case s.Action == ActionNone:
		s = p.repair(c, s.Why)
	case c.Child.Identity != release.Identity:
		s = p.unless(c.Defers.Changes, c, replace(c, release, s.Revision))
	default:
		s.Action, s.Why = ActionUpdate, "the Cluster was re-created"
	}
	if s.Action == ActionReplace && c.Child.Unread {
		s = p.leave(c, "the release changes its name or namespace, but HelmOp has not read its state yet")
	}
	if s.Action == ActionNone {
		p.move(i, standingOut)
	}
	return s
}

// waitForApproval returns the step for a Cluster whose next change needs an approval.
func waitForApproval(c *Cluster) Step {
	s := step(c, ActionNone, "the change of the release waits for an approval")
	s.Unapproved = true
	return s
}

// start counts a Cluster as in flight if it gets its first release in this rollout.
func (p *plan) start(i int, joined bool) {
	switch {
	case joined:
		p.move(i, standingJoining)
	case p.standings[i] == standingPending:
		p.move(i, standingInFlight)
	case p.standings[i] == standingUnreachable && p.mayHaveBroken(&p.in.Clusters[i]):
		p.move(i, standingUnreachableAfterUpdate)
	}
}

// assign assigns the desired release to a Cluster. If the identity differs, it is a different release, which can be
// installed only after the current release is deleted.
func (p *plan) assign(c *Cluster, why string) Step {
	release := p.release(c)
	if c.Child.Identity != release.Identity {
		return replace(c, release, p.goal)
	}
	s := step(c, ActionUpdate, why)
	s.Source, s.Revision, s.Assigned = SourceTarget, p.goal, true
	if p.givenUp {
		s.Source = SourceGood
	}
	if c.Child.Revision == p.goal {
		s.Joined, s.FailedBefore = c.Child.Joined, c.Child.FailedBefore
	} else {
		s.FailedBefore = p.failedBefore(c)
	}
	return s
}

// mayAdoptLater reports whether the child of a Cluster must not adopt a release of another owner, or of a lost child,
// yet, because the rollout has not reached the Cluster. Until then, its release is marked as that of a new Cluster.
func mayAdoptLater(c *Cluster) bool {
	return c.Child.AwaitsAdoption || c.Child.Joined && c.Child.Unobserved
}

func replace(c *Cluster, release *Release, revision int64) Step {
	s := step(c, ActionReplace, fmt.Sprintf("the release changes from %s to %s", c.Child.Identity, release.Identity))
	s.Revision = revision
	return s
}

// keep returns the step for a Cluster whose release has the desired content. It applies changes of the Cluster itself
// and of the revision number. These changes need no slot: the first are not part of the rollout, and the second changes
// nothing in the Cluster.
func (p *plan) keep(c *Cluster) Step {
	release := p.release(c)
	switch {
	case release == nil:
		return p.leave(c, "the desired release is unknown")
	case p.isGoalUnapproved(c):
		return waitForApproval(c)
	case c.Child.Revision != p.goal:
		s := p.assign(c, "the current HelmOp revision is identical for this Cluster")
		s.Joined = s.Action == ActionUpdate && mayAdoptLater(c)
		return s
	case c.Child.Release != *release:
		return p.assign(c, "the desired release changed")
	default:
		return p.leave(c, "the Cluster is up to date")
	}
}

// rollBack returns the step that returns a Cluster to the last known good revision. Returns include unreachable
// Clusters: further damage must be prevented. They need no slot, because repairs come first. Only the replacement of a
// ready release needs one.
func (p *plan) rollBack(c *Cluster) Step {
	if !p.canReturn(c) {
		p.stuck++
		return p.repair(c, "the release under the last known good revision is unknown")
	}
	if c.Good != nil && c.Child.Identity != c.Good.Identity {
		return p.unless(c.Defers.Returns, c, replace(c, c.Good, p.goal))
	}
	s := step(c, ActionUpdate, "the HelmOp revision was given up")
	s.Source, s.Revision, s.Assigned = SourceGood, p.state.Good, p.givenUp
	s.Joined = mayAdoptLater(c)
	s.Returned = !s.Joined
	if c.Good == nil {
		s.Source = SourcePrevious
	}
	s.FailedBefore = p.failedBefore(c)
	return p.unless(c.Defers.Returns, c, s)
}

// repair returns the step that keeps a Cluster on its current revision and applies changes of the Cluster itself under
// this revision.
func (p *plan) repair(c *Cluster, why string) Step {
	switch {
	case c.Own == nil || c.Child.Release == *c.Own:
		s := step(c, ActionNone, why)
		s.Unapproved = p.isUnapproved() || p.isGoalUnapproved(c)
		return s
	case c.OwnUnapproved:
		return waitForApproval(c)
	case c.Child.Identity != c.Own.Identity:
		return p.unless(c.Defers.Changes, c, replace(c, c.Own, c.Child.Revision))
	}
	s := step(c, ActionUpdate, "the Cluster itself changed")
	s.Source, s.Revision = SourceOwn, c.Child.Revision
	s.Joined, s.FailedBefore = c.Child.Joined, c.Child.FailedBefore
	return p.unless(c.Defers.Changes, c, s)
}

// pinned returns the step for a Cluster that a user has pinned to a revision. It does not replace the release: a
// replacement would delete the child, which has the pin.
func (p *plan) pinned(c *Cluster) Step {
	if pin := c.Pin; c.Child.Revision != pin.Revision && pin.Release != nil &&
		c.Child.Identity == pin.Release.Identity {
		s := step(c, ActionUpdate, "a user has pinned the Cluster to another HelmOp revision")
		s.Source, s.Revision, s.Pinned = SourcePin, pin.Revision, true
		return p.unless(c.Defers.Returns, c, s)
	}
	s := p.repair(c, "the Cluster is pinned")
	if s.Action == ActionReplace {
		return step(c, ActionNone, "the Cluster is pinned, but its release has another name now")
	}
	s.Unapproved = false
	return s
}

// whyNot returns why a Cluster keeps its outdated revision.
func (p *plan) whyNot(c *Cluster, s standing) string {
	switch {
	case s == standingUnreachable:
		return "the Cluster is outdated and unreachable"
	case s == standingBlocked:
		return "the Cluster is outdated, and a dependency is not ready in it"
	case isDeferred(s):
		return "the Cluster is outdated, and waits for maintenance"
	case p.release(c) == nil:
		return "the desired release is unknown"
	case p.isUnapproved() || p.isGoalUnapproved(c):
		return "the Cluster is outdated, and the HelmOp revision, or its change, waits for an approval"
	case p.isHeld():
		return "the Cluster is outdated, and the rollout is paused"
	case p.state.Phase == PhaseProgressing && p.group(c) > p.wave:
		return "the Cluster is outdated, and its wave has not begun"
	default:
		return "the Cluster is outdated, and maxUnavailable is reached"
	}
}
