// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// reconcileDelete uninstalls or orphans the release and removes the finalizer. The order of the steps matters. If the
// Cluster does not exist or is under deletion, no call to the cluster is necessary, even if something is paused. In all
// other cases, a pause stops the deletion.
func (r *Reconciler) reconcileDelete(ctx context.Context, scope *releaseScope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(scope.release, addonsv1.HelmOpReleaseFinalizer) {
		return ctrl.Result{}, nil
	}
	return run(ctx, &releasePass{releaseScope: scope},
		r.removeWithCluster,
		r.checkPause,
		r.waitForHold,
		r.orphanUnlessMoved,
		r.checkShard,
		r.waitForAdmission,
		r.checkIntent,
		r.orphanIfConfigured,
		r.checkAccessOrOrphan,
		r.waitForDependents,
		r.keepNextTry,
		r.connectCluster,
		r.endWatches,
		r.uninstallRelease,
	)
}

// isClusterDeleting reports whether the Cluster does not exist or is under deletion.
func (s *releaseScope) isClusterDeleting() bool {
	return s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero()
}

// removeWithCluster removes the finalizer if the Cluster does not exist or is under deletion. It does not call the
// workload cluster. If the release must be uninstalled before the Cluster is deleted, the pass continues with the next
// step. A moved release whose HelmOp still exists waits for its Cluster: HelmOp would create the HelmOpRelease again,
// without the UID of the former management cluster. No event reports the deletion of the HelmOp, so the check is
// repeated.
func (r *Reconciler) removeWithCluster(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.helmOp != nil && p.helmOp.DeletionTimestamp.IsZero() {
		if awaits, err := r.awaitCluster(ctx, p); awaits || err != nil {
			return after(requeue.OutdatedRetry), err
		}
	}
	release := p.release
	if !p.isClusterDeleting() || r.isUninstalledBefore(p.releaseScope) {
		return nil, nil
	}
	ctrl.LoggerFrom(ctx).Info("Removing the HelmOpRelease without an uninstallation, because its Cluster is deleted",
		"Cluster", apiutil.ClusterKey(release))
	if p.cluster != nil && apiutil.HoldOf(p.cluster).IsOn() && clusterlife.RequiresUninstall(release, p.helmOp) {
		r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.OrphanedEvent, attempts.VerbUninstall, fmt.Sprintf(
			"Release %s was not uninstalled in time: the deletion of Cluster %s continues. Delete by hand the "+
				"load balancers and volumes that the release created", describe(release), apiutil.ClusterTitle(release)))
	}
	return end(removeFinalizer(release), nil)
}

// waitForHold ends the pass if the release must be uninstalled before the Cluster, but the deletion of the Cluster is
// not held yet.
func (r *Reconciler) waitForHold(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.isClusterDeleting() && !apiutil.HoldOf(p.cluster).IsOn() {
		report.SetNotReady(p.release, addonsv1.DeletingReason,
			"The uninstallation waits until HelmOp holds the deletion of the Cluster")
		return after(requeue.OutdatedRetry), nil
	}
	return nil, nil
}

// endWatches ends the watches right before the uninstallation, because they must not report the uninstalled objects. It
// passes the object versions of the watches to the engine.
func (r *Reconciler) endWatches(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	r.keepVersions(p.release)
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return nil, nil
}

// keepVersions passes the object versions of the watches to the engine. The engine can then change and delete these
// objects without reading them.
func (r *Reconciler) keepVersions(release *addonsv1.HelmOpRelease) {
	// Without watches, the snapshot is empty.
	snapshot, _ := r.watcher.Look(client.ObjectKeyFromObject(release))
	namespace, name := release.Spec.Release.Namespace, release.Spec.Release.Name
	versions := map[inventory.Ref]model.ObjectVersion{}
	for ref, state := range snapshot.Objects {
		if state.Known && state.Exists && state.WatchError == nil && state.DeletedWith == namespace+"/"+name {
			versions[ref] = model.ObjectVersion{UID: state.UID, Number: state.ResourceVersion, Generation: state.Generation}
		}
	}
	r.engine.Saw(apiutil.ClusterKey(release).String(), namespace, name, versions)
}

// orphanUnlessMoved orphans the release before checkIntent, because an orphaned release needs no check. There is one
// exception: the release was moved or restored, and only deletionPolicy is the cause. The HelmOp may still select the
// Cluster, or may not be restored yet. The HelmOp then creates the HelmOpRelease again. So checkIntent decides whether
// keep takes over the records before.
func (r *Reconciler) orphanUnlessMoved(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	isOwnerDeleting := p.helmOp != nil && !p.helmOp.DeletionTimestamp.IsZero()
	if whyOrphaned(p.releaseScope) == orphanedByPolicy && !isOwnerDeleting && p.otherShard == "" {
		err := r.nameManagementCluster(ctx, p.release, &p.desired)
		if err != nil || len(p.desired.FormerManagementClusters) > 0 {
			return nil, err
		}
	}
	return r.orphanIfConfigured(ctx, p)
}

// orphanIfConfigured orphans the release if its deletion policy is Orphan or it has the orphan annotation.
func (r *Reconciler) orphanIfConfigured(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if why := whyOrphaned(p.releaseScope); why != "" {
		return end(r.orphan(p.releaseScope, corev1.EventTypeNormal, why), nil)
	}
	return nil, nil
}

// orphan removes the finalizer of a HelmOpRelease without an uninstallation. The Event has the cause.
func (r *Reconciler) orphan(scope *releaseScope, eventType, cause string) ctrl.Result {
	release := scope.release
	r.event(scope, eventType, addonsv1.OrphanedEvent, "Orphan", fmt.Sprintf(
		"Orphaned release %s in Cluster %s: %s. The release stays installed", describe(release),
		apiutil.ClusterTitle(release), cause))
	return removeFinalizer(release)
}

const (
	// orphanedByPolicy is the cause for a release with the deletion policy Orphan.
	orphanedByPolicy = "deletionPolicy is Orphan"

	// orphanedByOwner is the cause for a release whose HelmOp was deleted with "kubectl delete --cascade=orphan".
	orphanedByOwner = "its HelmOp was deleted with the propagation policy Orphan"
)

// whyOrphaned returns why a release under deletion stays in its cluster. The result is empty if the release must be
// uninstalled.
func whyOrphaned(scope *releaseScope) string {
	switch {
	case scope.release.Annotations[addonsv1.OrphanAnnotation] == "true":
		return "the HelmOpRelease has the annotation " + addonsv1.OrphanAnnotation
	case apiutil.DeletionPolicy(scope.release, scope.helmOp) == addonsv1.DeletionPolicyOrphan:
		return orphanedByPolicy
	case scope.helmOp != nil && apiutil.IsOrphaning(scope.helmOp):
		return orphanedByOwner
	default:
		return ""
	}
}

// waitForAdmission ends the pass if the HelmOp is under deletion and its rollout limits do not permit the
// uninstallation yet.
func (r *Reconciler) waitForAdmission(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.isClusterDeleting() || !apiutil.WaitsForAdmission(p.helmOp, p.release) {
		return nil, nil
	}
	report.SetNotReady(p.release, addonsv1.DeletingReason,
		"The HelmOp is being deleted: the release waits until maxUnavailable in spec.rollout permits its uninstallation")
	return after(0), nil
}

// checkIntent removes the finalizer without an uninstallation if the release is in the desired state of its HelmOp, or
// if the HelmOp was deleted with the propagation policy Orphan. If the HelmOp may be restored later, the pass ends,
// unless the HelmOp or a user has permitted the uninstallation. The pass also ends if the HelmOp is deleted next, with
// the namespace. No event reports this deletion, so the check is repeated.
func (r *Reconciler) checkIntent(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if p.isClusterDeleting() {
		return nil, nil
	}
	var err error
	p.intent, err = r.intents.Of(ctx, p.release)
	switch {
	case err != nil:
		return end(r.intentFailed(ctx, p.release, err))
	case p.intent == deletionintent.Keep:
		return r.keep(ctx, p)
	case p.intent == deletionintent.Undecided:
		report.SetNotReady(p.release, addonsv1.DeletingReason,
			"The namespace is being deleted: the release waits for the deletion of its HelmOp")
		return after(requeue.OutdatedRetry), nil
	case p.intent == deletionintent.Orphan:
		return end(r.orphan(p.releaseScope, corev1.EventTypeNormal, orphanedByOwner), nil)
	case p.intent == deletionintent.Unknown && !isAdmittedByOwner(p.release):
		r.awaitOwner(ctx, p.releaseScope)
		return after(0), nil
	}
	return nil, nil
}

// keep removes the finalizer of a HelmOpRelease whose release stays installed. HelmOp then creates the HelmOpRelease
// again. The new HelmOpRelease names only this management cluster. So if the release was moved or restored, keep first
// takes over its records: otherwise they would belong to a foreign management cluster for ever.
func (r *Reconciler) keep(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if err := r.nameManagementCluster(ctx, p.release, &p.desired); err != nil {
		return nil, err
	}
	if len(p.desired.FormerManagementClusters) == 0 {
		return r.leaveInstalled(ctx, p)
	}
	return end(run(ctx, p,
		r.checkAccessOrOrphan,
		r.keepNextTry,
		r.connectCluster,
		r.readSpec,
		r.observeRecords,
		r.takeOverAfterMove,
		r.leaveInstalled,
	))
}

// leaveInstalled removes the finalizer without an uninstallation.
func (r *Reconciler) leaveInstalled(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	ctrl.LoggerFrom(ctx).Info("Leaving the release installed, because it is in the desired state of its HelmOp",
		"Cluster", apiutil.ClusterKey(p.release))
	return end(removeFinalizer(p.release), nil)
}

// intentFailed reports why it is not known whether a release under deletion is still needed, for example because the
// selector of its HelmOp is not valid. The release stays until a user has corrected the cause.
func (r *Reconciler) intentFailed(ctx context.Context, release *addonsv1.HelmOpRelease, err error,
) (ctrl.Result, error) {
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	report.SetNotReady(release, addonsv1.DeletingReason,
		"The uninstallation waits, because HelmOp cannot check whether the HelmOp still needs the release: "+err.Error())
	outcome := failures.Of(err, failures.Planning)
	if outcome.Kind == failures.Waiting {
		return ctrl.Result{RequeueAfter: outcome.Wait}, nil
	}
	outcome.Reason = addonsv1.DeletingReason
	return r.tryAgain(ctx, release, outcome, err), nil
}

// checkAccessOrOrphan orphans the release if the HelmOp has lost the access to the Cluster. Otherwise, the
// HelmOpRelease could never be deleted.
func (r *Reconciler) checkAccessOrOrphan(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	switch allowed, err := r.mayAccess(ctx, p.releaseScope); {
	case err != nil:
		return nil, err
	case !allowed:
		return end(r.orphan(p.releaseScope, corev1.EventTypeWarning, "its HelmOp may no longer access the Cluster"), nil)
	}
	return nil, nil
}

// waitForDependents ends the pass while other releases in the Cluster depend on this release.
func (r *Reconciler) waitForDependents(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	switch ok, err := r.mayUninstall(ctx, p.releaseScope, p.intent); {
	case err != nil:
		return nil, err
	case ok:
		return nil, nil
	case p.isClusterDeleting():
		// The pause of a dependent's HelmOp causes no event, so the check is repeated. The delay is short, because the
		// deletion of the Cluster is held only for a limited time.
		return after(requeue.OutdatedRetry), nil
	}
	return after(0), nil
}

// removeFinalizer removes the finalizer of a HelmOpRelease. No other function does so. There are four cases. The
// release is uninstalled or was never installed. The release is orphaned, by the deletion policy or because access was
// revoked. The HelmOp still selects the Cluster. The Cluster is deleted.
func removeFinalizer(release *addonsv1.HelmOpRelease) ctrl.Result {
	controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
	return ctrl.Result{}
}

// noteRemoved stores that the finalizer of a HelmOpRelease was removed, if the pass has removed it.
func (r *Reconciler) noteRemoved(scope *releaseScope) {
	if controllerutil.ContainsFinalizer(scope.before, addonsv1.HelmOpReleaseFinalizer) &&
		!controllerutil.ContainsFinalizer(scope.release, addonsv1.HelmOpReleaseFinalizer) {
		r.memoryOf(scope.release).Removed = scope.release.UID
	}
}

// isRemoved reports whether the cache still has a HelmOpRelease whose finalizer was removed. The response to the last
// write of a deleted object has no newer resourceVersion, so [ownwrites.Writes] cannot wait for this write. A pass
// would read the records of a release that does not exist any more.
func (r *Reconciler) isRemoved(release *addonsv1.HelmOpRelease) bool {
	known := r.memories.Known(client.ObjectKeyFromObject(release))
	return known != nil && known.Removed == release.UID && release.UID != "" &&
		controllerutil.ContainsFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
}

// isUninstalledBefore reports whether a release must be uninstalled before its Cluster is deleted.
func (r *Reconciler) isUninstalledBefore(scope *releaseScope) bool {
	return scope.cluster != nil &&
		clusterlife.UninstallsBeforeDeletion(scope.cluster, scope.release, scope.helmOp, r.now())
}

// uninstallSlot acquires a slot for an uninstallation. If done is nil, there is no slot. The release is then enqueued
// when it gets a slot, or after wait if wait is not 0.
//
// The number of uninstallations that wait for their objects is limited. At the limit, the uninstallation waits. When
// three quarters of the time before the deletion of the Cluster are over, it runs without waiting for its objects.
// Otherwise it would not run at all. A release in the queue for such a slot requests no other slot: the request would
// end its position in the queue, and give its granted slot to the next release, which would do the same.
func (r *Reconciler) uninstallSlot(scope *releaseScope, options *model.UninstallOptions,
	cluster, helmOp string,
) (done func(), wait time.Duration) {
	if scope.cluster != nil {
		clusterlife.BeforeDeletion(options, scope.cluster, scope.release, r.now())
	}
	claim := uninstallClaim(scope, options, cluster, helmOp)
	late := claim
	late.Uninstalling = false
	rest, isLate := r.restBeforeLate(scope)
	if options.Wait && (!isLate || !r.slots.HasClaim(late)) {
		if done, ok := r.slots.Acquire(claim); ok {
			return done, 0
		}
		if !isLate {
			return nil, rest
		}
	}
	options.Wait = false
	done, _ = r.slots.Acquire(late)
	return done, 0
}

// restBeforeLate returns the time until three quarters of the time before the deletion of the Cluster are over. isLate
// is true if they are over. If the deletion is not held, rest is 0 and isLate is false.
func (r *Reconciler) restBeforeLate(scope *releaseScope) (rest time.Duration, isLate bool) {
	if scope.cluster == nil || !apiutil.HoldOf(scope.cluster).IsOn() {
		return 0, false
	}
	rest = clusterlife.DeletionRest(apiutil.HoldOf(scope.cluster), scope.release, r.now()) -
		clusterlife.DeletionTimeout(scope.release)/4
	return max(rest, 0), rest <= 0
}

// uninstallClaim returns the claim of an uninstallation for a slot.
func uninstallClaim(scope *releaseScope, options *model.UninstallOptions, cluster, helmOp string) slots.Claim {
	return slots.Claim{Release: client.ObjectKeyFromObject(scope.release), Cluster: cluster, HelmOp: helmOp,
		Uninstalling: options.Wait}
}

// mayRead reports whether an uninstallation that is due may read the records of its release in this pass. If the result
// is false, the read waits for a slot. The read uses the slot before the uninstallation does, see uninstallSlot.
func (r *Reconciler) mayRead(ctx context.Context, scope *releaseScope, target model.Target, desired model.Desired,
	options *model.UninstallOptions,
) bool {
	cluster := apiutil.ClusterKey(scope.release)
	return !readsWithSlot(scope, r.clusters.State(cluster), apiutil.ChildrenOfCluster(ctx, r.client, cluster)) ||
		r.reads.IsUnderWay(recordreads.KeyOf(scope.release, target, desired)) ||
		r.slots.Request(uninstallClaim(scope, options, target.Key, desired.Owner))
}

// readsWithSlot reports whether an uninstallation needs a slot before it reads the records. It needs none if something
// else may follow the read: the release may not be installed any more, or may have another owner. The API server must
// have answered the last read, because a release keeps its slot until the read ends. While the deletion of the Cluster
// is held, uninstallSlot alone decides which slot is necessary.
func readsWithSlot(scope *releaseScope, link clusterlink.State, siblings []addonsv1.HelmOpRelease) bool {
	release := scope.release
	if link.Unresponsive || !conditions.IsTrue(release, addonsv1.ClusterReachableCondition) ||
		release.Status.Release == nil || scope.isClusterDeleting() {
		return false
	}
	switch model.State(release.Status.State) {
	case model.StateAbsent, model.StateForeign, model.StatePending, model.StateUninstalled:
		return false
	}
	for i := range siblings {
		if siblings[i].UID != release.UID && siblings[i].Spec.Release == release.Spec.Release {
			return false // The other HelmOpRelease adopts the release, or has adopted it.
		}
	}
	return true
}

// isAdmittedByOwner reports whether a release under deletion may be uninstalled although its HelmOp does not exist. The
// HelmOp has permitted the uninstallation before its finalizer was removed, or a user permits it now.
func isAdmittedByOwner(release *addonsv1.HelmOpRelease) bool {
	owner := metav1.GetControllerOfNoCopy(release)
	return owner != nil && apiutil.IsAdmittedBy(release, owner.UID)
}

// awaitOwner reports that a release under deletion waits until its HelmOp is restored, or until a user decides.
// Normally, a deleted HelmOp waits for its releases. A restore from a backup can create HelmOpReleases before HelmOps.
// Garbage collection then deletes the HelmOpReleases, because their owner does not exist. This must not uninstall the
// releases of a fleet. The next pass begins with an event of the HelmOpRelease, the HelmOp or the Cluster.
func (r *Reconciler) awaitOwner(ctx context.Context, scope *releaseScope) {
	release := scope.release
	name, uid := apiutil.HelmOpOf(release), ""
	if owner := metav1.GetControllerOfNoCopy(release); owner != nil {
		uid = string(owner.UID)
	}
	message := fmt.Sprintf("HelmOp %q with the UID %s, the owner of this release, does not exist: it was not "+
		"restored from a backup, or its finalizer was removed. HelmOp leaves the release installed and waits. "+
		"To keep the release, restore a HelmOp of this name that selects the Cluster, or set the annotation "+
		"%s=true on this HelmOpRelease", name, uid, addonsv1.OrphanAnnotation)
	if whyOrphaned(scope) == "" {
		message += fmt.Sprintf(". To uninstall the release: kubectl -n %s annotate %s %s --overwrite %s=%s",
			release.Namespace, addonsv1.HelmOpReleaseResource, release.Name, addonsv1.DeletionAdmittedAnnotation, uid)
	}
	if report.NotConnecting(release, addonsv1.OwnerNotFoundReason, message) {
		r.event(scope, corev1.EventTypeWarning, addonsv1.OwnerNotFoundReason, attempts.VerbUninstall, message)
		ctrl.LoggerFrom(ctx).Info("The release stays installed until a user decides: its HelmOp does not exist")
	}
}
