// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// settleCluster makes sure that what is known is of the Cluster as it is now. One that was created anew under the same name is
// another cluster: nothing is installed there, and nothing failed. Nobody need have seen the former go.
func (r *Reconciler) settleCluster(ctx context.Context, scope *releaseScope) {
	release := scope.release
	// What is known of a Cluster of another shard ends with none of its events here.
	if scope.cluster == nil || scope.elsewhere != "" {
		return
	}
	key, uid := apiutil.ClusterKey(release), scope.object.GetUID()
	if r.Incarnations.IsAnother(key, uid) {
		r.forgetCluster(key)
	}
	known := release.Status.ClusterUID
	release.Status.ClusterUID = string(uid)
	if known == "" || known == string(uid) {
		return
	}
	ctrl.LoggerFrom(ctx).Info("The Cluster was created anew: forgetting what is known of the release", "Cluster", key)
	r.forget(client.ObjectKeyFromObject(release))
	release.Status = addonsv1.HelmOpReleaseStatus{ClusterUID: string(uid)}
	report.SetNotReady(release, addonsv1.ProgressingReason, "the Cluster was created anew under the same name: the release begins anew, too")
}

// forgetCluster drops the connections to a Cluster.
func (r *Reconciler) forgetCluster(key client.ObjectKey) {
	r.Engine.Forget(key.String())
	r.Watcher.Disconnect(key.String())
	r.Reads.Forget(key.String())
}
