// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

// IsLeaving reports whether a Cluster that is not selected any more has a release whose deletion has not begun and
// could begin. A Cluster that is gone or under deletion takes its release along, and a paused Cluster keeps it.
func IsLeaving(c *Cluster) bool {
	return !c.Selected && c.Child != nil && !c.Child.Deleting && !c.Gone && !c.Deleting && !c.Paused
}

// PlanDeletion returns one step for each Cluster of a HelmOp that is under deletion: each release ends, within the
// limits of the strategy. The deletion of a HelmOp waits for no wave, no promotion and no paused rollout, because it is
// a decision that came after them.
func PlanDeletion(strategy Strategy, clusters []Cluster) []Step {
	steps := make([]Step, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		switch {
		case c.Child == nil || c.Child.Deleting:
			steps[i] = step(c, ActionNone, "the release is ending")
		default:
			// A pause of the Cluster holds the uninstallation, and not the deletion of the HelmOpRelease.
			steps[i] = step(c, ActionDelete, "the HelmOp is under deletion")
		}
	}
	newDeletions(strategy, clusters).pace(clusters, steps, "", func(c *Cluster, why string) Step { return step(c, ActionNone, why) })
	return steps
}

// whyDeletionsWait returns why no release of a Cluster that is not selected any more is deleted now; empty if releases
// are. A rollout that spent its failure budget does not hold deletions: to unselect a Cluster that fails is a way to
// mend it.
func (p *plan) whyDeletionsWait() string {
	switch {
	case p.in.DeletionsHeld:
		return "the deletion of the release waits for a confirmation"
	case p.in.Strategy.Paused:
		return "the deletion of the release waits for the end of the pause of the rollout"
	default:
		return ""
	}
}

// pace keeps those of the deletions among the steps for which the limits have room, in the order of the waves. With a
// reason to wait it keeps none. Clusters that are gone or under deletion neither wait nor count. The function hold
// returns the step of a Cluster that waits.
func (d *deletions) pace(clusters []Cluster, steps []Step, wait string, hold func(c *Cluster, why string) Step) {
	for group := range d.groups {
		for _, unreachable := range []bool{false, true} {
			for i := range steps {
				c := &clusters[i]
				if !isPacedDeletion(c, &steps[i]) || d.group(c) != group || (c.Health == HealthUnreachable) != unreachable {
					continue
				}
				switch {
				case wait != "":
					steps[i] = hold(c, wait)
				case !d.hasRoom(c):
					steps[i] = hold(c, "as many releases are being deleted as spec.rollout.maxUnavailable allows")
				default:
					d.begin(c)
				}
			}
		}
	}
}

func isPacedDeletion(c *Cluster, s *Step) bool {
	return s.Action == ActionDelete && !c.Gone && !c.Deleting && !c.Paused
}

// deletions counts the deletions that are under way, of all Clusters and of each wave, against their limits. Clusters
// in no wave are the last group.
type deletions struct {
	total  places
	groups []places
}

// places are those that one limit allows. A deletion holds its place until the release is gone, also if the
// uninstallation fails or the Cluster ceased to answer after it began: what one deletion broke must not happen to the
// others. A deletion in a Cluster that did not answer before holds no place against the Clusters that answer.
type places struct {
	limit, taken, takenAway int
}

func newDeletions(strategy Strategy, clusters []Cluster) *deletions {
	d := &deletions{groups: make([]places, len(strategy.Waves)+1)}
	all, members := 0, make([]int, len(d.groups))
	for i := range clusters {
		c := &clusters[i]
		if c.Gone || c.Deleting || !c.Selected && c.Child == nil {
			continue
		}
		all++
		members[d.group(c)]++
		// A replacement that cannot end holds no place in the rollout of the revision either.
		isStuck := c.Selected && c.Health == HealthFailed
		if c.Child != nil && c.Child.Deleting && !c.Paused && !isStuck {
			d.take(c, c.Child.Away)
		}
	}
	d.total.limit = strategy.MaxUnavailable.Of(all)
	for group := range d.groups {
		d.groups[group].limit = d.total.limit
		if group < len(strategy.Waves) {
			d.groups[group].limit = strategy.Waves[group].MaxUnavailable.Of(members[group])
		}
	}
	return d
}

func (d *deletions) group(c *Cluster) int {
	last := len(d.groups) - 1
	if c.Wave < 0 || c.Wave > last {
		return last
	}
	return c.Wave
}

// hasRoom reports whether the limits have room for one more deletion.
func (d *deletions) hasRoom(c *Cluster) bool {
	isAway := c.Health == HealthUnreachable
	return d.total.hasRoom(isAway) && d.groups[d.group(c)].hasRoom(isAway)
}

// begin counts a deletion that begins.
func (d *deletions) begin(c *Cluster) { d.take(c, c.Health == HealthUnreachable) }

func (d *deletions) take(c *Cluster, isAway bool) {
	d.total.take(isAway)
	d.groups[d.group(c)].take(isAway)
}

func (p *places) hasRoom(isAway bool) bool {
	if isAway {
		return p.taken+p.takenAway < p.limit
	}
	return p.taken < p.limit
}

func (p *places) take(isAway bool) {
	if isAway {
		p.takenAway++
		return
	}
	p.taken++
}

// paceReplacements keeps those of the replacements that follow from a change of the Cluster itself for which the limits
// have room. Other changes of a Cluster reach it at once, but a replacement uninstalls a release before another one is
// installed.
func (p *plan) paceReplacements(steps []Step) {
	var replaced []int
	for i := range steps {
		c := &p.in.Clusters[i]
		if steps[i].Action != ActionReplace || p.isReturning(c) {
			continue
		}
		replaced = append(replaced, i)
		if p.standings[i] == standingInFlight && (c.Health == HealthFailed || c.Health == HealthReady && p.soaked(c)) {
			// It is on its way for the replacement alone, and counts again when the limits have room for it.
			p.move(i, standingPending)
		}
	}
	for _, i := range replaced {
		c := &p.in.Clusters[i]
		isLate := p.standings[i] == standingPending && p.isLate(c)
		isCounted := p.standings[i] == standingInFlight
		if c.Health == HealthUnreachable || !p.deletions.hasRoom(c) || !isCounted && !p.hasRoom(p.group(c), isLate) {
			steps[i] = p.leave(c, "the release changes its name or namespace, but as many Clusters are on their way as may be")
			continue
		}
		p.deletions.begin(c)
		if !isCounted {
			p.move(i, standingInFlight)
		}
	}
}
