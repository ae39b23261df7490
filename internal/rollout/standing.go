// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// standing is the state of a Cluster in the rollout.
type standing uint8

const (
	// standingOut is a Cluster that does not count. It cannot be served, is new, or is unreachable for reasons other than
	// the revision.
	standingOut standing = iota

	// standingJoining is a new Cluster that has the revision and is in flight.
	standingJoining

	// standingUnobserved is a new Cluster that may have a release of another owner, or of a lost child. It delays its
	// wave, but takes no slot.
	standingUnobserved

	// standingUnread is a Cluster of the first revision in which HelmOp has not looked for a release yet. The release may
	// be of a lost child.
	standingUnread

	// standingConflict is a new Cluster of the first revision with the release of another owner, which may be a lost child
	// of another management cluster. A user then permits the takeover.
	standingConflict

	// standingJoined is a new Cluster that has the revision and is done.
	standingJoined

	// standingUnreachable is a Cluster that is outdated and unreachable.
	standingUnreachable

	// standingPaused is a Cluster that is outdated and paused.
	standingPaused

	// standingPinned is a Cluster that a user has pinned to a revision.
	standingPinned

	// standingBlocked is a Cluster that waits for dependencies, updated or not.
	standingBlocked

	// standingDeferred is a Cluster that waits for maintenance at a known time, updated or not.
	standingDeferred

	// standingVetoed is an outdated Cluster that waits for maintenance at an unknown time.
	standingVetoed

	// standingUnknown is an outdated Cluster whose desired release is unknown.
	standingUnknown

	// standingUnapproved is an outdated Cluster whose desired release waits for an approval.
	standingUnapproved

	// standingAdoptionHeld is a Cluster with the release of another owner. The adoption would change this release.
	standingAdoptionHeld

	// standingUnreachableAfterUpdate is a Cluster that was updated and became unreachable afterwards.
	standingUnreachableAfterUpdate

	// standingUnreachableAfterReady is a Cluster that was updated and done, and became unreachable afterwards.
	standingUnreachableAfterReady

	// standingPending is an outdated Cluster that can be updated.
	standingPending

	// standingInFlight is a Cluster that was updated and is neither done nor failed.
	standingInFlight

	// standingDone is a Cluster that was updated and was ready for the whole soak time.
	standingDone

	// standingFailed is a Cluster that was updated and failed, or whose desired release cannot be rendered.
	standingFailed

	// standingExcused is a Cluster that failed, but had failed before the update.
	standingExcused

	standings
)

// tally counts the Clusters of one wave, or all Clusters.
type tally struct {
	selected int
	by       [standings]int

	// late counts the pending Clusters that are still in flight to another revision.
	late int

	// retrying counts the failed and excused Clusters in which another attempt is under way.
	retrying int

	// unrepaired counts the Clusters that do not count as failed now, but whose failure was not repaired.
	unrepaired int

	// opens is when the first Cluster that waits for maintenance may be changed; zero if there is none.
	opens time.Time
}

// unfinished returns the number of Clusters that delay their wave.
func (t *tally) unfinished() int {
	return t.by[standingPending] + t.by[standingInFlight] + t.by[standingUnobserved]
}

// outdated returns the number of outdated Clusters that cannot be updated now.
func (t *tally) outdated() int {
	return t.by[standingUnreachable] + t.by[standingBlocked] + t.by[standingPaused] + t.by[standingUnknown] +
		t.by[standingUnapproved] + t.by[standingAdoptionHeld] + t.by[standingVetoed]
}

// unreachable returns the number of Clusters that became unreachable after their update.
func (t *tally) unreachable() int {
	return t.by[standingUnreachableAfterUpdate] + t.by[standingUnreachableAfterReady]
}

// untried returns the number of Clusters that do not show whether the revision works: they could not be updated, or
// became unreachable after their update, or HelmOp has not managed a release in them with the first revision.
func (t *tally) untried() int {
	return t.outdated() + t.unreachable() + t.by[standingUnread] + t.by[standingConflict]
}

// usedSlots returns the number of used slots. Clusters that became unreachable after they were done take slots only if
// they are more than the done Clusters: the revision may be the cause, and further updates must wait. Otherwise, enough
// Clusters still work with the revision.
func (t *tally) usedSlots() int {
	return t.by[standingInFlight] + t.retrying + t.by[standingUnreachableAfterUpdate] + max(
		0,
		t.by[standingUnreachableAfterReady]-t.by[standingDone],
	)
}

// counting returns the number of Clusters whose health shows, now or soon, whether the revision works.
func (t *tally) counting() int {
	return t.unfinished() + t.by[standingDone] + t.by[standingFailed] + t.by[standingExcused]
}

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
// count as failed now because it is paused or unreachable, waits, or gets a changed spec.
func (p *plan) isUnrepaired(c *Cluster) bool {
	if !c.Selected || c.Gone || c.Deleting || c.Child == nil || c.Child.Deleting || c.Child.Revision != p.goal ||
		c.Child.Joined || c.Child.FailedBefore || c.Health == HealthReady {
		return false
	}
	return c.Health == HealthFailed || c.Child.HasFailures ||
		c.Health == HealthUnreachable && !c.WasReady && p.mayHaveBroken(c)
}

// opensAt records when a Cluster that waits for maintenance may be changed.
func (t *tally) opensAt(opens time.Time) {
	if t.opens.IsZero() || opens.Before(t.opens) {
		t.opens = opens
	}
}

// move changes the standing of a Cluster because of its step.
func (p *plan) move(i int, to standing) {
	c := &p.in.Clusters[i]
	p.count(c, p.standings[i], -1)
	p.count(c, to, 1)
	p.standings[i] = to
}

func (p *plan) standingOf(c *Cluster) standing {
	switch {
	case !c.Selected || c.Gone || c.Deleting:
		return standingOut
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

// pacing is the order in which the Clusters of a wave are updated.
type pacing uint8

const (
	paceLate pacing = iota
	paceNotReady
	paceReady
	pacings
)

func (p *plan) pacing(c *Cluster) pacing {
	switch {
	case p.isLate(c):
		return paceLate
	case c.Health != HealthReady:
		return paceNotReady
	default:
		return paceReady
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

// isUnread reports whether HelmOp has not read the release of a Cluster with the first revision yet, or may not take it
// over. After a restore, this may be the release of a lost child.
func (p *plan) isUnread(c *Cluster) bool {
	return p.state.First && c.Pin == nil && (c.Child == nil ||
		c.Child.Joined && !c.Child.Deleting && !c.WasReady && (c.Child.Unread || c.Child.Foreign))
}

// soaked reports whether a ready Cluster was ready for its whole soak time. If it was not, soaked schedules the next
// plan.
func (p *plan) soaked(c *Cluster) bool {
	soak := p.soak(p.group(c))
	if soak <= 0 {
		return true
	}
	left := soak
	if !c.ReadySince.IsZero() {
		left = c.ReadySince.Add(soak).Sub(p.in.Now)
	}
	if left <= 0 {
		return true
	}
	p.wakeAfter(left)
	return false
}

// wakeAfter schedules the next plan after a time or earlier.
func (p *plan) wakeAfter(left time.Duration) {
	if p.requeueAfter == 0 || left < p.requeueAfter {
		p.requeueAfter = left
	}
}

// wakeAt schedules the next plan at the time when a Cluster may be changed, or earlier.
func (p *plan) wakeAt(opens time.Time) { p.wakeAfter(max(time.Millisecond, opens.Sub(p.in.Now))) }

func (p *plan) soak(group int) time.Duration {
	if group < len(p.in.Strategy.Waves) {
		return p.in.Strategy.Waves[group].Soak
	}
	return p.in.Strategy.Soak
}

// group returns the index of a Cluster's wave. The last group is for Clusters in no wave.
func (p *plan) group(c *Cluster) int {
	if c.Wave < 0 || c.Wave > len(p.in.Strategy.Waves) {
		return len(p.in.Strategy.Waves)
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
