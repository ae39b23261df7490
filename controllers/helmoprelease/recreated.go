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

// resetIfRecreated resets the status of a release whose Cluster was re-created. A re-created Cluster is another
// cluster: nothing is installed there, and nothing failed. The UID shows this also if no manager ran when the former
// Cluster was deleted.
func (r *Reconciler) resetIfRecreated(ctx context.Context, scope *releaseScope) {
	release := scope.release
	// This manager gets no events of a Cluster of another shard.
	if scope.cluster == nil || scope.otherShard != "" {
		return
	}
	former, uid := release.Status.ClusterUID, string(scope.object.GetUID())
	release.Status.ClusterUID = uid
	if former == "" || former == uid {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Resetting the status of the release, because its Cluster was re-created", "Cluster",
		apiutil.ClusterKey(release))
	r.dropObjectState(client.ObjectKeyFromObject(release))
	release.Status = addonsv1.HelmOpReleaseStatus{ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{ClusterUID: uid}}
	report.SetNotReady(release, addonsv1.ProgressingReason,
		"The Cluster was re-created under the same name: the chart is installed again")
}

// dropCluster drops the connections to a Cluster and what was read from it.
func (r *Reconciler) dropCluster(key client.ObjectKey) {
	r.engine.Forget(key.String())
	r.watcher.Disconnect(key.String())
	r.reads.Forget(key.String())
}
