// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// warnOfMove records once that HelmOp begins nothing for a Cluster because of the annotation delete-for-move.
// clusterctl deletes the releases of a Cluster before it sets the annotation, and the annotation replaces all others.
// So a Cluster with releases or holds has the annotation of an interrupted move or of a user. Another manager repeats
// the warning.
func (r *Reconciler) warnOfMove(ctx context.Context, scope *lifeScope) {
	key := client.ObjectKeyFromObject(scope.cluster)
	if !report.IsBeingMoved(scope.cluster) {
		r.warned.Delete(key)
		return
	}
	_, held := scope.cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	if !held && len(scope.releases) == 0 && len(upgradeHoldNames(nil, scope.cluster.Annotations)) == 0 {
		return
	}
	if known, _ := r.warned.Swap(key, scope.cluster.UID); known == scope.cluster.UID {
		return
	}
	message := report.ClustersBeingMovedMessage(key.Namespace, []string{key.Name})
	ctrl.LoggerFrom(ctx).Info(message)
	r.eventAt(scope, nil, eventType(true), addonsv1.ClusterBeingMovedEvent, "Hold", message)
}
