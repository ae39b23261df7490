// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// otherShardOf returns the message for a release that is not reconciled because its Cluster is of another shard than
// its HelmOp. It is empty if both are of the same shard.
func otherShardOf(shard string, release *addonsv1.HelmOpRelease, cluster *unstructured.Unstructured) string {
	if apiutil.IsOfShard(cluster, shard) {
		return ""
	}
	return apiutil.OtherShardMessage(cluster, release)
}

// otherShardRetry is the delay between two checks whether a Cluster of another shard still exists. Its deletion causes
// no event in this manager.
const otherShardRetry = 5 * time.Minute

// reportOtherShard reports that a release is not reconciled because its Cluster is of another shard. A change of the
// shard label causes an event. The deletion of the Cluster does not, so the next pass is due after a delay: the
// HelmOpRelease of a deleted Cluster can be removed.
func (r *Reconciler) reportOtherShard(scope *releaseScope) ctrl.Result {
	r.dropObjectState(client.ObjectKeyFromObject(scope.release))
	report.SetPaused(scope.release, false, "")
	report.SetNotReady(scope.release, addonsv1.OtherShardReason, scope.otherShard)
	if !scope.release.DeletionTimestamp.IsZero() {
		return ctrl.Result{RequeueAfter: queue.Spread(downRetry, scope.release)}
	}
	return ctrl.Result{RequeueAfter: queue.Spread(otherShardRetry, scope.release)}
}

// stillServes reads a release again right before an action begins. It returns nil if the release is no longer of this
// shard. The manager that has begun an action also completes it; other managers see from Helm's record that it is
// running.
func (r *Reconciler) stillServes(ctx context.Context, scope *releaseScope) (*addonsv1.HelmOpRelease, error) {
	current := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.release), current); err != nil {
		scope.isOfOtherShard = apierrors.IsNotFound(err)
		return nil, client.IgnoreNotFound(err)
	}
	return current, nil
}

// mayBegin reports whether this manager still serves a release and the release was not deleted since the pass began. It
// is called right before a change in a cluster. If it returns false, the event of the change starts the next pass. An
// action must be registered before the call, so that no deletion is missed.
func (r *Reconciler) mayBegin(ctx context.Context, scope *releaseScope) (bool, error) {
	current, err := r.stillServes(ctx, scope)
	return current != nil && current.UID == scope.release.UID && current.DeletionTimestamp.IsZero(), err
}
