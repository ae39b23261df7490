// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// removeFinalizer ends the HelmOpRelease. Nothing else removes the finalizer: the release was uninstalled, there is nothing to uninstall, it stays by
// the deletion policy or because access was revoked, its HelmOp still wants it, or its Cluster is deleted.
func removeFinalizer(release *addonsv1.HelmOpRelease) ctrl.Result {
	controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
	return ctrl.Result{}
}

// uninstallsBefore tells whether a release is to be uninstalled although its Cluster goes.
func (r *Reconciler) uninstallsBefore(scope *releaseScope) bool {
	return scope.cluster != nil && clusterlife.UninstallsBeforeDeletion(scope.cluster, scope.release, scope.helmOp, r.now())
}

// uninstallSlot takes a slot for an uninstallation. One that is to wait, and finds too many others that do until three quarters of its
// time are over, is done without waiting: that is better than never. If done is nil, there is no slot: the release is woken in its
// turn, or looks again after wait if that is not 0.
func (r *Reconciler) uninstallSlot(scope *releaseScope, options *model.UninstallOptions, cluster, helmOp string) (done func(), wait time.Duration) {
	if scope.cluster != nil {
		clusterlife.BeforeDeletion(options, scope.cluster, scope.release, r.now())
	}
	claim := slots.Claim{Release: client.ObjectKeyFromObject(scope.release), Cluster: cluster, HelmOp: helmOp}
	if options.Wait {
		claim.Ending = true
		if done, ok := r.slots.Acquire(claim); ok {
			return done, 0
		}
		if scope.cluster == nil || !apiutil.HoldOf(scope.cluster).IsOn() {
			return nil, 0
		}
		if rest := clusterlife.DeletionRest(apiutil.HoldOf(scope.cluster), scope.release, r.now()) - clusterlife.DeletionTimeout(scope.release)/4; rest > 0 {
			return nil, rest
		}
		claim.Ending, options.Wait = false, false
	}
	done, _ = r.slots.Acquire(claim)
	return done, 0
}

// forgetWithCluster ends a HelmOpRelease whose Cluster is gone or under deletion, without a call to the workload cluster.
func (r *Reconciler) forgetWithCluster(ctx context.Context, scope *releaseScope) ctrl.Result {
	release := scope.release
	ctrl.LoggerFrom(ctx).Info("Forgetting the release of a Cluster that goes", "Cluster", apiutil.ClusterKey(release))
	if scope.cluster != nil && apiutil.HoldOf(scope.cluster).IsOn() && clusterlife.AsksForUninstall(release, scope.helmOp) {
		r.event(scope, corev1.EventTypeWarning, addonsv1.OrphanedEvent, verbUninstall, fmt.Sprintf(
			"Release %s was not uninstalled in time: the deletion of Cluster %s continues", describe(release), apiutil.ClusterTitle(release)))
	}
	return removeFinalizer(release)
}
