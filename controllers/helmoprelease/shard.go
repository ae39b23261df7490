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

// otherShardOf is why a release is left alone: its Cluster is of another shard than its HelmOp. It is empty if both
// are of the same shard.
func otherShardOf(shard string, release *addonsv1.HelmOpRelease, cluster *unstructured.Unstructured) string {
	if apiutil.IsOfShard(cluster, shard) {
		return ""
	}
	return apiutil.OtherShardMessage(cluster, release)
}

// otherShardRetry is how often to check whether a Cluster of another shard still exists. There is no event for that.
const otherShardRetry = 5 * time.Minute

// reportOtherShard reports that a release is left alone because its Cluster is of another shard. If the Cluster comes
// into the shard, there is an event. If it is deleted, there is none, and a release under deletion can be forgotten
// then.
func (r *Reconciler) reportOtherShard(scope *releaseScope) ctrl.Result {
	r.dropObjectState(client.ObjectKeyFromObject(scope.release))
	report.SetPaused(scope.release, false, "")
	report.SetNotReady(scope.release, addonsv1.OtherShardReason, scope.otherShard)
	if !scope.release.DeletionTimestamp.IsZero() {
		return ctrl.Result{RequeueAfter: queue.Spread(downRetry, scope.release)}
	}
	return ctrl.Result{RequeueAfter: queue.Spread(otherShardRetry, scope.release)}
}

// stillServes reads a release again right before an action begins. The result is nil if the release is no longer of
// this shard. An action that has begun is ended by its manager; the record of Helm tells other managers.
func (r *Reconciler) stillServes(ctx context.Context, scope *releaseScope) (*addonsv1.HelmOpRelease, error) {
	now := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.release), now); err != nil {
		scope.isLeaving = apierrors.IsNotFound(err)
		return nil, client.IgnoreNotFound(err)
	}
	return now, nil
}
