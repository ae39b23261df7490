// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// errOutdated says that the HelmOp wants something else by now than its release was told.
var errOutdated = errors.New("the HelmOp is about to update this release")

// releaseInputs are what an installation or an upgrade is made of.
type releaseInputs struct {
	chart  *bundle.Chart
	values map[string]any
}

// act carries out a decision that needs Helm.
func (r *Reconciler) act(ctx context.Context, p *releasePass, decision decide.Decision) (ctrl.Result, error) {
	var made releaseInputs
	if isRelease(decision.Action) {
		var result ctrl.Result
		var err error
		var ok bool
		if made, result, err, ok = r.gatherInputs(ctx, p); !ok {
			return result, err
		}
	}
	done, ok := r.slot(p)
	if !ok {
		reportWaitingForSlot(p.release)
		return ctrl.Result{}, nil
	}
	defer done()
	stop, over := r.actions.begin(client.ObjectKeyFromObject(p.release))
	defer over()
	if ok, err := r.mayBegin(ctx, p.releaseScope); !ok {
		return ctrl.Result{}, err
	}
	p.options.Stop = stop
	var err error
	if p.options.Admit, err = admitLoss(p.releaseScope); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.countRendering(ctx, p, decision); err != nil {
		return ctrl.Result{}, err
	}
	started := r.now()
	progress := r.startProgress(ctx, p.releaseScope, decision)
	defer progress.stop()
	p.options.Progress = progress.tell
	result, err := r.engine.Act(ctx, p.target, decision, p.desired, p.options, made.chart, made.values)
	progress.stop()
	monitoring.ObserveAction(verbOf(decision.Action), started, r.now(), err)
	r.reportRecordsLeft(p.releaseScope, result)
	r.noteRendered(p, decision, result, err)
	r.recordAttempt(p, decision, result, err)
	if err != nil {
		return r.actionFailed(ctx, p, decision, result, err)
	}
	r.delays.Forget(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)})
	return r.acted(ctx, p, decision, result), nil
}

// acted reports an action that succeeded and says when to look at what it came to.
func (r *Reconciler) acted(ctx context.Context, p *releasePass, decision decide.Decision,
	result helmclient.Result,
) ctrl.Result {
	switch {
	case decision.Action == model.ActionUninstall:
		r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.UninstalledEvent, verbUninstall, fmt.Sprintf(
			"Uninstalled release %s from Cluster %s to install it anew: %s", describe(p.release),
			apiutil.ClusterTitle(p.release), decision.Message))
		return ctrl.Result{RequeueAfter: lookAgain}
	case decision.Action == model.ActionTest:
		r.reportTested(p, result)
		return ctrl.Result{RequeueAfter: lookAgain}
	case isRemediation(decision):
		r.reportRolledBack(p, decision, result)
		r.followNew(ctx, p, result)
		return ctrl.Result{RequeueAfter: lookAgain}
	}
	r.reportReleased(p, decision, result)
	r.followNew(ctx, p, result)
	if p.policy.Test.Enabled {
		return ctrl.Result{RequeueAfter: lookAgain}
	}
	// The next look is far off and finds nothing new.
	p.release.Status.State = string(model.StateInSync)
	return ctrl.Result{RequeueAfter: p.requeueAfter}
}

// gatherInputs renders and pulls what an installation or an upgrade is made of. If ok is false, something is missing:
// it was reported, and result and err say when to go on.
func (r *Reconciler) gatherInputs(ctx context.Context,
	p *releasePass,
) (made releaseInputs, result ctrl.Result, err error, ok bool) {
	release := p.release
	if p.helmOp == nil {
		report.SetNotReady(release, addonsv1.UpdatingReason, "the HelmOp of this release is gone: nobody tells its values")
		return made, ctrl.Result{RequeueAfter: requeue.OutdatedRetry}, nil, false
	}
	made.values, err = r.renderInto(ctx, p)
	switch {
	case errors.Is(err, errOutdated):
		reportNotReleased(release, addonsv1.UpdatingReason, err.Error())
		return made, ctrl.Result{RequeueAfter: requeue.OutdatedRetry}, nil, false
	case errors.Is(err, kindcache.ErrPending):
		reportNotReleased(release, addonsv1.UpdatingReason, err.Error())
		return made, ctrl.Result{RequeueAfter: clusterview.KindRetry}, nil, false
	case err != nil:
		result, err = r.failed(ctx, p.releaseScope, reasons.ForRendering(err), err)
		return made, result, err, false
	}
	if made.chart, err = r.charts.Get(ctx, release, p.helmOp); err != nil {
		result, err = r.chartFailed(ctx, p.releaseScope, err)
		return made, result, err, false
	}
	return made, ctrl.Result{}, nil, true
}

// renderInto renders the values, and what changes the rendered chart into the options of the pass.
func (r *Reconciler) renderInto(ctx context.Context, p *releasePass) (map[string]any, error) {
	rendered, secretValues, err := r.renderAssigned(ctx, p)
	if err != nil {
		return nil, err
	}
	p.options.SecretValues = secretValues
	if rendered.PostRender == nil {
		return rendered.Values, nil
	}
	data, err := json.Marshal(rendered.PostRender)
	if err != nil {
		return nil, err
	}
	var spec addonsv1.PostRender
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, fmt.Errorf("spec.postRender: %w", err)
	}
	p.options.PostRender = releasespec.PostRender(&spec)
	return rendered.Values, nil
}

// renderAssigned renders the values with the digests in the spec of the release: from the current HelmOp or, if that
// has other values and the release is to stay at its revision, from the HelmOp at that revision.
func (r *Reconciler) renderAssigned(ctx context.Context,
	p *releasePass,
) (rendered templating.Result, secretValues []any, err error) {
	rendered, secretValues, err = r.renderer.Values(ctx, p.helmOp, p.object, p.cluster)
	if err == nil && hasAssignedDigests(p.release, &rendered) {
		return rendered, secretValues, nil
	}
	stays, liveErr := r.staysAtRevision(ctx, p.releaseScope)
	switch {
	case liveErr != nil:
		return rendered, nil, liveErr
	case !stays && err != nil:
		return rendered, nil, err
	case !stays:
		return rendered, nil, errOutdated
	}
	at, err := r.helmOpOf(ctx, p.releaseScope)
	if err != nil {
		return rendered, nil, err
	}
	rendered, secretValues, err = r.renderer.Values(ctx, at, p.object, p.cluster)
	if err == nil && !hasAssignedDigests(p.release, &rendered) {
		err = outdatedError(p.releaseScope, at)
	}
	return rendered, secretValues, err
}

// hasAssignedDigests reports whether rendered values have the digests in the spec of the release.
func hasAssignedDigests(release *addonsv1.HelmOpRelease, rendered *templating.Result) bool {
	return rendered.Digest == release.Spec.ValuesDigest && rendered.PostRenderDigest == release.Spec.PostRenderDigest
}

// staysAtRevision tells whether a release is to stay at the revision that it is made from: its HelmOp has seen to all
// that it wants now, and told the release nothing else. That is asked of the API server: a cache may be behind.
func (r *Reconciler) staysAtRevision(ctx context.Context, scope *releaseScope) (bool, error) {
	if apiutil.RevisionOf(scope.release) == 0 || scope.helmOp.Status.ObservedGeneration != scope.helmOp.Generation {
		return false, nil
	}
	current := &addonsv1.HelmOpRelease{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(scope.release), current); err != nil {
		return false, fmt.Errorf("reading the release anew: %w", err)
	}
	return current.Generation == scope.release.Generation, nil
}

// HelmOpOf is the HelmOp of a release, wanting what it wanted at the revision that the release is made from.
func (r *Reconciler) helmOpOf(ctx context.Context, scope *releaseScope) (*addonsv1.HelmOp, error) {
	number := apiutil.RevisionOf(scope.release)
	at, err := revisionstore.HelmOpAt(ctx, r.client, scope.helmOp, number)
	if apierrors.IsNotFound(err) {
		// The release may be told of a revision before the cache has seen it.
		at, err = revisionstore.HelmOpAt(ctx, r.live, scope.helmOp, number)
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("revision %d, which the release is made from, is gone: %w", number, errOutdated)
	}
	return at, err
}

// outdatedError says why the values of a release are not those that it was told, and what comes of it. An earlier
// revision holds no content of what it refers to.
func outdatedError(scope *releaseScope, at *addonsv1.HelmOp) error {
	number, rollout := apiutil.RevisionOf(scope.release), scope.helmOp.Status.Rollout
	if number == 0 || rollout == nil || rollout.Revision == number || !references.HasFixedValues(at) {
		return errOutdated
	}
	return fmt.Errorf("what spec.valuesFrom names may have changed since revision %d, which then can be rendered no "+
		"more: the release stays"+
		" as it is until it is told of another revision, unless %w", number, errOutdated)
}

// uninstallOptionsNow are those of the HelmOp as it is now: they may be changed to help an uninstallation that is
// stuck.
func uninstallOptionsNow(scope *releaseScope, told model.UninstallOptions) model.UninstallOptions {
	if scope.helmOp == nil {
		return told
	}
	options := scope.helmOp.Spec.ReleaseOptions
	if len(scope.helmOp.Spec.Overrides) > 0 && scope.cluster != nil {
		variants, err := render.NewVariants(&scope.helmOp.Spec)
		if err != nil {
			return told
		}
		chosen, err := variants.Of(scope.cluster.Labels, "")
		if err != nil {
			return told
		}
		options = chosen.Options
	}
	return releasespec.OptionsOf(&options).Uninstall
}

// uninstallRelease uninstalls the release from the workload cluster and removes the finalizer.
func (r *Reconciler) uninstallRelease(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	return end(r.uninstall(ctx, p.releaseScope, p.target))
}

func (r *Reconciler) uninstall(ctx context.Context, scope *releaseScope, target model.Target) (ctrl.Result, error) {
	release := scope.release
	desired, options := releasespec.DesiredOf(release)
	options.Uninstall = uninstallOptionsNow(scope, options.Uninstall)
	if err := r.nameManagementCluster(ctx, release, &desired); err != nil {
		return ctrl.Result{}, err
	}
	observation, err, ok := r.observe(ctx, release, target, desired)
	if !ok {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return r.failed(ctx, scope, addonsv1.ObservationFailedReason, err)
	}
	reportReachable(release)
	decision := decide.Uninstall(observation, desired, model.Policy{PendingTimeout: releasespec.PendingTimeout}, r.now())
	release.Status.State, release.Status.NextTryAt = string(decision.State), metav1.Time{}
	switch decision.Action {
	case model.ActionUninstall:
	case model.ActionWait:
		report.SetNotReady(release, addonsv1.ReleasePendingReason, decision.Message)
		return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
	default:
		// Nothing there, or what is there is not ours.
		ctrl.LoggerFrom(ctx).Info("Nothing to uninstall", "why", decision.Message)
		return removeFinalizer(release), nil
	}
	attempt, err := apiutil.DigestOf(desired, verbUninstall, options.Uninstall)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait := retryDelay(release, attempt, r.now()); wait > 0 && retryRequest(scope) == release.Status.LastRetryRequest {
		release.Status.NextTryAt = metav1.NewTime(r.now().Add(wait).Round(time.Second))
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	done, wait := r.uninstallSlot(scope, &options.Uninstall, target.Key, desired.Owner)
	if done == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	defer done()
	if now, err := r.stillServes(ctx, scope); now == nil {
		return ctrl.Result{}, err
	}
	report.SetNotReady(release, addonsv1.DeletingReason, "the release is being uninstalled")
	started := r.now()
	progress := r.startProgress(ctx, scope, decision)
	defer progress.stop()
	options.Progress = progress.tell
	result, err := r.engine.Act(ctx, target, decision, desired, options, nil, nil)
	progress.stop()
	monitoring.ObserveAction(verbUninstall, started, r.now(), err)
	r.reportRecordsLeft(scope, result)
	r.recordUninstall(scope, decision, result, attempt, err)
	if err != nil {
		return r.actionFailed(ctx, &releasePass{releaseScope: scope}, decision, result, err)
	}
	r.event(scope, corev1.EventTypeNormal, addonsv1.UninstalledEvent, verbUninstall,
		fmt.Sprintf("Uninstalled release %s from Cluster %s", describe(release), apiutil.ClusterTitle(release)))
	return removeFinalizer(release), nil
}

// failed reports an error that changed nothing in the workload cluster and decides when to try again. The conditions of
// the release tell of the error, and the log does once, so it is returned only where the pass was cut off.
func (r *Reconciler) failed(ctx context.Context, scope *releaseScope, fallback string, err error) (ctrl.Result, error) {
	release := scope.release
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	if errors.Is(err, helmerr.ErrStale) {
		// The release was changed by another program meanwhile: look again, less and less often.
		reportNotReleased(release, addonsv1.UpdatingReason, err.Error())
		return r.tryAgain(ctx, release, addonsv1.UpdatingReason, err), nil
	}
	reason := reasons.For(err, reasons.EngineErrors, fallback)
	if reason == addonsv1.ClusterUnreachableReason {
		report.Unreachable(release, err.Error())
		return ctrl.Result{RequeueAfter: queue.Spread(unreachableRetry, release)}, nil
	}
	noteError(release, err.Error())
	if reportNotReleased(release, reason, err.Error()) {
		r.event(scope, corev1.EventTypeWarning, reason, "Reconcile",
			fmt.Sprintf("Cluster %s, release %s: %v", apiutil.ClusterTitle(release), describe(release), err))
	}
	return r.tryAgain(ctx, release, reason, err), nil
}

// tryAgain is the result of a pass that failed: the next one comes after 1 s, 2 s and so on up to 5 min.
func (r *Reconciler) tryAgain(ctx context.Context, release *addonsv1.HelmOpRelease, reason string,
	err error,
) ctrl.Result {
	cause := requeue.Cause{Generation: release.Generation, Reason: reason}
	wait, isNews := r.delays.After(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}, cause, err.Error())
	if isNews {
		ctrl.LoggerFrom(ctx).Info("The release cannot be made as it is wanted; this is tried again", "Cluster",
			apiutil.ClusterTitle(release),
			"reason", reason, "error", err.Error())
	}
	return ctrl.Result{RequeueAfter: wait}
}

// actionFailed reports an action that failed. One that changed the cluster counts: the next pass decides what follows
// it and when. One that did not is tried again as any other error, unless rendering the chart was ended: such a try
// counts.
func (r *Reconciler) actionFailed(ctx context.Context, p *releasePass, decision decide.Decision,
	result helmclient.Result, err error,
) (ctrl.Result, error) {
	if decision.Action == model.ActionTest && result.StorageChanged && !errors.Is(err, helmerr.ErrUnreachable) {
		r.reportTested(p, result)
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	outcome, failure := r.failed(ctx, p.releaseScope, failureReason(decision), err)
	if !result.StorageChanged && !errors.Is(err, helmerr.ErrRenderLimit) {
		return outcome, failure
	}
	return ctrl.Result{RequeueAfter: lookAgain}, nil
}
