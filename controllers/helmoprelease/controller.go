// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/memory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ownwrites"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordstorage"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasememory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/runningactions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradereadiness"
)

// Reconciler reconciles HelmOpReleases. It connects to the workload cluster, observes the release, decides, acts and
// reports.
type Reconciler struct {
	client     client.Client
	live       client.Reader
	clusters   clusterview.Clusters
	charts     *artifacts.Charts
	engine     Engine
	watcher    Watcher
	references *references.Reader
	renderer   *render.Renderer
	slots      *slots.Slots
	reads      *recordreads.Reads
	recorder   events.EventRecorder
	budgets    *report.EventBudgets
	tracer     *tracing.Tracer
	now        func() time.Time

	// kubeconfigs reads the Secrets with kubeconfigs. It refuses kubeconfigs that must not be used.
	kubeconfigs client.Reader

	// memories hold the state of each release that exists only in memory.
	memories memory.Objects[releasememory.Memory]

	// assigned renders the values that are assigned to a release.
	assigned assignedvalues.Renderer

	// intents determines why a HelmOpRelease is under deletion.
	intents deletionintent.Reader

	// gate decides whether other releases in the Cluster permit an action.
	gate dependencies.Gate

	// images looks up the images of a release before a change of the release.
	images *preflight.Images

	// guard decides which Clusters in other namespaces a HelmOp may access.
	guard *selection.Guard

	// actions are the running actions other than uninstallations.
	actions runningactions.Actions

	// writes are the writes of this controller that the cache may not have yet. client records them.
	writes ownwrites.Writes

	// rendered lists the artifacts that this process has rendered without a crash.
	rendered attempts.Rendered

	// resyncPeriod is Options.ResyncPeriod.
	resyncPeriod time.Duration

	// watchFilter is Options.WatchFilter, shard is Options.Shard.
	watchFilter, shard string

	// records is Options.Records. recordsLeft lists the HelmOps with an Event of the last hour about undeleted records.
	records     recordstorage.Options
	recordsLeft recordstorage.Left
}

// releaseScope holds the objects that a pass reads before it connects. Set by gather, except for before.
type releaseScope struct {
	release *addonsv1.HelmOpRelease

	// before is a copy of the release from the start of the pass.
	before *addonsv1.HelmOpRelease

	// helmOp is the HelmOp of the release; nil if it does not exist. It is shared with the cache: do not change it.
	helmOp *addonsv1.HelmOp

	// cluster is the Cluster of the release; nil if it does not exist. object is the same Cluster in unstructured form.
	cluster *clusterv1.Cluster
	object  *unstructured.Unstructured

	// otherShard is the message for a release whose Cluster is in another shard than the HelmOp; empty for the same shard.
	otherShard string

	// isOfOtherShard is true if the release has the label of another shard, or is about to get it. The manager of the
	// other shard writes the status.
	isOfOtherShard bool

	// leavesStatus is true if the pass does not write the status, because the next pass follows soon and writes it. Set by
	// addFinalizer, takeOverAfterMove and act.
	leavesStatus bool

	// adoption is the wait for an adoption from the pass before. Set by reconcile.
	adoption releasememory.AdoptionWait

	// trace collects the steps of the pass; nil if the release is not traced. Set by reconcile.
	trace *tracing.Pass
}

// Reconcile makes one pass over a HelmOpRelease. The result has the time and the priority of the next pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	ctx = oci.ForTenant(ctx, req.Namespace)
	defer func() {
		r.slots.Settle(req.NamespacedName)
		if r.slots.IsGranted(req.NamespacedName) {
			result.Priority = new(async.PriorityOfSlot)
		}
	}()
	if wait := r.writes.Wait(req.NamespacedName); wait > 0 {
		r.slots.Keep(req.NamespacedName)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	ctx = r.writes.For(ctx, req.NamespacedName)
	release := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, req.NamespacedName, release); err != nil {
		if apierrors.IsNotFound(err) {
			r.dropRelease(req)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !apiutil.IsWatched(release, r.watchFilter) {
		r.dropRelease(req)
		return ctrl.Result{}, nil
	}
	if r.isRemoved(release) {
		return ctrl.Result{}, nil
	}
	if report.IsBeingMoved(release) {
		r.dropRelease(req)
		return ctrl.Result{}, report.BeingMoved(ctx, r.client, release, addonsv1.HelmOpReleaseResource, releaseConditions)
	}
	result, err = r.reconcile(ctx, req, release)
	result.Priority = new(queue.PriorityOf(release, queue.AnswersOf(r.clusters)(apiutil.ClusterKey(release)), r.now()))
	if err == nil {
		result.RequeueAfter = queue.WithinResync(result.RequeueAfter, r.resyncPeriod, release)
	}
	return requeue.OrError(result, err)
}

// reconcile makes a pass over a release that this manager serves. The cache must contain the last writes of the
// release.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request,
	release *addonsv1.HelmOpRelease,
) (result ctrl.Result, reterr error) {
	reader := client.Reader(r.client)
	if !release.DeletionTimestamp.IsZero() {
		// The cache may lack a new pause or deletion policy. Both must be known before an uninstallation.
		reader = r.live
	}
	scope, err := r.gather(ctx, reader, release)
	if err != nil {
		return ctrl.Result{}, err
	}
	if scope.isOfOtherShard {
		r.dropObjectState(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	scope.before = release.DeepCopy()
	if known := r.memories.Known(req.NamespacedName); known != nil {
		// A pass that does not reach the uninstallation ends the wait for an adoption: the adopter may be held, too.
		scope.adoption, known.Adoption = known.Adoption, releasememory.AdoptionWait{}
	}
	// A pass that ends before keepNextTry waits for something that has no time.
	release.Status.NextTryAt = metav1.Time{}
	scope.trace = r.tracer.PassOver(release, func() *tracing.Memory { return &r.memoryOf(release).Trace }, r.now)
	began := scope.trace.Now()
	defer func() {
		if scope.isOfOtherShard {
			return
		}
		scope.settleStatus()
		scope.trace.Progress(scope.before, release, began)
		// The result of an action is written even if the manager stops.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patchTimeout)
		defer cancel()
		err := client.IgnoreNotFound(report.WriteObject(ctx, r.client, scope.before, release, releaseConditions))
		if err == nil {
			r.noteRemoved(scope)
		}
		reterr = kerrors.NewAggregate([]error{reterr, err})
	}()
	if r.resetIfRecreated(ctx, scope) {
		// The reset is stored first. A write during the pass would store it in part.
		return ctrl.Result{RequeueAfter: requeueAtOnce}, nil
	}
	if !release.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, scope)
	}
	return r.reconcileNormal(ctx, scope)
}

// settleStatus completes the status at the end of a pass.
func (s *releaseScope) settleStatus() {
	if s.leavesStatus {
		s.release.Status = *s.before.Status.DeepCopy()
		return
	}
	upgradereadiness.Settle(s.release, s.cluster, s.object)
	s.settleClusterMove()
	report.Outdated(s.release)
	report.Deleting(s.release)
	report.KeepTimes(s.before.Status.Conditions, s.release.Status.Conditions)
	if releasestatus.IsReady(s.release) {
		// The release works in a re-created Cluster, so the Cluster is not new any more.
		s.release.Status.ClusterRecreatedAt = metav1.Time{}
	}
	s.release.Status.ObservedGeneration = s.release.Generation
}

// dropRelease drops the state of a release in memory. The release does not exist any more, or another manager serves
// it.
func (r *Reconciler) dropRelease(req ctrl.Request) {
	r.watcher.Forget(req.NamespacedName)
	r.memories.Drop(req.NamespacedName)
}

// dropObjectState drops the state of a release's objects in memory, and their watches.
func (r *Reconciler) dropObjectState(key client.ObjectKey) {
	r.watcher.Forget(key)
	if known := r.memories.Known(key); known != nil {
		known.DropObjects()
	}
}

// memoryOf returns the memory of a release.
func (r *Reconciler) memoryOf(release *addonsv1.HelmOpRelease) *releasememory.Memory {
	return r.memories.Of(client.ObjectKeyFromObject(release))
}

// patchTimeout is the timeout of the write at the end of a pass.
const patchTimeout = 10 * time.Second

// gather reads the HelmOp and the Cluster of a release. A missing HelmOp or Cluster is not an error.
func (r *Reconciler) gather(ctx context.Context, reader client.Reader,
	release *addonsv1.HelmOpRelease,
) (*releaseScope, error) {
	scope := &releaseScope{release: release}
	if owner := metav1.GetControllerOf(release); owner != nil && owner.Kind == apiutil.HelmOpKind {
		helmOp, key := &addonsv1.HelmOp{}, client.ObjectKey{Namespace: release.Namespace, Name: owner.Name}
		err := reader.Get(ctx, key, helmOp, client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) {
			// The cache does not have HelmOps of other shards.
			err = r.live.Get(ctx, key, helmOp)
		}
		switch {
		case err == nil && !apiutil.IsOfShard(helmOp, r.shard):
			scope.isOfOtherShard = true
			return scope, nil
		case err == nil:
			scope.helmOp = helmOp
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading the HelmOp of the release: %w", err)
		}
	}
	object, err := clusterview.FindCluster(ctx, reader, r.live, apiutil.ClusterKey(release), r.shard)
	if apierrors.IsNotFound(err) {
		r.dropCluster(apiutil.ClusterKey(release))
		return scope, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", apiutil.ClusterKey(release), err)
	}
	scope.object = object
	if !apiutil.IsOfShard(object, r.shard) {
		scope.otherShard = apiutil.OtherShardMessage(object, release)
		r.dropCluster(apiutil.ClusterKey(release))
	}
	scope.cluster, err = r.renderer.Objects.Typed(object)
	return scope, err
}

func describe(release *addonsv1.HelmOpRelease) string {
	return release.Spec.Release.Namespace + "/" + release.Spec.Release.Name
}

// releaseConditions are the conditions of a HelmOpRelease that this controller owns.
var releaseConditions = []string{
	addonsv1.ReadyCondition, addonsv1.ClusterReachableCondition, addonsv1.ReleasedCondition, addonsv1.PausedCondition,
	addonsv1.HealthyCondition, addonsv1.TestedCondition, addonsv1.DriftedCondition, addonsv1.StalledCondition,
	addonsv1.DeletingCondition, addonsv1.KubernetesUpgradeReadyCondition, addonsv1.ClusterBeingMovedCondition,
}

// event records an Event on the release and, within a budget, on its HelmOp.
func (r *Reconciler) event(scope *releaseScope, eventType, reason, action, message string) {
	message = apiutil.Truncate(message, report.MaxEventMessage)
	r.recorder.Eventf(scope.release, nil, eventType, reason, action, "%s", message)
	if scope.helmOp != nil && r.budgets.Take(scope.helmOp, reason) {
		r.recorder.Eventf(scope.helmOp, scope.release, eventType, reason, action, "%s", message)
	}
}

// resetIfRecreated resets the status of a release whose Cluster was re-created, and ends its pin. The new Cluster has
// no releases and no failures. A changed UID shows that the Cluster was re-created, even if no manager was running at
// that time. The result is true if the status was reset.
func (r *Reconciler) resetIfRecreated(ctx context.Context, scope *releaseScope) bool {
	release := scope.release
	if scope.cluster == nil {
		return false
	}
	bookkeeping := addonsv1.ReleaseBookkeeping{ClusterUID: string(scope.object.GetUID())}
	if !apiutil.HasFormerStatus(release, scope.object) {
		release.Status.ClusterUID = bookkeeping.ClusterUID
		return false
	}
	if scope.otherShard != "" {
		return false // This manager gets no events of the Cluster.
	}
	bookkeeping.ClusterRecreatedAt = metav1.NewTime(r.now())
	ctrl.LoggerFrom(ctx).Info("Resetting the status of the release, because its Cluster was re-created", "Cluster",
		apiutil.ClusterKey(release))
	r.dropObjectState(client.ObjectKeyFromObject(release))
	delete(release.Annotations, addonsv1.InstalledOnceAnnotation)
	delete(release.Annotations, addonsv1.PinnedRevisionAnnotation)
	release.Status = addonsv1.HelmOpReleaseStatus{ReleaseBookkeeping: bookkeeping}
	report.SetNotReady(release, addonsv1.ProgressingReason,
		"The Cluster was re-created under the same name: the chart is installed again")
	return true
}

// dropCluster drops the connections to a Cluster, and the state that was read from it.
func (r *Reconciler) dropCluster(key client.ObjectKey) {
	r.engine.Forget(key.String())
	r.watcher.Disconnect(key.String())
	r.reads.Forget(key)
}
