// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// waitsForExtension reports whether Cluster API waits for the Runtime Extension before it deletes a Cluster. Cluster
// API calls hooks only for Clusters of a ClusterClass. Cluster API does not wait if no ExtensionConfig is registered
// and discovered: then it marks the Cluster as ready for the deletion at once. Cluster API does not wait either if its
// feature gate RuntimeSDK is off: then the condition Deleting has another reason.
func (r *Reconciler) waitsForExtension(cluster *clusterv1.Cluster) bool {
	if !r.extension || !cluster.Spec.Topology.IsDefined() {
		return false
	}
	if _, isMarked := cluster.Annotations[runtimev1.OkToDeleteAnnotation]; isMarked {
		return false
	}
	deleting := conditions.Get(cluster, clusterv1.ClusterDeletingCondition)
	return deleting == nil || deleting.Reason == clusterv1.ClusterDeletingWaitingForBeforeDeleteHookReason ||
		deleting.Reason == clusterv1.ClusterNotDeletingReason
}

// pauseUnlessWaiting pauses a Cluster whose deletion is held without a pause, if Cluster API does not wait for the
// Runtime Extension.
func (r *Reconciler) pauseUnlessWaiting(ctx context.Context, scope *lifeScope) error {
	if !apiutil.HoldOf(scope.cluster).Unpaused || r.waitsForExtension(scope.cluster) {
		return nil
	}
	changed, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil {
			return false, err
		}
		hold := apiutil.HoldOf(cluster)
		if !hold.IsOn() || !hold.Unpaused {
			return false, nil
		}
		setAnnotation(object, addonsv1.DeletionHoldAnnotation, apiutil.DeletionHoldSince(hold.Since, true))
		return true, unstructured.SetNestedField(object.Object, true, "spec", "paused")
	})
	if err != nil {
		return fmt.Errorf("pausing the Cluster: %w", err)
	}
	if changed {
		r.eventAt(scope, nil, eventType(true), addonsv1.ClusterDeletionHeldEvent, "HoldDeletion",
			"The Cluster is paused, because Cluster API does not wait for the hook BeforeClusterDelete: check that HelmOp "+
				"serves its Runtime Extension, that its ExtensionConfig is Discovered, and that Cluster API runs with the "+
				"feature gate RuntimeSDK")
	}
	return nil
}
