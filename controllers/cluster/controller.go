// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/memory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// conditionsManager is the field manager of the conditions of Clusters.
const conditionsManager = "helmop-cluster-conditions"

// clusterConflictRetry is the wait before the next try if another program wrote the Cluster first.
const clusterConflictRetry = 200 * time.Millisecond

// Reconciler publishes the state of releases in conditions of their Clusters, and holds upgrades and deletions of
// Clusters. It writes a Cluster only if a release or a HelmOp requests a condition or a hold.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	objects  *clusterview.Reader
	recorder events.EventRecorder
	budgets  *report.EventBudgets
	kinds    *kindcache.Watcher
	now      func() time.Time

	// extension is Options.RuntimeExtension.
	extension bool

	// watchFilter and shard are Options.WatchFilter and Options.Shard.
	watchFilter, shard string

	// forgetReads is Options.ForgetReads.
	forgetReads func(cluster client.ObjectKey)

	// link is Options.Link.
	link func(cluster client.ObjectKey) clusterlink.State

	// warned has the UIDs of the Clusters for which warnOfMove has recorded an Event, by their keys.
	warned sync.Map

	// unread has the delays of Clusters whose control planes cannot be read.
	unread memory.Objects[requeue.Delay]

	// failed has the delays of Clusters whose passes failed, but must be repeated in time. See endPass.
	failed memory.Objects[requeue.Delay]
}

// lifeScope holds the state of one pass over a Cluster.
type lifeScope struct {
	// object is the Cluster as the API server serves it, and cluster is the same object in the type of Cluster API. They
	// are shared with the cache: do not change them.
	object  *unstructured.Unstructured
	cluster *clusterv1.Cluster

	// releases are the releases of the Cluster that HelmOps of its namespace control. They are shared with the cache: do
	// not change them.
	releases []addonsv1.HelmOpRelease

	// helmOps are the HelmOps of the namespace of the Cluster. They are shared with the cache: do not change them.
	helmOps []addonsv1.HelmOp

	// byName are helmOps by their names.
	byName map[string]*addonsv1.HelmOp

	// requested are the conditions that HelmOps request for the Cluster. Reconcile sets it.
	requested []metav1.Condition

	// unknownHelmOps are the names of the HelmOps of all other releases. These HelmOps do not exist, or belong to another
	// shard.
	unknownHelmOps sets.Set[string]

	// isRead is true if the Cluster may be read for at least one release. This release may be in another namespace.
	isRead bool

	// foreign is true if conditions and holds of the Cluster may belong to HelmOps of other shards. readForeign sets it.
	foreign bool

	// publishesPlans is the result of render.PublishesPlans. controlPlane sets it.
	publishesPlans bool
}

// Reconcile makes one pass over a Cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scope, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if scope == nil {
		r.warned.Delete(req.NamespacedName)
		r.unread.Drop(req.NamespacedName)
		r.failed.Drop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if !scope.isRead {
		r.forgetReads(req.NamespacedName)
	}
	r.warnOfMove(ctx, scope)
	if !scope.cluster.DeletionTimestamp.IsZero() {
		result, err := r.reconcileDeletion(ctx, scope)
		return r.endPass(ctx, scope, result, err)
	}
	if isRestoredHold(scope.cluster) {
		result, err := r.endRestoredHold(ctx, scope)
		return r.endPass(ctx, scope, result, err)
	}
	if apiutil.IsClusterPaused(scope.cluster) {
		return ctrl.Result{}, nil
	}
	scope.requested = clusterConditions(scope.cluster, scope.helmOps, scope.releases)
	foreignErr := r.readForeign(ctx, scope)
	var conditionErr error
	if !report.IsBeingMoved(scope.cluster) {
		conditionErr = r.reconcileConditions(ctx, scope)
	}
	result, err := r.reconcileUpgrade(ctx, scope)
	err = kerrors.NewAggregate([]error{foreignErr, conditionErr, err})
	if err == nil && scope.foreign && (result.RequeueAfter == 0 || result.RequeueAfter > foreignRetry) {
		result.RequeueAfter = wait.Jitter(foreignRetry, requeue.Jitter)
	}
	return r.endPass(ctx, scope, result, err)
}

// endPass returns the result of a pass. It returns no error for a conflict with another writer of the Cluster, or for a
// Cluster that does not exist: the pass is repeated.
//
// A hold must end in time, also after an error. So if the result has a delay, endPass logs each new error, and repeats
// the pass with growing delays, but after this delay at the latest. controller-runtime would ignore the delay.
func (r *Reconciler) endPass(ctx context.Context, scope *lifeScope, result ctrl.Result, err error,
) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(scope.object)
	serious := kerrors.FilterOut(err, apierrors.IsConflict, apierrors.IsNotFound)
	switch {
	case err == nil:
		r.failed.Drop(key)
		return result, nil
	case serious == nil:
		return ctrl.Result{RequeueAfter: clusterConflictRetry}, nil
	case result.RequeueAfter == 0:
		return result, serious
	}
	retryIn, isNew := r.failed.Of(key).After(requeue.Cause{}, serious.Error())
	if isNew {
		ctrl.LoggerFrom(ctx).Error(nil, "Cannot reconcile the Cluster; it is tried again", "error", serious.Error())
	}
	result.RequeueAfter = requeue.Sooner(retryIn, result.RequeueAfter)
	return result, nil
}

// gather reads the objects that a pass needs. The result is nil if the Cluster does not exist.
func (r *Reconciler) gather(ctx context.Context, key client.ObjectKey) (*lifeScope, error) {
	read, err := clusterlife.ReadScope(ctx, r.client, r.objects.Typed, key)
	if read == nil {
		return nil, err
	}
	scope := &lifeScope{object: read.Object, cluster: read.Cluster, helmOps: read.HelmOps,
		byName: clusterlife.ByName(read.HelmOps), unknownHelmOps: sets.Set[string]{}}
	for i := range read.Releases {
		release := &read.Releases[i]
		helmOp := scope.helmOpOf(release)
		scope.isRead = scope.isRead || r.mayRead(scope.cluster, release, helmOp)
		switch {
		case helmOp != nil:
			scope.releases = append(scope.releases, *release)
		case release.Namespace == key.Namespace:
			scope.unknownHelmOps.Insert(apiutil.HelmOpOf(release))
		}
	}
	return scope, nil
}

// mayRead reports whether a Cluster may be read for a release. The HelmOp is nil if it is not in the cache.
func (r *Reconciler) mayRead(cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp,
) bool {
	return !apiutil.IsClusterPaused(cluster) && !apiutil.IsChildPaused(release) &&
		apiutil.IsWatched(release, r.watchFilter) &&
		(helmOp == nil || !apiutil.IsHelmOpPaused(helmOp))
}

// helmOpOf returns the HelmOp of a release; nil if the HelmOp does not exist or does not control the release.
func (s *lifeScope) helmOpOf(release *addonsv1.HelmOpRelease) *addonsv1.HelmOp {
	return clusterlife.HelmOpOf(release, s.byName)
}

// watches reports whether this manager serves a release of the Cluster, or a HelmOp with a condition of the Cluster.
func (r *Reconciler) watches(scope *lifeScope) bool {
	return slices.ContainsFunc(scope.releases,
		func(release addonsv1.HelmOpRelease) bool { return apiutil.IsWatched(&release, r.watchFilter) }) ||
		slices.ContainsFunc(scope.helmOps, func(helmOp addonsv1.HelmOp) bool {
			return apiutil.IsWatched(&helmOp, r.watchFilter) && helmOp.Spec.ClusterCondition != "" &&
				clusterlife.Selects(&helmOp, scope.cluster)
		})
}

// reconcileConditions publishes the conditions that HelmOps request. It uses server-side apply. So the controllers of
// Cluster API do not change these conditions, and a condition is removed when no HelmOp requests it any more.
func (r *Reconciler) reconcileConditions(ctx context.Context, scope *lifeScope) error {
	all, unsettled := scope.requested, r.unsettledConditions(scope)
	if scope.foreign {
		leaveOpen(all)
	}
	own := slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return unsettled.Has(c.Type) })
	desired := slices.Clone(own)
	for _, known := range scope.cluster.Status.Conditions {
		if isOfHelmOp(known) && (unsettled.Has(known.Type) || scope.foreign && isUnrequested(known, all)) {
			desired = append(desired, known)
		}
	}
	applied, changed := changedConditions(scope.cluster, desired, metav1.NewTime(r.now()))
	if !changed || len(own) > 0 && !r.watches(scope) {
		return nil
	}
	list := make([]any, 0, len(applied))
	for i := range applied {
		condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&applied[i])
		if err != nil {
			return err
		}
		list = append(list, condition)
	}
	apply := apiutil.NewCluster()
	apply.SetNamespace(scope.object.GetNamespace())
	apply.SetName(scope.object.GetName())
	// With the UID, the API server refuses to write the conditions to a re-created Cluster.
	apply.SetUID(scope.object.GetUID())
	if err := unstructured.SetNestedSlice(apply.Object, list, "status", "conditions"); err != nil {
		return err
	}
	err := r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply),
		client.FieldOwner(conditionsManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying conditions to the Cluster: %w", err)
	}
	return nil
}

// eventAt records an Event about the Cluster. If the Event is about a release, it is also recorded for the release.
// Within a budget, it is also recorded for the HelmOp of the release.
func (r *Reconciler) eventAt(scope *lifeScope, release *addonsv1.HelmOpRelease,
	eventType, reason, action, message string,
) {
	record := func(object, related runtime.Object, message string) {
		r.recorder.Eventf(object, related, eventType, reason, action, "%s",
			apiutil.Truncate(message, report.MaxEventMessage))
	}
	if release == nil {
		record(scope.object, nil, message)
		return
	}
	record(scope.object, release, fmt.Sprintf("HelmOp %s: %s", apiutil.HelmOpOf(release), message))
	record(release, scope.object, message)
	if owner := metav1.GetControllerOf(release); owner != nil && owner.Kind == apiutil.HelmOpKind {
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: owner.Name,
			UID: owner.UID}}
		if r.budgets.Take(helmOp, reason) {
			record(helmOp, release, fmt.Sprintf("Cluster %s: %s", apiutil.ClusterTitle(release), message))
		}
	}
}

// controlPlaneFailed returns the delay until the control plane of a Cluster is read again. It logs the cause once: for
// example, a user must correct a wrong reference or a missing permission. No event announces such a correction, so the
// delay does not grow beyond the delay of the outcome.
func (r *Reconciler) controlPlaneFailed(ctx context.Context, scope *lifeScope, err error) time.Duration {
	outcome := failures.Of(err, failures.Planning)
	if outcome.Kind == failures.Waiting {
		return outcome.Wait
	}
	cause := requeue.Cause{Generation: scope.object.GetGeneration(), Reason: addonsv1.ObjectReadFailedReason}
	wait, isNew := r.unread.Of(client.ObjectKeyFromObject(scope.object)).After(cause, err.Error())
	if isNew {
		ctrl.LoggerFrom(ctx).Error(nil, "Cannot read which version of Kubernetes the control plane runs; it is tried again",
			"error", err.Error())
	}
	return requeue.Sooner(wait, outcome.Wait)
}

// reconcileUpgrade sets, renews and removes the annotations with which HelmOps hold upgrades of the Cluster.
func (r *Reconciler) reconcileUpgrade(ctx context.Context, scope *lifeScope) (ctrl.Result, error) {
	holders := upgradeHolders(scope)
	var result ctrl.Result
	controlPlane, err := r.controlPlane(ctx, scope, len(holders) > 0 || scope.foreign)
	if err != nil {
		// A hold must end in time, even if the version is not known.
		result.RequeueAfter = r.controlPlaneFailed(ctx, scope, err)
	} else if known := r.unread.Known(client.ObjectKeyFromObject(scope.object)); known != nil {
		known.Forget()
	}
	annotations := scope.object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	var holdEvents []func()
	// A Cluster that is not being deleted has this annotation if it was restored from a backup, for example.
	_, changed := annotations[addonsv1.DeletionHoldAnnotation]
	delete(annotations, addonsv1.DeletionHoldAnnotation)
	for _, name := range upgradeHoldNames(holders, annotations) {
		holder, active := holders[name]
		state, decides := r.upgradeState(scope, controlPlane, annotations, name, holder)
		if !decides {
			continue
		}
		decision := clusterlife.DecideUpgrade(scope.cluster, state)
		var steps clusterlife.StepsDecision
		if r.extension && active {
			steps = clusterlife.DecideSteps(scope.cluster, state, decision, annotations[clusterlife.StepHoldName(name)],
				annotations[clusterlife.WorkersHoldName(name)])
		}
		result.RequeueAfter = requeue.Sooner(requeue.Sooner(result.RequeueAfter, decision.RequeueAfter), steps.RequeueAfter)
		if !setUpgradeAnnotations(annotations, name, decision, steps) {
			continue
		}
		changed = true
		for i, one := range append([]clusterlife.UpgradeDecision{decision}, steps.Decisions...) {
			if one.Event != "" {
				holdEvents = append(holdEvents, func() {
					action := report.ActionOf("HoldUpgrade", i)
					r.eventAt(scope, holder.Release, eventType(one.Warning), one.Event, action, one.Message)
				})
			}
		}
	}
	if !changed {
		return result, nil
	}
	after := scope.object.DeepCopy()
	after.SetAnnotations(annotations)
	// With the resource version, a decision about an old state cannot restore a hold that has ended.
	patch := client.MergeFromWithOptions(scope.object, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, after, patch); err != nil {
		return result, fmt.Errorf("annotating the Cluster: %w", err)
	}
	for _, record := range holdEvents {
		record()
	}
	return result, nil
}

// upgradeState returns the state for the decision about an annotation. The holder is the zero value if no HelmOp
// requests the annotation. The second result is false if the annotations must not change.
func (r *Reconciler) upgradeState(scope *lifeScope, controlPlane map[string]any, annotations map[string]string,
	name string, holder clusterlife.UpgradeHolder,
) (clusterlife.UpgradeState, bool) {
	state := clusterlife.UpgradeState{Running: render.RunningVersion(controlPlane),
		Specified: render.SpecifiedVersion(controlPlane), Now: r.now(), HoldsSteps: r.extension,
		PublishesPlans: scope.publishesPlans, Resumed: clusterlife.ResumedAt(scope.cluster, r.now())}
	state.Value, state.Held = annotations[name]
	state.Released = annotations[clusterlife.UpgradeReleasedName(name)]
	switch {
	case holder.HelmOp != nil:
		state.Running = versionToBegin(scope.cluster, state)
		holder.Apply(&state, scope.cluster)
		return state, apiutil.IsWatched(holder.HelmOp, r.watchFilter) && mayBeginHold(scope.cluster, holder, state.Held)
	case scope.foreign && state.Held:
		foreignHold(&state)
	}
	return state, !scope.foreign || state.Held
}

func eventType(isWarning bool) string {
	if isWarning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// controlPlane returns the control-plane object of a Cluster; nil if it does not exist or is not needed. It also sets
// publishesPlans of the scope.
func (r *Reconciler) controlPlane(ctx context.Context, scope *lifeScope, needed bool) (map[string]any, error) {
	if !needed || !scope.cluster.Spec.Topology.IsDefined() {
		return nil, nil
	}
	objects := &clusterview.Objects{}
	controlPlane, err := r.objects.ReadRef(ctx, objects, "control-plane", scope.cluster.Namespace,
		scope.cluster.Spec.ControlPlaneRef)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects.Watched {
		if err := r.kinds.Watch(obj.GroupVersionKind()); err != nil {
			return nil, fmt.Errorf("watching control planes: %w", err)
		}
	}
	scope.publishesPlans, err = render.PublishesPlans(ctx, r.objects, scope.cluster, controlPlane)
	if err != nil {
		return nil, err
	}
	return controlPlane, nil
}

// reconcileDeletion holds the deletion of a Cluster until the releases with the option beforeClusterDelete are
// uninstalled. For a Cluster with the annotation delete-for-move, it only ends a hold. This cannot end the pause of a
// real move: clusterctl does not move a paused Cluster, and its annotation removes the annotation of a hold.
func (r *Reconciler) reconcileDeletion(ctx context.Context, scope *lifeScope) (ctrl.Result, error) {
	hold, isMoved := apiutil.HoldOf(scope.cluster), report.IsBeingMoved(scope.cluster)
	if hold.Over || isMoved && !hold.IsOn() {
		return ctrl.Result{}, nil
	}
	if mended, err := r.correctHold(ctx, scope); mended {
		return ctrl.Result{}, err
	}
	if hold.Paused && apiutil.IsClusterPaused(scope.cluster) {
		return ctrl.Result{}, nil
	}
	waitFor := clusterlife.ReleasesToUninstall(scope.releases, scope.helmOps)
	switch {
	case !hold.IsOn() && len(waitFor) == 0:
		return ctrl.Result{}, nil
	case !hold.IsOn():
		return ctrl.Result{}, r.beginHold(ctx, scope, len(waitFor))
	}
	var rest time.Duration
	var late []string
	var errs []error
	for _, release := range waitFor {
		left := clusterlife.DeletionRest(hold, release, r.now())
		if left <= 0 {
			late = append(late, release.Name)
			continue
		}
		if rest == 0 || left < rest {
			rest = left
		}
		if !isMoved && release.DeletionTimestamp.IsZero() && apiutil.IsWatched(release, r.watchFilter) {
			errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, release, client.Preconditions{UID: &release.UID})))
		}
	}
	if rest > 0 {
		r.warnOfHold(scope, hold)
		errs = append(errs, r.pauseUnlessWaiting(ctx, scope))
		return ctrl.Result{RequeueAfter: rest}, kerrors.NewAggregate(errs)
	}
	return ctrl.Result{}, r.endHold(ctx, scope, late)
}
