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

	// standingUnknown is an outdated Cluster whose desired release is unknown, or whose release HelmOp has not read since
	// a move or a restore.
	standingUnknown

	// standingUnapproved is an outdated Cluster whose desired release waits for an approval.
	standingUnapproved

	// standingAdoptionHeld is a Cluster with the release of another owner. The adoption would change this release.
	standingAdoptionHeld

	// standingUnreachableAfterUpdate is a Cluster that was updated and became unreachable afterwards, or whose release
	// HelmOp has not read since a move or a restore.
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

// opensAt records when a Cluster that waits for maintenance may be changed.
func (t *tally) opensAt(opens time.Time) {
	if t.opens.IsZero() || opens.Before(t.opens) {
		t.opens = opens
	}
}
