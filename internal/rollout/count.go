// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

// countStandings determines the standing of each Cluster and counts them.
func (p *plan) countStandings() {
	p.total, p.isKnown, p.requeueAfter = tally{}, false, 0
	clear(p.groups)
	for i := range p.in.Clusters {
		c := &p.in.Clusters[i]
		s := p.standingOf(c)
		p.standings[i] = s
		p.count(c, s, 1)
		group := &p.groups[p.group(c)]
		if s != standingFailed && p.isUnrepaired(c) {
			p.total.unrepaired++
		}
		if s == standingDeferred {
			group.opensAt(c.Defers.Opens)
			p.total.opensAt(c.Defers.Opens)
		}
		if c.Selected && !c.Gone {
			group.selected++
			p.total.selected++
			p.isKnown = p.isKnown || p.release(c) != nil
		}
	}
}

// count adds n to the numbers of Clusters with the standing of a Cluster, in its wave and in total.
func (p *plan) count(c *Cluster, s standing, n int) {
	isLate := s == standingPending && p.isLate(c)
	isRetrying := c.Retrying && (s == standingFailed || s == standingExcused) &&
		(c.Child.Revision == p.goal || p.hasGoalAlready(c))
	for _, t := range []*tally{&p.groups[p.group(c)], &p.total} {
		t.by[s] += n
		if isLate {
			t.late += n
		}
		if isRetrying {
			t.retrying += n
		}
	}
}

// isUnrepaired reports whether a Cluster may have failed with the goal and was not repaired since then. It may not
// count as failed now because it is paused or unreachable, waits, or gets a changed spec. After a move or a restore,
// HelmOp knows failures only when it has read the release, and rendered the goal for the Cluster.
func (p *plan) isUnrepaired(c *Cluster) bool {
	if !c.Selected || c.Gone || c.Deleting || c.Child == nil || c.Child.Deleting || c.Child.FailedBefore ||
		c.Health == HealthReady {
		return false
	}
	if c.Child.Revision != p.goal {
		return c.AfterMove
	}
	return !c.Child.Joined && (c.Health == HealthFailed || c.Child.HasFailures ||
		c.Child.Unread && c.Health == HealthProgressing ||
		c.Health == HealthUnreachable && !c.WasReady && p.mayHaveBroken(c))
}

// move changes the standing of a Cluster because of its step.
func (p *plan) move(i int, to standing) {
	c := &p.in.Clusters[i]
	p.count(c, p.standings[i], -1)
	p.count(c, to, 1)
	p.standings[i] = to
}
