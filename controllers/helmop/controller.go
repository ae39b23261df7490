// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clustermove"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/memory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ownwrites"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// Reconciler reconciles HelmOps. It resolves references, selects Clusters, renders values, plans the rollout and writes
// HelmOpReleases.
type Reconciler struct {
	client     client.Client
	live       client.Reader
	references *references.Reader
	renderer   *render.Renderer
	resolver   *resolution.Resolver
	guard      *selection.Guard
	lookup     *selection.Lookup
	planned    *rolloutstate.Cache
	moved      clustermove.Releases
	recorder   events.EventRecorder
	memories   memory.Objects[helmOpMemory]
	kinds      *kindcache.Watcher
	tracer     *tracing.Tracer
	now        func() time.Time

	// writes are the writes of this controller that the cache may not have yet. client records them.
	writes ownwrites.Writes

	// resyncPeriod is Options.ResyncPeriod.
	resyncPeriod time.Duration

	// watchFilter is Options.WatchFilter, shard is Options.Shard.
	watchFilter, shard string

	// answers reports which Clusters answer. The HelmOps of these Clusters come first. answers is nil if that is not
	// known.
	answers queue.ClusterAnswers
}

// helmOpMemory is what the reconciler keeps of a HelmOp only in memory.
type helmOpMemory struct {
	// delay is the delay after a pass that failed.
	delay requeue.Delay

	// lost are the Clusters whose release was deleted without a confirmation, and has not been created again. A restarted
	// manager does not know them. They then count as lost until the loss is over.
	lost sets.Set[string]

	// isOriginKnown is true if noteOrigin has found out where the HelmOp comes from. arrivedAt is when this process saw it
	// first, while clusterctl move may still create its revisions and releases; otherwise it is zero. current is the last
	// revision that was the newest one and had the desired state.
	isOriginKnown bool
	arrivedAt     time.Time
	current       int64
}

// helmOpScope is the state of one pass over a HelmOp. Each field names the step that sets it.
type helmOpScope struct {
	helmOp *addonsv1.HelmOp

	// artifact is the artifact of spec.source; nil if the current source is not resolved. Set by resolve.
	artifact *addonsv1.ResolvedArtifact

	// resolution holds the artifacts of all references of the spec. Set by resolve.
	resolution resolution.Outcome

	// variants are the differences between Clusters; nil if variantsErr is set. Set by resolve.
	variants    *render.Variants
	variantsErr error

	// clusters are the Clusters that the HelmOp selects or has a release for. Set by selectClusters; render adds the
	// specs.
	clusters []*clusterScope
	// denied is the number of Clusters in other namespaces that the HelmOp may not access. Set by selectClusters.
	denied int
	// unknownAccess is the number of Clusters in other namespaces whose access check failed. Set by selectClusters.
	unknownAccess int
	// stale is true if the cache lacks a Cluster that the API server has. Set by selectClusters.
	stale bool

	// pending is true while the cache of a referenced kind is filled for the first time. Set by render.
	pending bool

	// strategy is the strategy of rollouts, and waves are the selectors of its waves. Set by readStrategy.
	strategy rollout.Strategy
	waves    []labels.Selector

	// desired is the desired revision; nil if it is not known. Set by compile and revise.
	desired *compiledRevision
	// past holds older revisions. Filled by compiledAt.
	past map[int64]pastRevision
	// revisions are the revisions of the HelmOp, the newest last. Set by readRevisions and revise.
	revisions revisions.List

	// plan has the step for each Cluster in clusters. Set by record.
	plan rollout.Result

	// approval is the decision about approvals. Set by record.
	approval approval.Decision

	// deletions is the decision whether releases of unselected Clusters may be deleted. pendingDeletions are the titles
	// of these Clusters. Set by record.
	deletions        brake.Decision
	pendingDeletions []string

	// programErr is the cause if nothing can be rendered for any Cluster. Set by compile, or by revise if the HelmOp
	// revision cannot be written.
	programErr error

	// selectorErr is the cause if no Cluster can be selected. Set by readStrategy and selectClusters.
	selectorErr error

	// dependencyErr is the cause if the dependencies of the HelmOp can never be met. Set by checkDependencies.
	dependencyErr *helmopstatus.DependencyError

	// invalidMaintenance is the cause if spec.maintenance is not valid; otherwise it is empty. Set by checkMaintenance.
	invalidMaintenance string

	// isArriving is true while clusterctl move may still create revisions and releases of the HelmOp. Set by checkMove.
	// awaitsRevisions is true if the pass waits for such a revision. Set by revise.
	isArriving, awaitsRevisions bool

	// requeueAfter is the delay after which the next pass is due without an event; 0 is never. Set by resolve.
	requeueAfter time.Duration
}

// Reconcile makes one pass over a HelmOp.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	ctx = oci.ForTenant(ctx, req.Namespace)
	if wait := r.writes.Wait(req.NamespacedName); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	ctx = r.writes.For(ctx, req.NamespacedName)
	helmOp := &addonsv1.HelmOp{}
	if err := r.client.Get(ctx, req.NamespacedName, helmOp); err != nil {
		if apierrors.IsNotFound(err) {
			r.drop(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !apiutil.IsWatched(helmOp, r.watchFilter) {
		r.drop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if report.IsBeingMoved(helmOp) {
		r.drop(req.NamespacedName)
		return ctrl.Result{}, report.BeingMoved(ctx, r.client, helmOp, addonsv1.HelmOpResource, helmOpConditions)
	}
	r.noteOrigin(helmOp)
	before := helmOp.DeepCopy()
	defer func() { result, reterr = requeue.OrError(result, reterr) }()
	defer func() {
		report.Outdated(helmOp)
		report.Deleting(helmOp)
		if reterr == nil {
			result.RequeueAfter = queue.WithinResync(result.RequeueAfter, r.resyncPeriod, helmOp)
		}
		helmOp.Status.ObservedGeneration = helmOp.Generation
		err := report.WriteObject(ctx, r.client, before, helmOp, helmOpConditions)
		reterr = kerrors.NewAggregate([]error{reterr, client.IgnoreNotFound(err)})
	}()

	if result, entered, err := r.enterShard(ctx, helmOp); !entered {
		return result, err
	}
	if apiutil.IsHelmOpPaused(helmOp) {
		const message = "spec.paused or the paused annotation is set: the HelmOp is not reconciled"
		report.SetPaused(helmOp, true, message)
		conditions.Delete(helmOp, addonsv1.ClusterBeingMovedCondition)
		switch conditions.GetReason(helmOp, addonsv1.ReadyCondition) {
		case addonsv1.ShardNotServedReason, addonsv1.ShardChangedReason, addonsv1.BeingMovedReason:
			report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionUnknown, addonsv1.PausedReason, message)
		}
		return ctrl.Result{}, nil
	}
	report.SetPaused(helmOp, false, "")
	if !helmOp.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.reconcileDelete(ctx, helmOp)
	}
	if controllerutil.AddFinalizer(helmOp, addonsv1.HelmOpFinalizer) {
		// The finalizer must be stored before the first release is created.
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return r.reconcileNormal(ctx, helmOp)
}

// drop drops the state of a HelmOp in memory. The HelmOp does not exist any more, or another manager serves it.
func (r *Reconciler) drop(helmOp client.ObjectKey) {
	r.resolver.Forget(helmOp)
	r.lookup.Forget(helmOp)
	r.memories.Drop(helmOp)
}

func (r *Reconciler) reconcileNormal(ctx context.Context, helmOp *addonsv1.HelmOp) (ctrl.Result, error) {
	scope := &helmOpScope{helmOp: helmOp}
	steps := []func(context.Context, *helmOpScope) error{
		r.checkMove,
		r.readRevisions,
		r.resolve,
		r.readStrategy,
		r.selectClusters,
		r.checkDependencies,
		r.checkMaintenance,
		r.compile,
		r.revise,
		r.render,
	}
	for _, step := range steps {
		if err := step(ctx, scope); err != nil {
			return ctrl.Result{}, err
		}
		if scope.stale {
			return ctrl.Result{RequeueAfter: requeue.StaleRetry}, nil
		}
		if scope.pending {
			return ctrl.Result{RequeueAfter: clusterview.KindRetry}, nil
		}
	}
	var errs []error
	if scope.selectorErr == nil {
		// If selectorErr is set, the Clusters are not known.
		errs = append(errs, r.record(ctx, scope))
	}
	err := kerrors.NewAggregate(append(errs, r.reportMovable(ctx, scope)))
	r.report(scope)
	return r.tryAgain(ctx, scope, err)
}

// tryAgain returns the result of a pass. Some releases cannot be written, for example because of a quota. The status
// reports them, and the log has them once. They are not failures of the controller. The pass is repeated after 1 s, 2 s
// and so on, up to 5 min.
func (r *Reconciler) tryAgain(ctx context.Context, scope *helmOpScope, err error) (ctrl.Result, error) {
	result, object := ctrl.Result{RequeueAfter: scope.requeueAfter}, client.ObjectKeyFromObject(scope.helmOp)
	if err == nil {
		if known := r.memories.Known(object); known != nil {
			known.delay = requeue.Delay{}
		}
		return result, nil
	}
	outcome := failures.Of(err, failures.Recording)
	if outcome.Kind == failures.Unexpected {
		return ctrl.Result{}, err
	}
	cause := requeue.Cause{Generation: scope.helmOp.Generation, Reason: outcome.Reason}
	wait, isNews := r.memories.Of(object).delay.After(cause, err.Error())
	if isNews {
		ctrl.LoggerFrom(ctx).Info("Releases cannot be written; this is tried again", "error", err.Error())
	}
	result.RequeueAfter = requeue.Sooner(result.RequeueAfter, wait)
	return result, nil
}

// helmOpConditions are the conditions of a HelmOp that this controller owns.
var helmOpConditions = []string{
	addonsv1.ReadyCondition, addonsv1.ResolvedCondition, addonsv1.VerifiedCondition, addonsv1.RollingOutCondition,
	addonsv1.PausedCondition, addonsv1.MovableCondition, addonsv1.DeletionsHeldCondition, addonsv1.ApprovedCondition,
	addonsv1.StalledCondition, addonsv1.DeletingCondition, addonsv1.ClusterBeingMovedCondition,
}

// event records an Event at a HelmOp.
func (r *Reconciler) event(helmOp *addonsv1.HelmOp, eventType, reason, action, message string) {
	r.recorder.Eventf(helmOp, nil, eventType, reason, action, "%s", apiutil.Truncate(message, report.MaxEventMessage))
}

func (r *Reconciler) warn(helmOp *addonsv1.HelmOp, reason, action, message string) {
	r.event(helmOp, corev1.EventTypeWarning, reason, action, message)
}
