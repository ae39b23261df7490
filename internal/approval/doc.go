// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approval decides what of a rollout waits for an approval, see spec.rollout.approval of a HelmOp. It consists
// of pure functions. The controller passes the decision to the plan of the rollout, and stores what was approved in the
// HelmOpRevision before the plan is carried out.
//
// A user approves a digest over the inputs of the releases of all selected Clusters, as the goal of the rollout has
// them: [Digest] of the [Hash] of each release. Neither depends on what the Clusters have already, so the progress of
// the rollout changes no digest. Only the digest of the moment can be approved, so what is approved is what the user
// could look at. Clusters that are pinned to a revision are not in the digest. A preview computes the same digest with
// [HashOfSpec] and [Digest].
//
// # What needs an approval
//
//   - Every HelmOp revision, before it is assigned to any Cluster. A revision whose rollout was complete before
//     approvals were required counts as approved.
//   - Each later change of the inputs of a release in a Cluster that has one.
//
// # What does not
//
//   - The first release of a Cluster, under an approved revision.
//   - A return to the last known good revision after a rollback or an abort.
//   - A pin of one Cluster to a revision that was rolled out completely, or in which its release was approved.
//   - A step that changes no input: retries, the correction of drift, deletions, changes of the deletion policy.
package approval
