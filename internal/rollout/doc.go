// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout plans which Clusters of a HelmOp move to the current HelmOp revision, and when. It consists of pure
// functions over plain structs, without clients or clocks. The controller carries out the plan, and plans again
// whenever something changes.
//
// A plan depends only on the Clusters, their releases and State. State is small and stored in the HelmOpRevision. A
// manager that restarts, or moves to another management cluster, therefore continues where it was.
//
// # Duties of the caller
//
//   - Write State before carrying out the steps.
//   - Plan with the newest specs of the children. With older ones, a plan can update more Clusters than the limits
//     allow.
//   - If approvals are required, do not carry out a plan that changes the goal of the rollout, but plan again:
//     approvals are decided for the goal before it.
//   - Health must refer to the child's current spec, not to an earlier one.
//
// # Which Clusters count
//
// A Cluster counts if it is selected, can be served and is not new. A Cluster is new if it has no child, or only one
// created for the current revision. For the first revision, all Clusters are new. A Cluster without a child is not new
// if it existed when the rollout began: its release was deleted to be replaced. Otherwise, a new release name would
// make the whole fleet new and disable waves and budget.
//
// If the revision cannot be rendered for a new Cluster, that is not a failure of the revision.
//
// Each Cluster that counts has one of these states:
//
//   - done: ready for its soak time
//   - in flight: updated, and neither done nor failed
//   - failed
//   - excused: failed, but it had failed already under a good revision
//   - unreachable after the update
//   - pending: not updated yet
//
// Clusters that were unreachable before the update do not count. They hold neither a wave nor a slot within the limits,
// and are updated when they respond again. The same applies to Clusters in which a dependency is not ready, and to
// Clusters whose desired release is unknown, except as described under Waves.
//
// A Cluster that becomes unreachable after its update may have a broken CNI. It keeps its slot within the limits until
// it responds again or is paused, and its wave does not pass because of it. It is unknown whether its update finished.
// New Clusters, and Clusters whose release is identical under the last known good revision, are not treated this way.
//
// # What is not paced
//
//   - New Clusters are served at once. They get the current revision if their wave has begun, otherwise the last known
//     good one. Without a good one they get the current revision, unless it was given up. If there is a good one that
//     cannot be rendered, they do not get a revision whose budget is spent.
//   - A Cluster without a child that is not new waits for its wave if the last known good revision cannot be rendered.
//   - A change of the Cluster itself is applied at once, under the revision that the Cluster has, even if the rollout
//     is paused.
//   - A Cluster whose release is identical under both revisions is updated at once, even if the rollout is paused,
//     because nothing changes in it.
//   - After a revision was given up, all Clusters return at once, because repairs come first. Unreachable Clusters are
//     assigned the good revision, too. Otherwise they would install the broken revision when they respond again.
//
// # Approval
//
// While the current revision is not approved, no Cluster is assigned it, even if it changes nothing there, and the
// rollout does not complete. New Clusters get the last known good revision; without one they get nothing. Replacing the
// current revision by an abort needs no approval.
//
// A change of a Cluster itself waits for its approval, too. The Cluster keeps its release meanwhile. If it is outdated,
// it holds neither a wave nor a slot, like a Cluster that waits for a dependency. If it has the revision already, it
// counts with its present release. [Cluster] and [Input] say what is not approved; internal/approval decides that.
//
// # Maintenance
//
// A Cluster whose windows are closed keeps its release, takes no slot and does not spend the failure budget, whatever
// its present health is. If it is known when it may be changed, it holds its wave until the wave is promoted, and the
// rollout is not complete before: otherwise a fleet that is half closed would lose its budget for the other half. A
// Cluster without such a time, because of a veto for example, is treated like a paused one. New Clusters, returns to
// the last known good revision and pins do not wait, unless the caller asks for it, see [Deferral].
//
// # Pins
//
// A user may pin a Cluster to another revision. The Cluster then does not count, and takes neither a slot nor a place
// in a wave. It is assigned the revision at once, even if the rollout is paused, and keeps it whatever becomes of the
// rollout. A change of the Cluster itself is applied under that revision. A pin that cannot be carried out keeps the
// Cluster where it is. When the pin ends, the Cluster is outdated like any other.
//
// # Deletions
//
// Releases of Clusters that are no longer selected are deleted within MaxUnavailable, wave by wave. They are counted
// separately from updates. A paused rollout and a missing confirmation hold all of these deletions. A spent failure
// budget does not hold them.
//
// A change of a Cluster may change the name or namespace of its release, which replaces the release. A replacement
// takes a slot among the deletions and one among the updates, and waits while its Cluster is unreachable.
//
// A Cluster that does not exist or is under deletion takes its release along. It neither counts nor waits. The deletion
// of the HelmOp itself stays within the limits and waits for nothing else.
//
// # Waves
//
// A wave passes when no Cluster in it is in flight or pending, and one of these is true:
//
//   - at least one Cluster is done
//   - no Cluster in it counts
//   - its failures were acknowledged, and no Cluster is unreachable after its update
//   - it was promoted
//
// Without a Cluster that is done, a wave does not pass if a Cluster is unreachable after its update, waits for a
// dependency or has an unknown desired release. For example, if two dependent HelmOps change at the same time, the
// first wave of the second one always waits for the first one. Without this rule, its later waves would overtake that
// wave.
//
// A manual wave always needs a promotion. The promotion of a later wave includes all earlier waves. A promotion does
// not pass a wave that is unfinished.
//
// Within a wave, Clusters that are not ready are updated first. A Cluster that is still in flight to an earlier
// revision that never completed takes a slot, because it is unavailable, too.
//
// When the first Cluster of a later wave is updated, the wave is closed for good. Clusters that join it later, or
// become unhealthy, are updated within the limits but do not hold the rollout. No wave is closed before that update. A
// short network outage therefore does not open all waves.
//
// # How a rollout ends
//
// A rollout is complete, and its revision good, when all of these are true:
//
//   - no Cluster is in flight or pending
//   - at least one Cluster is done; new Clusters count as proof, but are waited for only if there are no others
//   - at least as many Clusters are done as could not be updated or became unreachable after their update
//
// A HelmOp without Clusters never completes, because its revision is untested. New Clusters get that revision anyway.
// Clusters that can be updated only after completion are updated within the limits, without waves and budget.
//
// The failure budget is spent when that many Clusters are failed at the same time. Failures that were acknowledged with
// a request to continue do not count until they are repaired. A spent budget pauses the rollout or, if configured and
// if there is a good revision, rolls back to that. A pause lasts until a request to continue, even if the failures are
// repaired.
//
// A request to abort takes precedence over a request to continue, even if there is no revision to return to; it must be
// removed first. No request changes a rollout that is complete or was given up.
package rollout
