/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// releaseReconciler connects, observes, decides, acts and reports.
type releaseReconciler struct {
	client     client.Client
	live       client.Reader
	clusters   Clusters
	registry   Fetcher
	verifier   Verifier
	charts     ChartLoader
	errands    *errands[*oci.Content]
	fetches    *fetchFailures
	engine     Engine
	watcher    Watcher
	references *referenceReader
	renderer   *renderer
	slots      *slots.Slots
	sightings  *sightings
	recorder   events.EventRecorder
	budgets    *eventBudgets
	delays     requeue.Delays
	now        func() time.Time

	// kubeconfigs reads the Secrets with the kubeconfigs, and refuses those that must not be used.
	kubeconfigs client.Reader

	// written and drifts are what is remembered of the objects of releases.
	written *writtenGenerations
	drifts  *driftMemories

	// listings are what was listed for requests to retry.
	listings retryListings

	// blindness is since when the objects of releases are not fully seen.
	blindness blindness

	// guard tells which Clusters of other namespaces may be accessed.
	guard *clusterGuard

	// actions are those under way, but for uninstallations.
	actions runningActions

	// tries are what was last written of releases.
	tries lastTries

	// rendered are the artifacts that were rendered well.
	rendered renderedArtifacts

	// incarnations are the Clusters that connections are to.
	incarnations *clusterIncarnations

	// resyncPeriod is Options.ResyncPeriod.
	resyncPeriod time.Duration

	// watchFilter is Options.WatchFilterValue, shard is Options.Shard.
	watchFilter, shard string

	// records is Options.Records, recordsLeft are the HelmOps that were told of records which a registry keeps.
	records     RecordStorage
	recordsLeft *lru.Cache

	// unseen are the releases that ended without anybody seeing that all of their objects are gone.
	unseen *unseenReleases
}

// releaseScope is what one pass over a HelmOpRelease knows.
type releaseScope struct {
	release *addonsv1.HelmOpRelease

	// before is the release as the API server has it, as far as is known.
	before *addonsv1.HelmOpRelease

	// helmOp is the HelmOp of the release; nil if it is gone.
	helmOp *addonsv1.HelmOp

	// cluster is the Cluster of the release; nil if it is gone. object is the same as the API server serves it.
	cluster *clusterv1.Cluster
	object  *unstructured.Unstructured

	// elsewhere tells that the Cluster is of another shard than the HelmOp, so that nothing may be done; empty if it is not.
	elsewhere string

	// isLeaving tells that the release is, or is about to be, of another shard, whose manager writes it from now on.
	isLeaving bool
}

// Reconcile makes one pass over a HelmOpRelease, and says when the next is due and how urgent that is.
func (r *releaseReconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	ctx = oci.ForTenant(ctx, req.Namespace)
	defer func() {
		r.slots.Settle(req.NamespacedName)
		if r.slots.IsGranted(req.NamespacedName) {
			result.Priority = new(priorityOfTurn)
		}
	}()
	release := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, req.NamespacedName, release); err != nil {
		if apierrors.IsNotFound(err) {
			r.part(req)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isWatched(release, r.watchFilter) {
		r.part(req)
		return ctrl.Result{}, nil
	}
	if isBeingMoved(release) {
		r.part(req)
		return ctrl.Result{}, reportBeingMoved(ctx, r.client, release, "helmoprelease", releaseConditions)
	}
	if r.tries.isStale(req.NamespacedName, lastTryOf(release), r.now()) {
		r.slots.Keep(req.NamespacedName)
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	result, err = r.reconcile(ctx, req, release)
	result.Priority = new(priorityOf(release, answersOf(r.clusters)(clusterKey(release)), r.now()))
	if err == nil {
		result.RequeueAfter = withinResync(result.RequeueAfter, r.resyncPeriod, release)
	}
	return requeue.OrError(result, err)
}

// reconcile is Reconcile for a release that is to be worked on, and as it was left.
func (r *releaseReconciler) reconcile(ctx context.Context, req ctrl.Request, release *addonsv1.HelmOpRelease) (result ctrl.Result, reterr error) {
	reader := client.Reader(r.client)
	if !release.DeletionTimestamp.IsZero() {
		// A pause or a deletionPolicy that a cache has not seen yet must not be missed when a release is about to end.
		reader = r.live
	}
	scope, err := r.gather(ctx, reader, release)
	if err != nil {
		return ctrl.Result{}, err
	}
	if scope.isLeaving {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	scope.before = release.DeepCopy()
	defer func() {
		if scope.isLeaving {
			return
		}
		reportOutdated(release)
		// The outcome of an action must be recorded also when the manager is told to stop meanwhile.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patchTimeout)
		defer cancel()
		release.Status.ObservedGeneration = release.Generation
		if err := writeObject(ctx, r.client, scope.before, release, releaseConditions); err != nil {
			reterr = kerrors.NewAggregate([]error{reterr, client.IgnoreNotFound(err)})
			return
		}
		r.tries.written(req.NamespacedName, lastTryOf(release), r.now())
	}()
	r.settleCluster(ctx, scope)
	if !release.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, scope)
	}
	return r.reconcileNormal(ctx, scope)
}

// part drops all that is remembered of a release that is gone, or no longer this manager's.
func (r *releaseReconciler) part(req ctrl.Request) {
	r.forget(req.NamespacedName)
	r.sightings.part(req)
	r.tries.forget(req.NamespacedName)
	r.delays.Forget(req)
}

// forget drops what is remembered of the objects of a release.
func (r *releaseReconciler) forget(key client.ObjectKey) {
	r.watcher.Forget(key)
	r.written.forget(key)
	r.blindness.end(key)
	r.listings.forget(key)
	r.drifts.forget(key)
}

// patchTimeout bounds the last write of a pass.
const patchTimeout = 10 * time.Second

// gather reads what a release depends on.
func (r *releaseReconciler) gather(ctx context.Context, reader client.Reader, release *addonsv1.HelmOpRelease) (*releaseScope, error) {
	scope := &releaseScope{release: release}
	if owner := metav1.GetControllerOf(release); owner != nil && owner.Kind == helmOpKind {
		helmOp, key := &addonsv1.HelmOp{}, client.ObjectKey{Namespace: release.Namespace, Name: owner.Name}
		err := reader.Get(ctx, key, helmOp)
		if apierrors.IsNotFound(err) {
			// It may be of another shard by now, where its releases follow it.
			err = r.live.Get(ctx, key, helmOp)
		}
		switch {
		case err == nil && !isOfShard(helmOp, r.shard):
			scope.isLeaving = true
			return scope, nil
		case err == nil:
			scope.helmOp = helmOp
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading the HelmOp of the release: %w", err)
		}
	}
	object, err := readCluster(ctx, reader, clusterKey(release), r.shard)
	if apierrors.IsNotFound(err) {
		// That a Cluster is gone makes its release forgotten. It is worth asking the API server and not a cache, which has the Clusters
		// of the own shard only.
		object, err = readCluster(ctx, r.live, clusterKey(release), r.shard)
	}
	if apierrors.IsNotFound(err) {
		r.incarnations.forget(clusterKey(release))
		r.forgetCluster(clusterKey(release))
		return scope, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", clusterKey(release), err)
	}
	scope.object = object
	if scope.elsewhere = otherShardOf(r.shard, release, object); scope.elsewhere != "" {
		r.forgetCluster(clusterKey(release))
	}
	scope.cluster, err = r.renderer.objects.typed(object)
	return scope, err
}

func (r *releaseReconciler) reconcileNormal(ctx context.Context, scope *releaseScope) (ctrl.Result, error) {
	release := scope.release
	switch why := pauseOf(scope); {
	case scope.cluster == nil:
		r.forget(client.ObjectKeyFromObject(release))
		setNotReady(release, addonsv1.ClusterNotFoundReason, "the Cluster is gone: its release is forgotten")
		return ctrl.Result{}, nil
	case !scope.cluster.DeletionTimestamp.IsZero():
		r.forget(client.ObjectKeyFromObject(release))
		setNotReady(release, addonsv1.ClusterDeletingReason, "the Cluster is under deletion: its release is left alone")
		return ctrl.Result{}, nil
	case why != "":
		setPaused(release, true, why)
		release.Status.NextTryAt = metav1.Time{}
		return ctrl.Result{}, nil
	case scope.elsewhere != "":
		return r.leaveElsewhere(scope), nil
	case scope.helmOp != nil && !scope.helmOp.DeletionTimestamp.IsZero():
		// What is begun now would have to end before it can be uninstalled.
		setPaused(release, false, "")
		setNotReady(release, addonsv1.DeletingReason, "the HelmOp is under deletion: nothing is begun for its release any more")
		return ctrl.Result{}, nil
	case !isInitialized(scope.cluster):
		setPaused(release, false, "")
		setNotReady(release, addonsv1.ControlPlaneNotInitializedReason, "the control plane of the Cluster is not initialized")
		return ctrl.Result{}, nil
	}
	setPaused(release, false, "")
	if allowed, err := r.mayAccess(ctx, scope); !allowed {
		return ctrl.Result{RequeueAfter: deniedMemory}, err
	}
	if controllerutil.AddFinalizer(release, addonsv1.HelmOpReleaseFinalizer) {
		// The finalizer must stand before there is anything to uninstall.
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	target, ok := r.connect(ctx, release)
	if !ok {
		return ctrl.Result{RequeueAfter: reconnectRetry(release, r.clusters.State(clusterKey(release)))}, nil
	}
	target.Storage = r.storage(scope)
	return r.ensure(ctx, scope, target)
}

// reconcileDelete ends the release and lets the object go. The order matters: a Cluster that goes or is gone needs no
// call, whoever is paused; a pause stops everything else.
func (r *releaseReconciler) reconcileDelete(ctx context.Context, scope *releaseScope) (ctrl.Result, error) {
	release := scope.release
	if !controllerutil.ContainsFinalizer(release, addonsv1.HelmOpReleaseFinalizer) {
		return ctrl.Result{}, nil
	}
	clusterGoes := scope.cluster == nil || !scope.cluster.DeletionTimestamp.IsZero()
	if clusterGoes && !r.uninstallsBefore(scope) {
		ctrl.LoggerFrom(ctx).Info("Forgetting the release of a Cluster that goes", "Cluster", clusterKey(release))
		r.noteUnseen(scope, asksForUninstall(release, scope.helmOp))
		controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
		return ctrl.Result{}, nil
	}
	if why := pauseOf(scope); why != "" {
		setPaused(release, true, why)
		release.Status.NextTryAt = metav1.Time{}
		return ctrl.Result{}, nil
	}
	setPaused(release, false, "")
	if clusterGoes && !holdOf(scope.cluster).isOn() {
		setNotReady(release, addonsv1.DeletingReason, "the release is uninstalled as soon as the deletion of the Cluster is held")
		return ctrl.Result{RequeueAfter: outdatedRetry}, nil
	}
	// What an uninstallation deletes is no news.
	r.forget(client.ObjectKeyFromObject(release))
	if why := whyOrphaned(scope); why != "" {
		return r.orphan(scope, corev1.EventTypeNormal, ": "+why), nil
	}
	if scope.elsewhere != "" {
		return r.leaveElsewhere(scope), nil
	}
	if !clusterGoes && waitsForTurn(scope.helmOp, scope.release) {
		setNotReady(release, addonsv1.DeletingReason, "the HelmOp is under deletion: the release waits for its turn (spec.rollout.maxUnavailable)")
		return ctrl.Result{}, nil
	}
	fate, err := fateEnds, error(nil)
	if !clusterGoes {
		fate, err = r.fateOf(ctx, release)
	}
	switch {
	case err != nil:
		setNotReady(release, addonsv1.DeletingReason, "it is not known whether the release is still wanted: "+err.Error())
		return ctrl.Result{}, err
	case fate == fateWanted:
		ctrl.LoggerFrom(ctx).Info("Leaving a release that its HelmOp still wants", "Cluster", clusterKey(release))
		controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
		return ctrl.Result{}, nil
	case fate == fateUnknown && isOwnerAwaited(release, r.now()):
		return r.awaitOwner(ctx, scope), nil
	}
	switch allowed, err := r.mayAccess(ctx, scope); {
	case err != nil:
		return ctrl.Result{}, err
	case !allowed:
		// Whoever took the right away keeps what is there, and the object is not kept for it.
		return r.orphan(scope, corev1.EventTypeWarning, ", which may not be accessed any more"), nil
	}
	if ok, err := r.mayEnd(ctx, scope, fate); !ok {
		if clusterGoes && err == nil {
			// The HelmOp of what is waited for may be suspended meanwhile. Nothing tells of that, and the time is short.
			return ctrl.Result{RequeueAfter: outdatedRetry}, nil
		}
		return ctrl.Result{}, err
	}
	target, ok := r.connect(ctx, release)
	if !ok {
		return ctrl.Result{RequeueAfter: reconnectRetry(release, r.clusters.State(clusterKey(release)))}, nil
	}
	target.Storage = r.storage(scope)
	return r.uninstall(ctx, scope, target)
}

// pauseOf tells why nothing may be done for a release; empty if something may.
func pauseOf(scope *releaseScope) string {
	switch {
	case scope.cluster != nil && isClusterPaused(scope.cluster):
		return "the Cluster is paused"
	case scope.helmOp != nil && scope.helmOp.Spec.Suspend:
		return "the HelmOp is suspended (spec.suspend)"
	case scope.helmOp != nil && annotations.HasPaused(scope.helmOp):
		return "the HelmOp has the paused annotation"
	case isChildPaused(scope.release):
		why := "this object has the paused annotation"
		if said := scope.release.Annotations[clusterv1.PausedAnnotation]; said != "" && said != "true" {
			why += ": " + truncate(said, maxPauseReason)
		}
		return why
	default:
		return ""
	}
}

// maxPauseReason bounds what an annotation adds to a message.
const maxPauseReason = 512

// isChildPaused tells whether a release is paused on its own.
func isChildPaused(release *addonsv1.HelmOpRelease) bool {
	return annotations.HasPaused(release)
}

// deletionPolicy is the HelmOp's as long as there is one: it may have changed after the spec of the release was written. The HelmOp is nil if
// it is gone.
func deletionPolicy(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) addonsv1.DeletionPolicy {
	if helmOp != nil && helmOp.Spec.DeletionPolicy != "" {
		return helmOp.Spec.DeletionPolicy
	}
	return release.Spec.DeletionPolicy
}

// orphan ends a HelmOpRelease and leaves its release in the cluster. The text why follows the name of the Cluster.
func (r *releaseReconciler) orphan(scope *releaseScope, eventType, why string) ctrl.Result {
	release := scope.release
	r.event(scope, eventType, addonsv1.OrphanedEvent, "Orphan", fmt.Sprintf("Left release %s in Cluster %s%s", describe(release), clusterTitle(release), why))
	controllerutil.RemoveFinalizer(release, addonsv1.HelmOpReleaseFinalizer)
	return ctrl.Result{}
}

// waitsForTurn tells whether a release under deletion may not be uninstalled yet, because its HelmOp is under deletion, too.
func waitsForTurn(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease) bool {
	return helmOp != nil && !helmOp.DeletionTimestamp.IsZero() && !isEnding(helmOp, release)
}

// whyOrphaned tells why a release that ends stays in its cluster; empty if it is uninstalled.
func whyOrphaned(scope *releaseScope) string {
	switch {
	case scope.release.Annotations[addonsv1.OrphanAnnotation] == "true":
		return "the HelmOpRelease has the annotation " + addonsv1.OrphanAnnotation
	case deletionPolicy(scope.release, scope.helmOp) == addonsv1.DeletionPolicyOrphan:
		return "deletionPolicy is Orphan"
	default:
		return ""
	}
}

// setNotReady says that a release is not as it is wanted, and why.
func setNotReady(release *addonsv1.HelmOpRelease, reason, message string) bool {
	return setCondition(release, addonsv1.ReadyCondition, metav1.ConditionFalse, reason, message)
}

func describe(release *addonsv1.HelmOpRelease) string {
	return release.Spec.Release.Namespace + "/" + release.Spec.Release.Name
}

// releaseConditions are those of a HelmOpRelease that this controller owns.
var releaseConditions = []string{
	addonsv1.ReadyCondition, addonsv1.ClusterReachableCondition, addonsv1.ReleasedCondition, addonsv1.PausedCondition,
	addonsv1.HealthyCondition, addonsv1.TestedCondition, addonsv1.DriftedCondition, addonsv1.StalledCondition,
}

// event tells of something that happened to a release, at the release and, as long as there are not too many, at its HelmOp.
func (r *releaseReconciler) event(scope *releaseScope, eventType, reason, action, message string) {
	message = truncate(message, maxEventMessage)
	r.recorder.Eventf(scope.release, nil, eventType, reason, action, "%s", message)
	if scope.helmOp != nil && r.budgets.take(scope.helmOp, reason) {
		r.recorder.Eventf(scope.helmOp, scope.release, eventType, reason, action, "%s", message)
	}
}
