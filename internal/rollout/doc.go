// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which Clusters may move to what a HelmOp wants now. It is made of pure functions over plain
// structs: it knows no client and no clock. The controller carries out what it plans, and asks again whenever something changed.
//
// Everything that a plan depends on is either what the Clusters and their releases are, or State, which is small and kept with
// the HelmOpRevision. A manager that is restarted, or moved to another management cluster, goes on where it was.
//
// # What the caller owes
//
// State is written before the steps are carried out. A plan is made of children as they were told last: one that is made of older
// ones may tell more Clusters than the limits allow. Health is about what the child says now, not about what it said before.
//
// # Who counts
//
// A Cluster counts if it is selected, can be served and is not new. New is one without a child, and one that has had none but
// under the revision that is wanted; so is, with the first revision, every Cluster. A Cluster that was there before the rollout
// began and has no child is not new: its release was ended to be replaced. Otherwise another name of the release would make the
// whole fleet new, and waves and budget void. That the revision cannot be rendered for a Cluster that came after the rollout began is
// no failure of the revision either.
//
// Those that count are done (ready for their soak time), on their way (told, and neither done nor failed), failed, excused (failed, but
// failed already under a revision that was good), lost, or yet to be told. Those that do not answer, and did not before they were told,
// are none of that: they are not told, hold no wave and no place within the limits, and are told when they are back. So are those in which
// a HelmOp that comes first is not ready, and those for which it is not known what they are to have, with an exception, see below.
//
// Lost is a Cluster that was told and does not answer since: a broken CNI shows itself like that. It holds its place within the limits
// until it is back, or somebody pauses it, and speaks against its wave. Whether it was done before it went is not known. It is not lost if
// it was new, or if the last good revision makes the same of it.
//
// # What is not paced
//
// New Clusters are served at once: with the revision that is wanted if the turn of their wave has come, else with the last good one, else
// with that which is wanted nevertheless, unless it was given up or, if there is a good one, has spent its budget. One without a child
// that is not new waits for its turn in that case. A change of the Cluster itself reaches it at once under the revision
// that it has, whatever holds the rollout. A Cluster of which two revisions make the same is told at once, too, even if the rollout
// is held: nothing happens in it. And the return from a revision that was given up is for all at once, because what is broken is mended
// first; those that do not answer are told as well, lest they take the broken revision when they are back.
//
// # Deletions
//
// The releases of Clusters that are not selected any more are deleted within MaxUnavailable, wave by wave, apart from the Clusters that are
// on their way to a revision. A paused rollout and a missing confirmation hold all of these deletions. A rollout that spent its failure
// budget does not. A release that is replaced, because its name or namespace changed with the Cluster itself, takes a place among the
// deletions and one among the Clusters on their way, and waits while its Cluster does not answer. A Cluster that is gone or under
// deletion takes its release along: it neither counts nor waits. The deletion of the HelmOp itself stays within the limits and waits for
// nothing else.
//
// # Waves
//
// A wave is passed when nobody in it is on the way or yet to be told and at least one Cluster is done; or, with nobody done, if nobody in
// it counts, if its failures were acknowledged and nobody is lost, or if somebody promoted it. A wave with nobody done is otherwise not
// passed if somebody in it is lost, waits for a HelmOp that comes first or cannot be told what the revision means: if two HelmOps of which
// one depends on the other change at once, the first wave of the second always waits so, and the later ones would overtake it. A manual
// wave takes a promotion in any case; that of a later wave is one of the earlier, too. A wave that is not finished is not passed even if it
// is promoted.
//
// Within a wave those that are not ready are told first. One that is still on its way to an earlier revision that was never good holds a
// place against the others, because it is not available either.
//
// Once the first Cluster of a later wave is told, the wave is left behind for good: what comes back into it, or is unwell for a while,
// is told and mended within the limits, but holds nobody. As long as nobody was told, nothing is left behind, so that a network
// that is down for a moment does not open all waves.
//
// # How a rollout ends
//
// It is complete, and its revision a good one, when nobody is on the way or yet to be told, at least one Cluster is done (new ones prove a
// revision as well, but are waited for only if there are no others), and no fewer are done than could not be told or are lost. A HelmOp
// without Clusters is never complete: nobody has tried the revision, and new Clusters get it all the same. What can be told only after that
// is told within the limits; waves and budget do not count any more.
//
// The failure budget is spent when so many are failed at the same time; failures that somebody acknowledged with a request to continue do
// not count, until they are mended. It pauses the rollout or, if that is wanted and there is a good revision, returns to that. A pause
// lasts until a request to continue, though the failures may be mended. A request to abort wins over one to continue, also if there is
// nothing to return to: then it has to be taken back first. What is complete or was given up stays so, and no request changes that.
package rollout
