// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

// IsLeaving reports whether a release is going to be deleted because its Cluster is no longer selected: now, or when
// the Cluster is not paused any more. It is false for Clusters that do not exist or are under deletion: their releases
// are deleted with them.
func IsLeaving(c *Cluster) bool {
	return !c.Selected && c.Child != nil && !c.Child.Deleting && !c.Gone && !c.Deleting && !c.NotServed
}

// PlanDeletion returns one step for each Cluster of a HelmOp under deletion. The releases are deleted within the limits
// of the strategy. Waves, promotions and a paused rollout do not delay the deletion: the deletion of the HelmOp is the
// later decision of the user.
func PlanDeletion(strategy Strategy, clusters []Cluster) []Step {
	steps := make([]Step, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		switch {
		case c.Child == nil || c.Child.Deleting:
			steps[i] = step(c, ActionNone, "the release is being deleted")
		default:
			// A pause of the Cluster stops the uninstallation, but not the deletion of the HelmOpRelease.
			steps[i] = step(c, ActionDelete, "the HelmOp is under deletion")
		}
	}
	newDeletions(
		strategy,
		clusters,
	).pace(
		clusters,
		steps,
		"",
		func(c *Cluster, why string) Step { return step(c, ActionNone, why) },
	)
	return steps
}

// whyDeletionsWait returns why releases of unselected Clusters must not be deleted now; empty if they may be deleted. A
// spent failure budget does not stop deletions: unselecting a failing Cluster is a way to repair it.
func (p *plan) whyDeletionsWait() string {
	switch {
	case p.in.DeletionsHeld:
		return "the deletion of the release waits for confirmation"
	case p.in.Strategy.Paused:
		return "the deletion of the release waits because the rollout is paused"
	default:
		return ""
	}
}

// pace keeps as many deletions among the steps as the limits allow, in the order of the waves. If wait is not empty, it
// keeps none. Clusters that do not exist or are under deletion do not wait and do not count. hold returns the step for
// a Cluster that waits.
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
					steps[i] = hold(c, "spec.rollout.maxUnavailable is reached: other releases are being deleted")
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

// deletions counts the running deletions of all Clusters and of each wave, for comparison with their limits. The last
// group is for Clusters in no wave.
type deletions struct {
	total  slots
	groups []slots
}

// slots counts the slots of one limit. A deletion keeps its slot until the release is deleted, even if the
// uninstallation fails or the Cluster becomes unreachable: the deletion may be the cause of this, so other deletions
// must wait. A deletion in a Cluster that was unreachable before takes no slot.
type slots struct {
	limit, taken, takenUnreachable int
}

func newDeletions(strategy Strategy, clusters []Cluster) *deletions {
	d := &deletions{groups: make([]slots, len(strategy.Waves)+1)}
	all, members := 0, make([]int, len(d.groups))
	for i := range clusters {
		c := &clusters[i]
		if c.Gone || c.Deleting || !c.Selected && c.Child == nil {
			continue
		}
		all++
		members[d.group(c)]++
		if c.Child != nil && c.Child.Deleting && !c.Paused && !isStuck(c) {
			d.take(c, c.Child.UnreachableAtDeletion)
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

// isStuck reports whether the deletion of a release in a selected Cluster takes no slot, because it may last without
// end. A replacement whose deletion fails takes no slot of the updates either. If the deletion is not for a
// replacement, the release stays, for example after a restore. HelmOp only waits for the Cluster, so its deletions are
// not the reason why the Cluster is unreachable.
func isStuck(c *Cluster) bool {
	return c.Selected && (c.Health == HealthFailed || c.Health == HealthUnreachable && !c.Child.Replaced)
}

func (d *deletions) group(c *Cluster) int { return groupOf(c, len(d.groups)-1) }

// hasRoom reports whether the limits allow one more deletion.
func (d *deletions) hasRoom(c *Cluster) bool {
	isUnreachable := c.Health == HealthUnreachable
	return d.total.hasRoom(isUnreachable) && d.groups[d.group(c)].hasRoom(isUnreachable)
}

// begin counts a deletion that begins.
func (d *deletions) begin(c *Cluster) { d.take(c, c.Health == HealthUnreachable) }

func (d *deletions) take(c *Cluster, isUnreachable bool) {
	d.total.take(isUnreachable)
	d.groups[d.group(c)].take(isUnreachable)
}

func (p *slots) hasRoom(isUnreachable bool) bool {
	if isUnreachable {
		return p.taken+p.takenUnreachable < p.limit
	}
	return p.taken < p.limit
}

func (p *slots) take(isUnreachable bool) {
	if isUnreachable {
		p.takenUnreachable++
		return
	}
	p.taken++
}

// paceReplacements limits the replacements that are caused by a change of the Cluster itself, or by a return to the
// last known good revision. Other changes of a Cluster are applied at once. But a replacement uninstalls a release
// before the next one is installed, so it needs a slot. A return does not wait for a slot if the release is not ready:
// it is a repair.
func (p *plan) paceReplacements(steps []Step) {
	var replaced []int
	for i := range steps {
		c := &p.in.Clusters[i]
		if steps[i].Action != ActionReplace {
			continue
		}
		if p.isReturning(c) && c.Health != HealthReady {
			p.deletions.begin(c)
			continue
		}
		replaced = append(replaced, i)
		if p.standings[i] == standingInFlight && (c.Health == HealthFailed ||
			c.Health == HealthReady && (p.isReturning(c) || p.soaked(c))) {
			// The Cluster is in flight only because of the replacement. It counts again when there is a free slot. A return
			// does not wait for the soak time of the revision that it leaves.
			p.move(i, standingPending)
		}
	}
	for _, i := range replaced {
		c := &p.in.Clusters[i]
		isLate := p.standings[i] == standingPending && p.isLate(c)
		isCounted := p.standings[i] == standingInFlight
		if c.Health == HealthUnreachable || !p.deletions.hasRoom(c) || !isCounted && !p.hasRoom(p.group(c), isLate) {
			steps[i] = p.leave(c,
				"the release changes its name or namespace, but maxUnavailable is reached or the Cluster is unreachable")
			continue
		}
		p.deletions.begin(c)
		if !isCounted {
			p.move(i, standingInFlight)
		}
	}
}
