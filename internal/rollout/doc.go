// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout plans which Clusters of a HelmOp get the current HelmOp revision, and when. It consists of pure
// functions over plain structs: it uses no clients and no clocks. The caller carries out the plan, and plans again
// after each change.
//
// A plan depends only on the Clusters, their releases and the State. The State is small and is stored in the
// HelmOpRevision. So a restarted manager, or a manager in another management cluster after a move, continues the
// rollout.
//
// # Duties of the caller
//
//   - Store the State before you carry out the steps.
//   - Plan with the newest specs of the HelmOpReleases (here called children). With older specs, a plan can update more
//     Clusters than the limits allow.
//   - If approvals are required and a plan changes the goal of the rollout, do not carry out the plan: plan again. The
//     approvals were decided for the previous goal.
//   - The health of a child must be the health for its current spec, not for an earlier one.
//
// # Which Clusters count
//
// A Cluster counts in a rollout if it is selected, can be served and is not new. A Cluster is new if it has no child,
// if its only child was created for the current revision, or if its child was assigned to a former Cluster. For the
// first known revision, all Clusters are new. There is an exception: a Cluster without a child is not new if it existed
// when the rollout began. Such a Cluster has no child because its release was deleted to be replaced. Without the
// exception, a new release name would make all Clusters new, and waves and budget would have no effect.
//
// The child of such a Cluster may also have been lost. So a new child must not change a release that it has not
// installed, until the plan assigns the revision again, as an update. Until then, its Cluster is pending.
//
// If the revision cannot be rendered for a new Cluster, this does not count as a failure of the revision.
//
// Each Cluster that counts is in one of these states:
//
//   - done: ready for the whole soak time
//   - in flight: updated, but neither done nor failed
//   - failed: until another attempt succeeds. An attempt under way takes a slot, but does not delay the wave
//   - excused: failed, but it had already failed under a good revision
//   - unreachable after the update
//   - pending: not updated yet
//
// A Cluster that was unreachable before its update does not count. It does not delay its wave and takes no slot. It is
// updated when it responds again. The same applies to a Cluster whose update waits for a dependency, and to a Cluster
// whose desired release is unknown. The exceptions are described under Waves.
//
// If a dependency becomes unready after the update began, the Cluster stays in flight: the update may be the reason.
//
// A Cluster that becomes unreachable after its update may have a broken CNI, and it is unknown whether its update
// finished. So it keeps its slot until it responds again or is paused, and its wave does not pass because of it. This
// does not apply to new Clusters, and to Clusters whose release is the same under the last known good revision.
//
// # What is not paced
//
//   - A new Cluster gets a release at once. It gets the current revision if its wave has begun, otherwise the last
//     known good revision. Without a good revision it gets the current revision, unless the rollout of this revision
//     was rolled back or aborted. If the good revision cannot be rendered, a new Cluster does not get a current
//     revision whose failure budget is spent.
//   - A re-created Cluster whose child was assigned to the former Cluster gets the release that a new Cluster gets. If
//     this release has another name, it replaces the release of the child, but not before this release was read.
//   - A Cluster without a child that is not new waits for its wave if the last known good revision cannot be rendered.
//   - A change of the Cluster itself is applied at once, under the revision of the Cluster, even if the rollout is
//     paused.
//   - A Cluster whose release is the same under both revisions is updated at once, even if the rollout is paused,
//     because nothing changes in the Cluster.
//   - After a rollback or an abort, all Clusters return at once, because repairs come first. Unreachable Clusters are
//     assigned the good revision too. Otherwise they would install the broken revision when they respond again. A
//     Cluster that still has the broken revision during the rollout of a later one returns too, unless the plan updates
//     it, or a later revision is good. If the return of a ready Cluster replaces its release, it is paced, see
//     Deletions.
//
// # Approval
//
// While the current revision is not approved, it is assigned to no Cluster, even if it changes nothing there. The
// rollout does not complete. New Clusters get the last known good revision. Without one, they get nothing. An abort,
// which replaces the current revision, needs no approval.
//
// A change of a Cluster itself waits for an approval too. The Cluster keeps its release until then. If the Cluster is
// outdated, it does not delay its wave and takes no slot, like a Cluster that waits for a dependency. If the Cluster
// already has the revision, it counts with its current release. [Cluster] and [Input] say what is not approved. Package
// approval decides this.
//
// # Maintenance
//
// A Cluster whose windows are closed keeps its release. It takes no slot and does not use the failure budget, whatever
// its health is. If it is known when the Cluster may be changed, the Cluster delays the completion of the rollout. It
// also delays its wave until the wave is promoted. Without this rule, no failure budget would protect the Clusters
// whose windows open later. If this time is not known, for example because of a veto, the Cluster counts as paused. New
// Clusters, returns to the last known good revision and pins do not wait, unless the caller requests it, see
// [Deferral].
//
// # Pins
//
// A user may pin a Cluster to another revision. The Cluster then does not count. It takes no slot and is in no wave. It
// is assigned the pinned revision at once, even if the rollout is paused. It keeps this revision, however the rollout
// ends. A change of the Cluster itself is applied under the pinned revision. If a pin cannot be carried out, the
// Cluster keeps its current revision. When the pin ends, the Cluster is treated like any other outdated Cluster.
//
// # Deletions
//
// Releases of Clusters that are no longer selected are deleted within MaxUnavailable, wave by wave. They are counted
// separately from updates. A paused rollout and a missing confirmation stop all these deletions. A spent failure budget
// does not stop them.
//
// A change of a Cluster, or a return to the last known good revision, may change the name or the namespace of its
// release. The release is then replaced. A replacement takes one slot of the deletions and one slot of the updates. It
// waits while its Cluster is unreachable. But the return of a Cluster that is not ready does not wait.
//
// If a Cluster does not exist or is under deletion, its release is deleted with the Cluster. Such a Cluster does not
// count and does not wait. The deletion of the HelmOp itself stays within the limits, and does not wait for anything
// else.
//
// # Waves
//
// A wave has passed when no Cluster in it is in flight or pending, and one of these is true:
//
//   - at least one Cluster is done
//   - no Cluster in it counts
//   - its failures were acknowledged, and no Cluster is unreachable after its update
//   - it was promoted
//
// If no Cluster is done, the wave does not pass while a Cluster is unreachable after its update, waits for a dependency
// or has an unknown desired release. For example, two dependent HelmOps change at the same time. Then the first wave of
// the second HelmOp always waits for the first HelmOp. Without this rule, later waves would begin before that wave. The
// same applies with the first known revision if the release of a new Cluster has another owner: it may be the release
// of a lost child, and a user may permit the takeover in a later wave first.
//
// A manual wave always needs a promotion. The promotion of a later wave includes all earlier waves. A promotion has no
// effect on a wave that is unfinished.
//
// Within a wave, Clusters that are not ready are updated first. A Cluster that is still in flight to an earlier
// revision that never completed takes a slot, because it is unavailable too.
//
// When the first Cluster of a later wave is updated, the wave is closed permanently. Clusters that join a closed wave
// later, or become unhealthy, are updated within the limits but do not delay the rollout. No wave is closed before this
// update. So a short network outage does not open all waves.
//
// # How a rollout ends
//
// A rollout is complete, and its revision is good, when all of these are true:
//
//   - no Cluster is in flight or pending
//   - at least one Cluster is done; a new Cluster also counts here, but the rollout waits for new Clusters only if
//     there are no others
//   - the number of Clusters that are done is at least the number of Clusters that could not be updated or became
//     unreachable after their update. With the first known revision, this includes new Clusters in which HelmOp has not
//     looked for a release yet, or has found the release of another owner: after a restore, all Clusters are new
//
// A HelmOp without Clusters never completes, because its revision is untested. New Clusters still get this revision.
// Clusters that can be updated only after the completion are updated within the limits, without waves and budget.
//
// The failure budget is a number of Clusters. It is spent when this many Clusters are failed at the same time. Failures
// that a user acknowledged with a request to continue do not count until they are repaired. A spent budget pauses the
// rollout. If rollback is configured and there is a good revision, it rolls back to the good revision instead. A pause
// lasts until a request to continue, even if the failures are repaired.
//
// A request to abort takes precedence over a request to continue, even if there is no good revision. A user must remove
// the request to abort first. No request changes a rollout that is complete, rolled back or aborted.
package rollout
