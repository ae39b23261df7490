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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// reconcileDelete uninstalls or leaves the release and removes the finalizer. The order of the steps matters: the
// release of a Cluster that is gone or under deletion needs no call, whatever is paused; a pause stops everything else.
func (r *Reconciler) reconcileDelete(ctx context.Context, scope *releaseScope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(scope.release, addonsv1.HelmOpReleaseFinalizer) {
		return ctrl.Result{}, nil
	}
	return run(ctx, &releasePass{releaseScope: scope},
		r.forgetWithCluster,
		r.checkPause,
		r.waitForHold,
		r.orphanIfConfigured,
		r.checkShard,
		r.waitForTurn,
		r.checkIntent,
		r.checkAccessOrOrphan,
		r.waitForDependents,
		r.connectCluster,
		r.uninstallRelease,
	)
}

// isClusterEnding reports whether the Cluster is gone or under deletion.
func (s *releaseScope) isClusterEnding() bool {
	return s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero()
}

// forgetWithCluster ends a HelmOpRelease whose Cluster is gone or under deletion, without a call to the workload
// cluster. A release that is to be uninstalled before the Cluster continues with the next step.
func (r *Reconciler) forgetWithCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	release := p.release
	if !p.isClusterEnding() || r.uninstallsBefore(p.releaseScope) {
		return nil, nil
	}
	ctrl.LoggerFrom(ctx).Info("Forgetting the release of a Cluster that goes", "Cluster", apiutil.ClusterKey(release))
	if p.cluster != nil && apiutil.HoldOf(p.cluster).IsOn() && clusterlife.AsksForUninstall(release, p.helmOp) {
		r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.OrphanedEvent, verbUninstall, fmt.Sprintf(
			"Release %s was not uninstalled in time: the deletion of Cluster %s continues", describe(release),
			apiutil.ClusterTitle(release)))
	}
	return end(removeFinalizer(release), nil)
}

// waitForHold ends the pass if the release is to be uninstalled before the Cluster, and the deletion of the Cluster
// is not held yet.
func (r *Reconciler) waitForHold(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.isClusterEnding() && !apiutil.HoldOf(p.cluster).IsOn() {
		report.SetNotReady(p.release, addonsv1.DeletingReason,
			"the release is uninstalled as soon as the deletion of the Cluster is held")
		return after(requeue.OutdatedRetry), nil
	}
	// An uninstallation deletes objects: that is no news.
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return nil, nil
}

// orphanIfConfigured leaves the release in its cluster if the HelmOp or an annotation says so.
func (r *Reconciler) orphanIfConfigured(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if why := whyOrphaned(p.releaseScope); why != "" {
		return end(r.orphan(p.releaseScope, corev1.EventTypeNormal, ": "+why), nil)
	}
	return nil, nil
}

// orphan ends a HelmOpRelease and leaves its release in the cluster. The text why follows the name of the Cluster.
func (r *Reconciler) orphan(scope *releaseScope, eventType, why string) ctrl.Result {
	release := scope.release
	r.event(scope, eventType, addonsv1.OrphanedEvent, "Orphan", fmt.Sprintf(
		"Left release %s in Cluster %s%s", describe(release), apiutil.ClusterTitle(release), why))
	return removeFinalizer(release)
}

// whyOrphaned is why a release under deletion stays in its cluster; empty if it is uninstalled.
func whyOrphaned(scope *releaseScope) string {
	switch {
	case scope.release.Annotations[addonsv1.OrphanAnnotation] == "true":
		return "the HelmOpRelease has the annotation " + addonsv1.OrphanAnnotation
	case apiutil.DeletionPolicy(scope.release, scope.helmOp) == addonsv1.DeletionPolicyOrphan:
		return "deletionPolicy is Orphan"
	default:
		return ""
	}
}

// waitForTurn ends the pass if the HelmOp is under deletion and its limits leave no room for this release yet.
func (r *Reconciler) waitForTurn(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.isClusterEnding() || !apiutil.WaitsForTurn(p.helmOp, p.release) {
		return nil, nil
	}
	report.SetNotReady(p.release, addonsv1.DeletingReason,
		"the HelmOp is under deletion: the release waits for its turn (spec.rollout.maxUnavailable)")
	return after(0), nil
}

// checkIntent keeps the release if its HelmOp wants it all the same, or waits for a HelmOp that may be restored.
func (r *Reconciler) checkIntent(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.isClusterEnding() {
		return nil, nil
	}
	var err error
	p.intent, err = r.deletionIntentOf(ctx, p.release)
	switch {
	case err != nil:
		report.SetNotReady(p.release, addonsv1.DeletingReason,
			"it is not known whether the release is still wanted: "+err.Error())
		return nil, err
	case p.intent == intentKeep:
		ctrl.LoggerFrom(ctx).Info("Leaving a release that its HelmOp still wants", "Cluster", apiutil.ClusterKey(p.release))
		return end(removeFinalizer(p.release), nil)
	case p.intent == intentUnknown && isOwnerAwaited(p.release, r.now()):
		return end(r.awaitOwner(ctx, p.releaseScope), nil)
	}
	return nil, nil
}

// checkAccessOrOrphan leaves the release in its cluster if the HelmOp may not access the Cluster any more: the object
// does not stay for it.
func (r *Reconciler) checkAccessOrOrphan(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	switch allowed, err := r.mayAccess(ctx, p.releaseScope); {
	case err != nil:
		return nil, err
	case !allowed:
		return end(r.orphan(p.releaseScope, corev1.EventTypeWarning, ", which may not be accessed any more"), nil)
	}
	return nil, nil
}

// waitForDependents ends the pass while other releases in the Cluster depend on this one.
func (r *Reconciler) waitForDependents(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	switch ok, err := r.mayUninstall(ctx, p.releaseScope, p.intent); {
	case err != nil:
		return nil, err
	case ok:
		return nil, nil
	case p.isClusterEnding():
		// The HelmOp of a dependent may be suspended meanwhile. There is no event for that, and the time is short.
		return after(requeue.OutdatedRetry), nil
	}
	return after(0), nil
}

// removeFinalizer ends the HelmOpRelease. Nothing else removes the finalizer: the release was uninstalled, there is
// nothing to uninstall, it stays by the deletion policy or because access was revoked, its HelmOp still wants it, or
// its Cluster is deleted.
func removeFinalizer(release *addonsv1.HelmOpRelease) ctrl.Result {
	controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
	return ctrl.Result{}
}

// uninstallsBefore tells whether a release is to be uninstalled although its Cluster goes.
func (r *Reconciler) uninstallsBefore(scope *releaseScope) bool {
	return scope.cluster != nil &&
		clusterlife.UninstallsBeforeDeletion(scope.cluster, scope.release, scope.helmOp, r.now())
}

// uninstallSlot takes a slot for an uninstallation. One that is to wait, and finds too many others that do until three
// quarters of its time are over, is done without waiting: that is better than never. If done is nil, there is no slot:
// the release is woken in its turn, or looks again after wait if that is not 0.
func (r *Reconciler) uninstallSlot(scope *releaseScope, options *model.UninstallOptions,
	cluster, helmOp string,
) (done func(), wait time.Duration) {
	if scope.cluster != nil {
		clusterlife.BeforeDeletion(options, scope.cluster, scope.release, r.now())
	}
	claim := slots.Claim{Release: client.ObjectKeyFromObject(scope.release), Cluster: cluster, HelmOp: helmOp}
	if options.Wait {
		claim.Uninstalling = true
		if done, ok := r.slots.Acquire(claim); ok {
			return done, 0
		}
		if scope.cluster == nil || !apiutil.HoldOf(scope.cluster).IsOn() {
			return nil, 0
		}
		if rest := clusterlife.DeletionRest(apiutil.HoldOf(scope.cluster), scope.release,
			r.now()) - clusterlife.DeletionTimeout(scope.release)/4; rest > 0 {
			return nil, rest
		}
		claim.Uninstalling, options.Wait = false, false
	}
	done, _ = r.slots.Acquire(claim)
	return done, 0
}
