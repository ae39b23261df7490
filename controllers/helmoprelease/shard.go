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

// otherShardOf tells why a release is left alone because its Cluster, as the API server serves it, is of another shard than its HelmOp;
// empty if it is not.
func otherShardOf(shard string, release *addonsv1.HelmOpRelease, cluster *unstructured.Unstructured) string {
	if apiutil.IsOfShard(cluster, shard) {
		return ""
	}
	return apiutil.OtherShardMessage(cluster, release)
}

// otherShardRetry is how often it is looked whether a Cluster of another shard is still there, where nothing else is waited for.
const otherShardRetry = 5 * time.Minute

// reportOtherShard leaves a release alone whose Cluster is of another shard. The Cluster's way into the shard is an event; its end is none, and
// with it a release under deletion may go.
func (r *Reconciler) reportOtherShard(scope *releaseScope) ctrl.Result {
	r.dropObjectState(client.ObjectKeyFromObject(scope.release))
	report.SetPaused(scope.release, false, "")
	report.SetNotReady(scope.release, addonsv1.OtherShardReason, scope.otherShard)
	if !scope.release.DeletionTimestamp.IsZero() {
		return ctrl.Result{RequeueAfter: queue.Spread(downRetry, scope.release)}
	}
	return ctrl.Result{RequeueAfter: queue.Spread(otherShardRetry, scope.release)}
}

// stillServes returns, right before an action begins, the release as it is now, if it is this manager's still; nil if it is not: the manager of
// another shard may have taken it over since the pass began. What was begun is ended by who began it, and known by the record of Helm.
func (r *Reconciler) stillServes(ctx context.Context, scope *releaseScope) (*addonsv1.HelmOpRelease, error) {
	now := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.release), now); err != nil {
		scope.isLeaving = apierrors.IsNotFound(err)
		return nil, client.IgnoreNotFound(err)
	}
	return now, nil
}
