// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approval decides which changes of a rollout wait for an approval, see spec.rollout.approval of a HelmOp. It
// consists of pure functions and stores nothing. The caller passes the decision to the plan of the rollout. Before the
// plan is carried out, the caller must store the approved hashes in the HelmOpRevision.
//
// A user approves a digest over the inputs of the releases of all selected Clusters, in the goal of the rollout: the
// [Digest] of the [Hash] of each release. The digest and the hashes do not depend on the revisions that the Clusters
// have already. So the progress of the rollout does not change the digest. Only the current digest can be approved. So
// the approved inputs are the inputs that the user could see. Clusters that are pinned to a revision are not in the
// digest. A preview computes the same digest with [HashOfSpec] and [Digest].
//
// # What needs an approval
//
//   - Every HelmOp revision, before it is assigned to any Cluster. A revision whose rollout was complete before
//     approvals were required counts as approved.
//   - Each later change of the inputs of a release in a Cluster that has one.
//
// # What does not
//
//   - The first release of a Cluster, under an approved revision. If the Cluster is new since the approval and has the
//     last known good revision until its wave begins, its update needs no approval either.
//   - A return to the last known good revision after a rollback or an abort.
//   - A pin of one Cluster to a revision that was rolled out completely, or in which its release was approved.
//   - A step that changes no input: a retry, the correction of drift, a deletion, or a change of the deletion policy.
package approval
