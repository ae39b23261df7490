// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// decide tells what is done for a Cluster, whatever the limits: what they bound comes after it. It asks in an order that matters:
// what forbids a change comes before what wants one. A Cluster that is gone comes first, because forgetting its release
// touches nothing and holds for a paused one, too.
func (p *plan) decide(i int) Step {
	c := &p.in.Clusters[i]
	switch {
	case c.Gone && c.Child != nil && !c.Child.Deleting:
		return step(c, ActionDelete, "the Cluster is gone")
	case c.Gone:
		return step(c, ActionNone, "the Cluster is gone")
	case c.Deleting:
		return p.leave(c, "the Cluster is under deletion")
	case c.Paused:
		return p.leave(c, "the Cluster is paused")
	case c.Child != nil && c.Child.Deleting:
		return step(c, ActionNone, "the previous release is ending")
	case !c.Selected && c.Child != nil:
		return step(c, ActionDelete, "the Cluster is no longer selected")
	case !c.Selected:
		return step(c, ActionNone, "the Cluster is not selected")
	case !c.Initialized:
		return p.leave(c, "the control plane of the Cluster is not initialized")
	case c.Child == nil:
		return p.create(i, c)
	case p.isReturning(c):
		return p.giveBack(c)
	case c.Child.Revision == p.goal || p.hasGoalAlready(c):
		return p.keep(c)
	default:
		return p.repair(c, p.whyNot(c, p.standings[i]))
	}
}

func step(c *Cluster, action Action, why string) Step {
	return Step{Cluster: c.Name, Action: action, Why: why}
}

// leave leaves a Cluster as it is.
func (p *plan) leave(c *Cluster, why string) Step {
	s := step(c, ActionNone, why)
	s.Told = p.isTold(c)
	return s
}

// isTold tells if a Cluster has what it is to have in the end. It has if it returned to a revision that cannot be rendered any more.
func (p *plan) isTold(c *Cluster) bool {
	if c.Child == nil || c.Child.Deleting || c.Child.Revision != p.goal {
		return false
	}
	release := p.release(c)
	return release == nil && p.givenUp || release != nil && c.Child.Release == *release
}

// create serves a Cluster that has no release, at once. It gets the revision that is wanted if the turn of its wave has come, or if no
// other can be told; one that was given up is told to nobody. If there is a good revision and it cannot be told now, one that is not
// new waits for its turn, and nobody gets what has spent its budget.
func (p *plan) create(i int, c *Cluster) Step {
	hasGood := p.state.Good != 0 && c.Good != nil
	isTurn := p.state.Phase == PhaseComplete ||
		p.state.Phase == PhaseProgressing && !p.in.Strategy.Paused && p.group(c) <= p.turn ||
		hasGood && c.Target != nil && sameContent(*c.Good, *c.Target)
	s := step(c, ActionCreate, "the Cluster has no release yet")
	s.Joined = p.isNew(c)
	switch {
	case hasGood && (p.givenUp || !isTurn || c.Target == nil):
		s.Source, s.Revision, s.Told = SourceGood, p.state.Good, p.givenUp
		s.Why = "the Cluster has no release yet, and is not to have the revision that is wanted"
		if p.givenUp {
			p.start(i, s.Joined)
		}
		return s
	case p.givenUp || c.Target == nil:
		return step(c, ActionNone, "what is desired cannot be told")
	case !isTurn && p.state.Good != 0 && (!s.Joined || p.state.Phase != PhaseProgressing):
		return step(c, ActionNone, "the last good revision cannot be told, and it is not the turn of the one that is wanted")
	default:
		s.Source, s.Revision, s.Told = SourceTarget, p.state.Revision, true
		p.start(i, s.Joined)
		return s
	}
}

// start counts a Cluster as on its way that is told for the first time.
func (p *plan) start(i int, joined bool) {
	switch {
	case joined:
		p.move(i, standingJoining)
	case p.standings[i] == standingPending:
		p.move(i, standingInFlight)
	case p.standings[i] == standingAway && p.canBeLost(&p.in.Clusters[i]):
		p.move(i, standingLost)
	}
}

// tell tells a Cluster what it is to have. Another identity is another release, which can only follow when the one before has ended.
func (p *plan) tell(c *Cluster, why string) Step {
	release := p.release(c)
	if c.Child.Identity != release.Identity {
		return replace(c, release, p.goal)
	}
	s := step(c, ActionUpdate, why)
	s.Source, s.Revision, s.Told = SourceTarget, p.goal, true
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

func replace(c *Cluster, release *Release, revision int64) Step {
	s := step(c, ActionReplace, fmt.Sprintf("the release changes from %s to %s", c.Child.Identity, release.Identity))
	s.Revision = revision
	return s
}

// keep is about a Cluster that has what it is to have, but for what changed with the Cluster itself, or for the number of the
// revision. Neither is paced: the former is no rollout, and of the latter nothing is to be seen in the Cluster.
func (p *plan) keep(c *Cluster) Step {
	release := p.release(c)
	switch {
	case release == nil:
		return p.leave(c, "what is desired cannot be told")
	case c.Child.Revision != p.goal:
		return p.tell(c, "another revision is wanted that is the same for this Cluster")
	case c.Child.Release != *release:
		return p.tell(c, "something else is desired")
	default:
		return p.leave(c, "the Cluster was told what is desired")
	}
}

// giveBack returns a Cluster to the last good revision. Returns are not paced, and a Cluster that does not answer is told, too: what is
// broken is mended first, and what is not yet broken must not be.
func (p *plan) giveBack(c *Cluster) Step {
	if !p.canReturn(c) {
		p.stuck++
		return p.repair(c, "what the Cluster had under the last good revision cannot be told any more")
	}
	if c.Good != nil && c.Child.Identity != c.Good.Identity {
		return replace(c, c.Good, p.goal)
	}
	s := step(c, ActionUpdate, "the revision was given up")
	s.Source, s.Revision, s.Told, s.Returned = SourceGood, p.state.Good, true, true
	if c.Good == nil {
		s.Source = SourcePrevious
	}
	s.FailedBefore = p.failedBefore(c)
	return s
}

// repair keeps a Cluster on the revision that it has. What changed with the Cluster itself reaches it under that one.
func (p *plan) repair(c *Cluster, why string) Step {
	switch {
	case c.Own == nil || c.Child.Release == *c.Own:
		return step(c, ActionNone, why)
	case c.Child.Identity != c.Own.Identity:
		return replace(c, c.Own, c.Child.Revision)
	}
	s := step(c, ActionUpdate, "the Cluster itself changed")
	s.Source, s.Revision = SourceOwn, c.Child.Revision
	s.Joined, s.FailedBefore = c.Child.Joined, c.Child.FailedBefore
	return s
}

// whyNot tells why a Cluster is not told of another revision.
func (p *plan) whyNot(c *Cluster, s standing) string {
	switch {
	case s == standingAway:
		return "another revision is wanted, but the Cluster does not answer"
	case s == standingBlocked:
		return "another revision is wanted, but a HelmOp that comes first is not ready in the Cluster"
	case p.release(c) == nil:
		return "what is desired cannot be told"
	case p.isHeld():
		return "another revision is wanted, but its rollout is held"
	case p.state.Phase == PhaseProgressing && p.group(c) > p.turn:
		return "another revision is wanted, but the turn of the Cluster's wave has not come"
	default:
		return "another revision is wanted, but as many Clusters are on their way as may be"
	}
}
