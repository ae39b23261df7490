// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
)

// nextHold returns the corrected value of the annotation of a deletion hold, and the reason for the correction as an
// Event message. Both are empty if the annotation needs no correction. If a user pauses the Cluster with the paused
// annotation during its hold, the hold is paused. If HelmOp has set spec.paused for the hold, spec.paused stays,
// because nothing shows whether the user wants it too. When the user ends the pause, the hold begins again with its
// full time.
func nextHold(cluster *clusterv1.Cluster, now time.Time) (value, why string) {
	hold, begins := apiutil.HoldOf(cluster), apiutil.DeletionHoldSince(now, true)
	isOurs := apiutil.HasPauseOfHold(cluster)
	isStopped := cluster.Annotations[addonsv1.DeletionHoldAnnotation] == apiutil.DeletionHoldStopped
	switch hasPaused := annotations.HasPaused(cluster); {
	case hold.Paused && hold.Unpaused && !isStopped:
		return apiutil.DeletionHoldStopped, "A user paused the Cluster: its deletion, and the uninstallations before it, " +
			"continue when the pause ends"
	case hold.IsOn() && hasPaused:
		return apiutil.DeletionHoldPaused,
			fmt.Sprintf("The Cluster has the annotation %s: its deletion, and the uninstallations before it, continue when"+
				" the annotation is removed", clusterv1.PausedAnnotation)
	case hold.Paused && !hasPaused && isOurs:
		return begins,
			fmt.Sprintf("The annotation %s was removed: the releases are uninstalled, and then the deletion of the Cluster"+
				" continues", clusterv1.PausedAnnotation)
	case hold.IsOn() && clusterlife.IsAhead(hold.Since, now):
		// HelmOp wrote the time. Without a correction, the hold would last until this time.
		return apiutil.DeletionHoldSince(now, !hold.Unpaused), fmt.Sprintf("The annotation %s had a time in the future: "+
			"the hold of the deletion of the Cluster begins now", addonsv1.DeletionHoldAnnotation)
	case hold.Malformed && !hasPaused && isOurs:
		return begins,
			fmt.Sprintf("The annotation %s had a value that is not a time: the hold of the deletion of the Cluster begins now",
				addonsv1.DeletionHoldAnnotation)
	default:
		return "", ""
	}
}

// correctHold corrects the annotation of a deletion hold if necessary, and reports whether it changed anything.
func (r *Reconciler) correctHold(ctx context.Context, scope *lifeScope) (bool, error) {
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
		return true, fmt.Errorf("correcting the hold of the deletion of the Cluster: %w", err)
	}
	if changed {
		r.eventAt(scope, nil, eventType(false), addonsv1.ClusterDeletionHeldEvent, "HoldDeletion", message)
	}
	return true, nil
}

// restoredHoldKept is how long a restored Cluster stays paused by a hold of its deletion. The Cluster may also come
// from clusterctl move, which pauses the Clusters that it creates and ends these pauses itself.
const restoredHoldKept = 10 * time.Minute

// isRestoredHold reports whether a Cluster that is not being deleted is paused by a hold of its deletion. Such a
// Cluster was restored from a backup that was made during the hold.
func isRestoredHold(cluster *clusterv1.Cluster) bool {
	return cluster.DeletionTimestamp.IsZero() && apiutil.HasPauseOfHold(cluster)
}

// endRestoredHold ends the pause of a restored Cluster. No other controller ends this pause.
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
		return ctrl.Result{}, fmt.Errorf("ending the pause of a restored Cluster that is not being deleted: %w", err)
	}
	if ended {
		r.eventAt(scope, nil, eventType(false), addonsv1.ClusterDeletionReleasedEvent, "HoldDeletion",
			"HelmOp ended the pause that held the deletion of the Cluster: the Cluster is not being deleted")
	}
	return ctrl.Result{}, nil
}
