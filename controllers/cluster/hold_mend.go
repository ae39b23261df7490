// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
)

// nextHold is the new value of the annotation of a hold that cannot stay as it is, and why; empty if it stays. If a
// user pauses the Cluster during its hold, by the paused annotation, the hold is suspended: spec.paused stays,
// because it does not show whose pause it is. When the user ends the pause, the hold begins again with its full time.
func nextHold(cluster *clusterv1.Cluster, now time.Time) (value, why string) {
	hold, begins := apiutil.HoldOf(cluster), now.UTC().Format(time.RFC3339)
	isOurs := ptr.Deref(cluster.Spec.Paused, false)
	switch hasPaused := annotations.HasPaused(cluster); {
	case hold.IsOn() && hasPaused:
		return apiutil.DeletionHoldSuspended,
			fmt.Sprintf("The Cluster has the annotation %s: its deletion, and the uninstallations before it, go on when"+
				" the annotation is removed", clusterv1.PausedAnnotation)
	case hold.Suspended && !hasPaused && isOurs:
		return begins,
			fmt.Sprintf("The annotation %s is gone: the releases are uninstalled, and then the deletion of the Cluster goes on",
				clusterv1.PausedAnnotation)
	case hold.IsOn() && clusterlife.IsAhead(hold.Since, now):
		// The pause is ours, and so must be the time. Otherwise the hold would last until then.
		return begins, fmt.Sprintf("The annotation %s named a time to come: the deletion of the Cluster is held from now on",
			addonsv1.DeletionHoldAnnotation)
	case hold.Malformed && !hasPaused && isOurs:
		return begins,
			fmt.Sprintf("The annotation %s had a value that is no time: the deletion of the Cluster is held from now on",
				addonsv1.DeletionHoldAnnotation)
	default:
		return "", ""
	}
}

// mendHold corrects the annotation of a hold that cannot stay as it is, and reports whether it did.
func (r *Reconciler) mendHold(ctx context.Context, scope *lifeScope) (bool, error) {
	if value, _ := nextHold(scope.cluster, r.now()); value == "" {
		return false, nil
	}
	var message string
	changed, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil {
			return false, err
		}
		var value string
		if value, message = nextHold(cluster, r.now()); value != "" {
			setAnnotation(object, addonsv1.DeletionHoldAnnotation, value)
		}
		return value != "", nil
	})
	if err != nil {
		return true, fmt.Errorf("changing since when the deletion of the Cluster is held: %w", err)
	}
	if changed {
		r.eventAt(scope, nil, eventType(false), addonsv1.ClusterDeletionHeldEvent, "HoldDeletion", message)
	}
	return true, nil
}

// restoredHoldKept is how long a restored Cluster stays paused by a hold of its deletion. A clusterctl move pauses the
// Clusters that it creates, and ends these pauses by itself.
const restoredHoldKept = 10 * time.Minute

// isRestoredHold reports whether a Cluster that is not being deleted is paused by a hold of its deletion: it was
// restored from a backup that was made during the hold.
func isRestoredHold(cluster *clusterv1.Cluster) bool {
	value, held := cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	return held && value != apiutil.DeletionHoldOver && cluster.DeletionTimestamp.IsZero() &&
		ptr.Deref(cluster.Spec.Paused, false)
}

// endRestoredHold ends the pause of a restored Cluster. No other controller would.
func (r *Reconciler) endRestoredHold(ctx context.Context, scope *lifeScope) (ctrl.Result, error) {
	if wait := scope.cluster.CreationTimestamp.Add(restoredHoldKept).Sub(r.now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	ended, err := r.changeHold(ctx, scope, func(object *unstructured.Unstructured) (bool, error) {
		cluster, err := apiutil.TypedCluster(object)
		if err != nil || !isRestoredHold(cluster) {
			return false, err
		}
		kept := object.GetAnnotations()
		delete(kept, addonsv1.DeletionHoldAnnotation)
		object.SetAnnotations(kept)
		unstructured.RemoveNestedField(object.Object, "spec", "paused")
		return true, nil
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("ending the pause that held the deletion of the Cluster: %w", err)
	}
	if ended {
		r.eventAt(scope, nil, eventType(false), addonsv1.ClusterDeletionReleasedEvent, "HoldDeletion",
			"HelmOp had paused the Cluster to hold its deletion, and ended the pause: the Cluster is not being deleted")
	}
	return ctrl.Result{}, nil
}
