// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

// isTrial reports whether it is not decided yet if the revision is good.
func (p *plan) isTrial() bool {
	return !p.givenUp && p.state.Phase != PhaseComplete
}

// mayHaveBroken reports whether the revision can be the reason why an updated Cluster is unreachable. It cannot be the
// reason if the release is the same under the last known good revision.
func (p *plan) mayHaveBroken(c *Cluster) bool {
	has := c.Target
	if has == nil && c.Child != nil {
		has = &c.Child.Release
	}
	return p.isTrial() && (c.Good == nil || has == nil || !sameContent(*c.Good, *has))
}

// isLate reports whether a pending Cluster is still in flight to another revision that never completed, or will be
// because the Cluster itself changed. Such a Cluster is unavailable, so it takes a slot.
func (p *plan) isLate(c *Cluster) bool {
	if c.Child == nil || c.Child.Joined || c.Child.AwaitsAdoption || c.Child.Revision <= p.state.Good ||
		p.isLeftBehind(c) {
		return false
	}
	return c.Health == HealthProgressing || c.Retrying ||
		c.Own != nil && !sameContent(c.Child.Release, *c.Own) && !c.OwnUnapproved
}

// isUnread reports whether HelmOp has not read the release of a Cluster with the first revision yet, or may not take it
// over. After a restore, this may be the release of a lost child.
func (p *plan) isUnread(c *Cluster) bool {
	return p.state.First && c.Pin == nil && (c.Child == nil ||
		c.Child.Joined && !c.Child.Deleting && !c.WasReady && (c.Child.Unread || c.Child.Foreign))
}

// group returns the index of a Cluster's wave. The last group is for Clusters in no wave.
func (p *plan) group(c *Cluster) int { return groupOf(c, len(p.in.Strategy.Waves)) }

// groupOf returns the index of a Cluster's wave. last is the group of Clusters in no wave.
func groupOf(c *Cluster, last int) int {
	if c.Wave < 0 || c.Wave > last {
		return last
	}
	return c.Wave
}

// isNew reports whether a Cluster without a child never had one. For the first revision, all Clusters are new.
func (p *plan) isNew(c *Cluster) bool {
	return !c.Known || p.state.First
}

// isUnobserved reports whether a new Cluster with the goal may have a release of another owner, or of a lost child. A
// Cluster that waits for something else does not count, because this wait may be long.
func (p *plan) isUnobserved(c *Cluster) bool {
	return c.Child.Joined && c.Child.Unobserved && c.Health == HealthProgressing && !c.Blocked &&
		(c.Child.Revision == p.goal || p.hasGoalAlready(c))
}

// isReturning reports whether a Cluster has a revision that was rolled back or aborted, and the goal is the last known
// good revision.
func (p *plan) isReturning(c *Cluster) bool {
	return p.givenUp && (c.Child.Revision == p.state.Revision || p.isLeftBehind(c))
}

// isLeftBehind reports whether a Cluster returns to the last known good revision, whatever the goal is. Its revision
// was rolled back or aborted, and the Cluster could not return before the current revision existed. If the return would
// replace the release, the Cluster waits for its update, which may replace the release again. If the current revision
// or a revision between the two is good, the Cluster does not return any more: it never had this good revision, so the
// step would be an update.
func (p *plan) isLeftBehind(c *Cluster) bool {
	isEarlier := c.Child.GivenUp && c.Child.Revision != p.state.Revision && p.state.Phase != PhaseComplete
	return isEarlier && p.state.Good != 0 && c.Child.Revision > p.state.Good && p.canReturn(c) &&
		(c.Good == nil || c.Good.Identity == c.Child.Identity)
}

// canReturn reports whether the Cluster's release under the last known good revision is known.
func (p *plan) canReturn(c *Cluster) bool {
	return c.Good != nil || c.Child.Previous == p.state.Good
}

// release returns the desired release of a Cluster; nil if it is not known.
func (p *plan) release(c *Cluster) *Release {
	if p.givenUp {
		return c.Good
	}
	return c.Target
}

// hasGoalAlready reports whether the desired release is the same as the current release of the Cluster. It is false for
// a revision that is not approved: such a revision is assigned to no Cluster, even if it changes nothing there.
func (p *plan) hasGoalAlready(c *Cluster) bool {
	release := p.release(c)
	return !p.isUnapproved() && release != nil &&
		(sameContent(c.Child.Release, *release) || c.Own != nil && sameContent(*c.Own, *release))
}

// failedBefore reports whether a failure of the Cluster does not count as a failure of the revision that it gets now:
// the Cluster failed under a good revision, and has not been ready after that failure.
func (p *plan) failedBefore(c *Cluster) bool {
	child := c.Child
	if child == nil {
		return false
	}
	return child.FailedBefore && c.Health != HealthReady ||
		c.Health == HealthFailed && (child.Revision == p.state.Good || child.Revision == 0)
}

func sameContent(a, b Release) bool {
	return a.Identity == b.Identity && a.Content == b.Content
}
