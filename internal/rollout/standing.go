// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// standing is how a Cluster stands to the revision that the Clusters are to have.
type standing uint8

const (
	// standingOut does not count: the Cluster cannot be served, or is new, or does not answer and that is not the revision's fault.
	standingOut standing = iota

	// standingJoining is new, has the revision and is on its way.
	standingJoining

	// standingJoined is new, has the revision and is done.
	standingJoined

	// standingAway is not told, because it does not answer.
	standingAway

	// standingPaused is not told, because it is paused.
	standingPaused

	// standingBlocked waits for HelmOps that come first, be it told or not.
	standingBlocked

	// standingUnknown is not told, because what it is to have is not known.
	standingUnknown

	// standingLost was told, and does not answer since.
	standingLost

	// standingDark was told and done, and does not answer since.
	standingDark

	// standingPending is yet to be told.
	standingPending

	// standingInFlight is told and on its way.
	standingInFlight

	// standingDone is told and ready for its soak time.
	standingDone

	// standingFailed is told and failed, or cannot be told because what it is to have cannot be rendered.
	standingFailed

	// standingExcused is failed as well, but was before.
	standingExcused

	standings
)

// tally counts the Clusters of a wave, or all.
type tally struct {
	selected int
	by       [standings]int

	// late are the pending ones that are still on their way to another revision.
	late int
}

// unfinished are those that hold their wave.
func (t *tally) unfinished() int {
	return t.by[standingPending] + t.by[standingInFlight]
}

// untold are those that have another revision and cannot be told now.
func (t *tally) untold() int {
	return t.by[standingAway] + t.by[standingBlocked] + t.by[standingPaused] + t.by[standingUnknown]
}

// silent are those that were told and do not answer since.
func (t *tally) silent() int {
	return t.by[standingLost] + t.by[standingDark]
}

// taken are the places that are held. Those who were done before they went dark hold one only where they outnumber the done: if that is
// what becomes of a Cluster that has the revision, those that are told next must not go the same way. If it is not, one that
// is done is soon found.
func (t *tally) taken() int {
	return t.by[standingInFlight] + t.by[standingLost] + max(0, t.by[standingDark]-t.by[standingDone])
}

// counting are those that say something about the revision, now or soon.
func (t *tally) counting() int {
	return t.unfinished() + t.by[standingDone] + t.by[standingFailed] + t.by[standingExcused]
}

// survey finds out how each Cluster stands.
func (p *plan) survey() {
	p.total, p.isKnown, p.requeueAfter = tally{}, false, 0
	clear(p.groups)
	for i := range p.in.Clusters {
		c := &p.in.Clusters[i]
		s := p.stand(c)
		p.standings[i] = s
		group := &p.groups[p.group(c)]
		group.by[s]++
		p.total.by[s]++
		if c.Selected && !c.Gone {
			group.selected++
			p.total.selected++
			p.isKnown = p.isKnown || p.release(c) != nil
		}
		if s == standingPending && p.isLate(c) {
			group.late++
			p.total.late++
		}
	}
}

// move changes how a Cluster stands, because of the step that it takes.
func (p *plan) move(i int, to standing) {
	c := &p.in.Clusters[i]
	group, from := &p.groups[p.group(c)], p.standings[i]
	if from == standingPending && p.isLate(c) {
		group.late--
		p.total.late--
	}
	if to == standingPending && p.isLate(c) {
		group.late++
		p.total.late++
	}
	group.by[from]--
	p.total.by[from]--
	group.by[to]++
	p.total.by[to]++
	p.standings[i] = to
}

func (p *plan) stand(c *Cluster) standing {
	switch {
	case !c.Selected || c.Gone || c.Deleting || !c.Initialized:
		return standingOut
	case c.Paused && c.Child != nil && c.Child.Revision != p.goal && !p.isReturning(c) && !p.hasGoalAlready(c):
		return standingPaused
	case c.Paused:
		return standingOut
	case c.Child == nil && p.isNew(c):
		return standingOut
	case c.Child == nil:
		return p.standUntold(c)
	case c.Child.Deleting:
		return p.standEnding(c)
	case p.isReturning(c):
		return p.standReturning(c)
	case c.Child.Revision == p.goal && c.Child.Joined:
		return asNew(p.standTold(c, c.Child.FailedBefore))
	case c.Child.Revision == p.goal:
		return p.standTold(c, c.Child.FailedBefore)
	case p.hasGoalAlready(c):
		return p.standTold(c, p.failedBefore(c))
	default:
		return p.standUntold(c)
	}
}

// standEnding is about a release that ends so that another one can follow. That it cannot end proves nothing against the
// revision, which has not been tried yet.
func (p *plan) standEnding(c *Cluster) standing {
	switch {
	case c.Health == HealthUnreachable && p.isTrial():
		return standingLost
	case c.Health == HealthUnreachable:
		return standingAway
	case c.Health == HealthFailed:
		return standingExcused
	default:
		return standingInFlight
	}
}

// standReturning is about a Cluster that has the revision that was given up.
func (p *plan) standReturning(c *Cluster) standing {
	switch {
	case !p.canReturn(c) || c.Health == HealthUnreachable:
		return standingOut
	case c.Blocked:
		return standingBlocked
	default:
		return standingInFlight
	}
}

func (p *plan) standUntold(c *Cluster) standing {
	isInvalid := !p.givenUp && c.Target == nil && c.TargetInvalid
	switch {
	case isInvalid && !c.Known:
		// It is new, and has the last good revision for this very reason.
		return standingOut
	case isInvalid && p.failedBefore(c):
		return standingExcused
	case isInvalid:
		return standingFailed
	case c.Health == HealthUnreachable:
		return standingAway
	case p.release(c) == nil:
		return standingUnknown
	case c.Blocked:
		return standingBlocked
	default:
		return standingPending
	}
}

func (p *plan) standTold(c *Cluster, failedBefore bool) standing {
	release := p.release(c)
	changes := release != nil && !sameContent(c.Child.Release, *release)
	switch {
	case c.Health == HealthUnreachable && p.canBeLost(c) && c.WasReady && c.ReadyFor >= p.soak(p.group(c)):
		return standingDark
	case c.Health == HealthUnreachable && p.canBeLost(c):
		return standingLost
	case c.Health == HealthUnreachable:
		return standingOut
	case c.Blocked && (changes || c.Health == HealthProgressing):
		return standingBlocked
	case changes:
		// It is told so in this plan: how it fares now says nothing about that.
		return standingInFlight
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

// isTrial tells if the revision has yet to prove itself.
func (p *plan) isTrial() bool {
	return !p.givenUp && p.state.Phase != PhaseComplete
}

// canBeLost tells if a Cluster that has what is wanted and does not answer may be so because of that. It is not if the last good revision
// makes the same of it.
func (p *plan) canBeLost(c *Cluster) bool {
	has := c.Target
	if has == nil && c.Child != nil {
		has = &c.Child.Release
	}
	return p.isTrial() && (c.Good == nil || has == nil || !sameContent(*c.Good, *has))
}

// isLate tells if a Cluster that is yet to be told is still on its way to another revision that was never good, or will be because it
// changed itself. It is not available, so it holds a place for itself.
func (p *plan) isLate(c *Cluster) bool {
	if c.Child == nil || c.Child.Joined || c.Child.Revision <= p.state.Good {
		return false
	}
	return c.Health == HealthProgressing || c.Own != nil && !sameContent(c.Child.Release, *c.Own)
}

// pacing is the order in which the Clusters of a wave are told.
type pacing uint8

const (
	paceLate pacing = iota
	paceUnwell
	paceReady
	pacings
)

func (p *plan) pacing(c *Cluster) pacing {
	switch {
	case p.isLate(c):
		return paceLate
	case c.Health != HealthReady:
		return paceUnwell
	default:
		return paceReady
	}
}

// asNew turns the standing of a Cluster into that of one that was new.
func asNew(s standing) standing {
	switch s {
	case standingDone:
		return standingJoined
	case standingInFlight:
		return standingJoining
	default:
		return standingOut
	}
}

// soaked tells if a ready Cluster has been ready for long enough, and sees to it that the plan is made again when it has.
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
	if p.requeueAfter == 0 || left < p.requeueAfter {
		p.requeueAfter = left
	}
	return false
}

func (p *plan) soak(group int) time.Duration {
	if group < len(p.in.Strategy.Waves) {
		return p.in.Strategy.Waves[group].Soak
	}
	return p.in.Strategy.Soak
}

// group is the index of a Cluster's wave; Clusters in no wave are the last group.
func (p *plan) group(c *Cluster) int {
	if c.Wave < 0 || c.Wave > len(p.in.Strategy.Waves) {
		return len(p.in.Strategy.Waves)
	}
	return c.Wave
}

// isNew tells if a Cluster without a child has never had one. With the first revision every Cluster is new to the HelmOp.
func (p *plan) isNew(c *Cluster) bool {
	return !c.Known || p.state.Revision <= 1
}

// isReturning tells if a Cluster has the revision that was given up.
func (p *plan) isReturning(c *Cluster) bool {
	return p.givenUp && c.Child.Revision == p.state.Revision
}

// canReturn tells if it is known what a Cluster had under the last good revision.
func (p *plan) canReturn(c *Cluster) bool {
	return c.Good != nil || c.Child.Previous == p.state.Good
}

// release is what a Cluster is to have; nil if that cannot be told.
func (p *plan) release(c *Cluster) *Release {
	if p.givenUp {
		return c.Good
	}
	return c.Target
}

// hasGoalAlready tells if the revision that a Cluster is to have makes the same of it as its own one.
func (p *plan) hasGoalAlready(c *Cluster) bool {
	release := p.release(c)
	return release != nil && (sameContent(c.Child.Release, *release) || c.Own != nil && sameContent(*c.Own, *release))
}

// failedBefore tells if a failure of a Cluster that is told another revision now proves nothing against that one: it failed under
// a revision that was good, be it that it was told another one in between and has not been ready since.
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
