// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// remembered returns what is known about a release's records without another read. ok is false if nothing is known, if
// a newer read is under way, or if a user has requested a retry: the reason may be a change by hand. A list of all
// records of the Cluster may show that a new release has none.
func (r *Reconciler) remembered(p *releasePass) (result *recordreads.Result, ok bool) {
	key := recordreads.KeyOf(p.release, p.target, p.desired)
	if r.reads.IsUnderWay(key) || p.subject().NewRetryRequest() != "" {
		return nil, false
	}
	if p.mayBeNew {
		result = r.reads.NoRecords(apiutil.ClusterKey(p.release), p.desired.Namespace)
		return result, result != nil
	}
	return r.memoryOf(p.release).Records.Take(key, p.release)
}

// mayUseKept reports whether the decision of the pass may be based on records that were not read in this pass.
func (p *releasePass) mayUseKept() bool {
	return p.kept.Permits(p.decision, p.policy) && isAsLeft(p.kept.Left, p.snapshot)
}

// isAsLeft reports whether the watches show the objects of a release as an action has left them. If another program has
// changed an object since then, it may have changed the records, too. The same is true if the watches began again: the
// cluster may have been restored from a backup. Right after the action, the watches may not show all objects yet: a
// pass follows when they do. left is nil if there was no action.
func isAsLeft(left *recordreads.Left, snapshot *objectwatch.Snapshot) bool {
	if left == nil {
		return true
	}
	if snapshot == nil || snapshot.Err != nil || !snapshot.Synced && !left.IsNew() {
		return false
	}
	for ref, generation := range left.Objects {
		state := snapshot.Objects[ref]
		if !state.Known {
			continue // The object is listed from time to time.
		}
		isSame := generation.UID == "" || state.UID == generation.UID
		if !state.Exists || !isSame || state.Generation > generation.Number || state.WatchError != nil {
			return false
		}
	}
	return true
}

// keepForAction keeps the records that a pass has read, for the pass that follows when the chart is there or a slot is
// free. If there was only a list of all records of the Cluster, that pass may use such a list, too.
func (r *Reconciler) keepForAction(p *releasePass) {
	records := &r.memoryOf(p.release).Records
	if p.observation.Assumed {
		records.Unread(p.mark)
		return
	}
	records.KeepForAction(p.mark, recordreads.KeyOf(p.release, p.target, p.desired), p.observation)
}

// keepLeft keeps the records as an action has left them, for the passes that follow because the objects become healthy.
// Watches of the records follow drift: such a pass may follow because another program has written a record.
func (r *Reconciler) keepLeft(p *releasePass, result helmclient.Result) {
	spec := &p.release.Spec
	if result.Changes == nil || !releasespec.FollowsHealth(spec) ||
		releasespec.DriftModeOf(spec) != addonsv1.DriftModeDisabled {
		return
	}
	if left, ok := p.observation.After(result.Changes); ok {
		r.memoryOf(p.release).Records.KeepLeft(p.mark, recordreads.KeyOf(p.release, p.target, p.desired), left,
			recordreads.LeftFor(p.release, result.Generations))
	}
}

// readAgain drops what is known about the records of a release, so that the next pass that needs them reads them. In
// contrast to outdateRecords, it does nothing before the first read: this read still follows, and only a first read is
// shared with other releases and kept for another pass.
func (r *Reconciler) readAgain(release *addonsv1.HelmOpRelease) {
	if known := r.memories.Known(client.ObjectKeyFromObject(release)); known != nil && !known.Records.IsUnread() {
		known.Records.Outdate()
	}
}

// outdateRecords drops what is known about the records of a release, because another release has changed them. In
// contrast to readAgain, it also does so before the first read and the first pass: a read, also one for the pass over
// another release, may be under way, and its result must then not be kept.
func (r *Reconciler) outdateRecords(ctx context.Context, release ctrl.Request) {
	if records := r.recordsOf(ctx, release.NamespacedName); records != nil {
		records.Outdate()
	}
}
