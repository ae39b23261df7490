// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/actionprogress"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// releaseInputs are the chart and the values of an installation or an upgrade.
type releaseInputs struct {
	chart  *bundle.Chart
	values map[string]any
}

// act carries out a decision that needs Helm, if the chart, the images and the values are available. If no slot is
// free, act returns. The release is enqueued when it gets a slot.
//
// Only the wait for the pull and for images needs no slot: both may be long. The values are rendered with a slot,
// because a rendering may take a second of CPU time. Otherwise each pass over a release that waits for a slot would
// render them again, and one namespace could occupy the workers of all. A chart that is not in the cache is parsed with
// a slot for the same reason.
func (r *Reconciler) act(ctx context.Context, p *releasePass, decision decide.Decision) (ctrl.Result, error) {
	var pulled *artifacts.Pulled
	if decision.Action.RendersChart() {
		var result ctrl.Result
		var err error
		var ok bool
		if pulled, result, err, ok = r.pullChart(ctx, p); !ok {
			p.trace.FailedInputs(conditions.GetReason(p.release, addonsv1.ReleasedCondition))
			return result, err
		}
	}
	check, result, err, ok := r.recheckImages(ctx, p, decision)
	if !ok {
		return result, err
	}
	done, ok := r.slot(p)
	if !ok {
		p.trace.Wait(tracing.SpanWaitForSlot, p.trace.Now())
		r.keepForAction(p)
		if wait := r.silentWait(p); wait > 0 {
			p.leavesStatus = true
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		releasestatus.WaitingForSlot(p.release, decision)
		return ctrl.Result{}, nil
	}
	defer done()
	p.trace.EndWait(tracing.SpanWaitForSlot)
	var inputs releaseInputs
	if decision.Action.RendersChart() {
		if inputs, result, err, ok = r.gatherInputs(ctx, p, pulled); !ok {
			p.trace.FailedInputs(conditions.GetReason(p.release, addonsv1.ReleasedCondition))
			return result, err
		}
	}
	if result, err, ok := r.hasImages(ctx, p, decision, check, &inputs); !ok {
		return result, err
	}
	return r.perform(ctx, p, decision, &inputs)
}

// crowd is the number of releases in the queue for slots from which a new release does not report that it waits, for
// crowdPatience after its creation. Meanwhile, Ready of its HelmOp has the number of such releases.
const crowd, crowdPatience = 50, 10 * time.Minute

// silentWait returns how long a release without a slot does not report that it waits; 0 if it must report. When a fleet
// is installed, nearly all new releases wait for some minutes, and these reports would be a sixth of all writes.
func (r *Reconciler) silentWait(p *releasePass) time.Duration {
	if p.mayHoldWave() || conditions.Has(p.before, addonsv1.ReadyCondition) || r.slots.Waiting() < crowd {
		return 0
	}
	// The clock of the API server may be ahead.
	return max(0, min(crowdPatience, p.before.CreationTimestamp.Add(crowdPatience).Sub(r.now())))
}

// mayHoldWave reports whether the wave of a new release does not pass until the status has the observed state, see
// [rolloutstate.SetAdoption]: the release may adopt a release of another owner, or of a lost HelmOpRelease.
func (p *releasePass) mayHoldWave() bool {
	hasWaves := p.helmOp != nil && p.helmOp.Spec.Rollout != nil && len(p.helmOp.Spec.Rollout.Waves) > 0
	return p.policy.TakeOwnership || hasWaves && apiutil.HasJoined(p.release)
}

// perform runs the action of a decision, and records and reports the result. The caller has a slot.
func (r *Reconciler) perform(ctx context.Context, p *releasePass, decision decide.Decision,
	inputs *releaseInputs,
) (ctrl.Result, error) {
	stop, ended := r.actions.Begin(client.ObjectKeyFromObject(p.release))
	defer ended()
	if ok, err := r.mayBegin(ctx, p.releaseScope); !ok {
		return ctrl.Result{}, err
	}
	// The claim comes last: a release that waits for its images, or that this manager no longer serves, must not block
	// the uninstallation of its dependencies.
	if ok, err := r.claim(ctx, p, decision); !ok {
		return ctrl.Result{}, err
	}
	p.options.Stop = stop
	var err error
	if p.options.Admit, err = admitLoss(p.releaseScope); err != nil {
		return ctrl.Result{}, err
	}
	started := r.now()
	progress := actionprogress.Start(ctx, r.client, p.release, p.before, decision.Action)
	defer progress.Stop()
	p.options.Progress = progress.Set
	announcement := &announcement{write: func() error {
		return progress.Pause(func() error { return r.beginRendering(ctx, p, decision) })
	}}
	r.keepVersions(p.release)
	defer r.expect(ctx, p)()
	result, err := r.engine.Act(ctx, p.target, decision, p.desired, announcement.in(p.options), inputs.chart,
		inputs.values)
	progress.Stop()
	p.hasActed = result.StorageChanged
	if announcement.err != nil {
		return ctrl.Result{}, announcement.err
	}
	r.memoryOf(p.release).Preparation.End(&p.release.Status)
	decision = decision.Performed(result.Revision)
	r.observeAction(attempts.VerbOf(decision.Action), started, err)
	defer p.traceAction(decision, started, r.now(), err)
	r.reportRecordsLeft(ctx, p.releaseScope, result)
	r.rendered.Note(decision.Action, &p.desired, result, err)
	p.subject().Record(decision, &p.policy.Test, result, err, r.now())
	if err != nil {
		return r.actionFailed(ctx, p, decision, result, err)
	}
	r.memoryOf(p.release).Delay.Forget()
	logAction(ctx, p.release, decision, result)
	return r.reportActed(ctx, p, decision, result), nil
}

// traceAction adds a finished action to the trace. Callers must set the conditions first.
func (p *releasePass) traceAction(decision decide.Decision, began, ended time.Time, err error) {
	failure := ""
	if err != nil {
		failure = conditions.GetReason(p.release, addonsv1.ReleasedCondition)
	}
	p.trace.Action(strings.ToLower(attempts.VerbOf(decision.Action)), began, ended, failure)
}

// logAction logs a successful action.
func logAction(ctx context.Context, release *addonsv1.HelmOpRelease, decision decide.Decision,
	result helmclient.Result,
) {
	ctrl.LoggerFrom(ctx).Info("Ended an action on a release", "Cluster", apiutil.ClusterTitle(release),
		"action", attempts.VerbOf(decision.Action), "reason", decision.Reason, "helmRevision", result.Revision)
}

// reportActed reports a successful action. It returns when the next pass is due.
func (r *Reconciler) reportActed(ctx context.Context, p *releasePass, decision decide.Decision,
	result helmclient.Result,
) ctrl.Result {
	switch {
	case decision.Action == model.ActionUninstall:
		r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.UninstalledEvent, attempts.VerbUninstall, fmt.Sprintf(
			"Uninstalled release %s from Cluster %s to install it again: %s", describe(p.release),
			apiutil.ClusterTitle(p.release), decision.Message))
		return ctrl.Result{RequeueAfter: requeueAtOnce}
	case decision.Action == model.ActionTest:
		r.reportTested(p, result)
		return ctrl.Result{RequeueAfter: requeueAtOnce}
	case decision.Action == model.ActionAdopt:
		r.reportAdopted(p, decision, result)
		return ctrl.Result{RequeueAfter: requeueAtOnce}
	case attempts.IsRemediation(decision):
		r.reportRolledBack(p, decision, result)
		r.followNew(ctx, p, result)
		return ctrl.Result{RequeueAfter: requeueAtOnce}
	}
	r.reportReleased(p, decision, result)
	r.followNew(ctx, p, result)
	if p.policy.Test.Enabled {
		return ctrl.Result{RequeueAfter: requeueAtOnce}
	}
	r.keepLeft(p, result)
	// The release is in sync now. The next pass may come much later.
	p.release.Status.State = string(model.StateInSync)
	return ctrl.Result{RequeueAfter: p.requeueAfter}
}

// observeAction measures an action. An action for which the manager was busy has not begun.
func (r *Reconciler) observeAction(verb string, started time.Time, err error) {
	if !errors.Is(err, helmerr.ErrBusy) {
		monitoring.ObserveAction(verb, started, r.now(), err)
	}
}

// pullChart pulls the chart for an installation or an upgrade. If ok is false, the chart is not available. pullChart
// has then reported the cause, and the pass must return result and err.
func (r *Reconciler) pullChart(ctx context.Context,
	p *releasePass,
) (pulled *artifacts.Pulled, result ctrl.Result, err error, ok bool) {
	release := p.release
	if p.helmOp == nil {
		report.SetNotReady(release, addonsv1.UpdatingReason,
			"The HelmOp of this release does not exist: the values cannot be rendered without it. Create the HelmOp again, "+
				"or delete this HelmOpRelease")
		return nil, ctrl.Result{RequeueAfter: requeue.OutdatedRetry}, nil, false
	}
	if result, err, ok := r.beginPreparation(ctx, p); !ok {
		return nil, result, err, false
	}
	began := p.trace.Now()
	pulled, err = r.charts.Pull(ctx, release, p.helmOp, r.slots.IsGranted(client.ObjectKeyFromObject(release)))
	if isFetching(err) {
		p.trace.Wait(tracing.SpanPull, began)
		r.keepForAction(p)
	} else {
		p.trace.Step(tracing.SpanPull, began)
	}
	if err != nil {
		result, err = r.fetchFailed(ctx, p, err)
		return nil, result, err, false
	}
	r.memoryOf(release).Preparation.Pause(&release.Status)
	return pulled, ctrl.Result{}, nil, true
}

// gatherInputs renders the values for an installation or an upgrade, and parses the chart if the cache does not have
// it. If ok is false, gatherInputs has reported the cause, and the pass must return result and err. The caller has a
// slot.
func (r *Reconciler) gatherInputs(ctx context.Context, p *releasePass,
	pulled *artifacts.Pulled,
) (inputs releaseInputs, result ctrl.Result, err error, ok bool) {
	began := p.trace.Now()
	inputs.values, err = r.renderInto(ctx, p)
	p.trace.Step(tracing.SpanRender, began)
	if err != nil {
		result, err = r.failed(ctx, p.releaseScope, failures.Rendering, err)
		return inputs, result, err, false
	}
	if inputs.chart, err = pulled.Chart(ctx); err != nil {
		result, err = r.fetchFailed(ctx, p, err)
		return inputs, result, err, false
	}
	return inputs, ctrl.Result{}, nil, true
}

// renderInto returns the rendered values. It sets the rendered spec.postRender and the secret values in the options of
// the pass.
func (r *Reconciler) renderInto(ctx context.Context, p *releasePass) (map[string]any, error) {
	rendered, secretValues, err := r.assigned.Values(ctx, p.release, p.helmOp, p.object, p.cluster)
	if err != nil {
		return nil, err
	}
	p.options.SecretValues = secretValues
	p.options.PostRender, err = releasespec.PostRender(rendered.PostRender)
	return rendered.Values, err
}

// currentUninstallOptions returns the uninstallation options of the current HelmOp. A user may change them to unblock
// an uninstallation. Without a HelmOp, or if its overrides are not valid, it returns the assigned options.
func currentUninstallOptions(scope *releaseScope, assigned model.UninstallOptions) model.UninstallOptions {
	if scope.helmOp == nil {
		return assigned
	}
	options := scope.helmOp.Spec.ReleaseOptions
	if len(scope.helmOp.Spec.Overrides) > 0 && scope.cluster != nil {
		variants, err := render.NewVariants(&scope.helmOp.Spec)
		if err != nil {
			return assigned
		}
		chosen, err := variants.Of(scope.cluster.Labels, "")
		if err != nil {
			return assigned
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
	r.memoryOf(release).Adoption = scope.adoption
	desired, options := releasespec.DesiredOf(release)
	options.Uninstall = currentUninstallOptions(scope, options.Uninstall)
	var err error
	if options.Admit, err = admitLoss(scope); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.nameManagementCluster(ctx, release, &desired); err != nil {
		return ctrl.Result{}, err
	}
	attempt, err := apiutil.DigestOf(desired, attempts.VerbUninstall, options.Uninstall)
	if err != nil {
		return ctrl.Result{}, err
	}
	subject := &attempts.Subject{Release: release, HelmOp: scope.helmOp}
	retryIn := attempts.RetryDelay(release, attempt, r.now())
	if attempts.RetryRequest(release, scope.helmOp) != release.Status.LastRetryRequest {
		retryIn = 0
	}
	if retryIn == 0 && !r.mayRead(ctx, scope, target, desired, &options.Uninstall) {
		release.Status.NextTryAt = metav1.Time{}
		releasestatus.UninstallWaitsForSlot(release)
		return ctrl.Result{}, nil
	}
	decision, end, err := r.observeUninstall(ctx, scope, target, desired)
	if end != nil || err != nil {
		return ptr.Deref(end, ctrl.Result{}), err
	}
	if retryIn > 0 {
		release.Status.NextTryAt = r.tryAt(retryIn)
		return ctrl.Result{RequeueAfter: retryIn}, nil
	}
	done, wait := r.uninstallSlot(scope, &options.Uninstall, target.Key, desired.Owner)
	if done == nil {
		releasestatus.UninstallWaitsForSlot(release)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	defer done()
	if current, err := r.stillServes(ctx, scope); current == nil {
		return ctrl.Result{}, err
	}
	report.SetNotReady(release, addonsv1.DeletingReason, "The release is being uninstalled")
	started := r.now()
	progress := actionprogress.Start(ctx, r.client, release, scope.before, decision.Action)
	defer progress.Stop()
	options.Progress = progress.Set
	result, err := r.engine.Act(ctx, target, decision, desired, options, nil, nil)
	progress.Stop()
	r.observeAction(attempts.VerbUninstall, started, err)
	r.reportRecordsLeft(ctx, scope, result)
	subject.RecordUninstall(decision, attempt, result, err, r.now())
	if err != nil {
		return r.actionFailed(ctx, &releasePass{releaseScope: scope}, decision, result, err)
	}
	logAction(ctx, release, decision, result)
	r.event(scope, corev1.EventTypeNormal, addonsv1.UninstalledEvent, attempts.VerbUninstall,
		fmt.Sprintf("Uninstalled release %s from Cluster %s", describe(release), apiutil.ClusterTitle(release)))
	return removeFinalizer(release), nil
}

// observeUninstall reads the records of a release under deletion. It returns an end of the pass if the release must not
// be uninstalled now.
func (r *Reconciler) observeUninstall(ctx context.Context, scope *releaseScope, target model.Target,
	desired model.Desired,
) (decision decide.Decision, end *ctrl.Result, err error) {
	release := scope.release
	observation, err, ok := r.observe(ctx, release, target, desired)
	if !ok {
		return decision, after(0), nil
	}
	if err != nil {
		result, err := r.failed(ctx, scope, failures.Observing, err)
		return decision, &result, err
	}
	releasestatus.Reachable(release)
	if end, err := r.orphanOfSameCluster(ctx, scope, observation); end != nil || err != nil {
		return decision, end, err
	}
	decision = r.decideUninstall(ctx, scope, observation, desired)
	release.Status.State, release.Status.NextTryAt = string(decision.State), metav1.NewTime(decision.NextTryAt)
	switch decision.Action {
	case model.ActionUninstall:
		return decision, nil, nil
	case model.ActionWait:
		report.SetNotReady(release, addonsv1.ReleasePendingReason, decision.Message)
		return decision, after(decision.RequeueAfter), nil
	default:
		// The release does not exist, or has another owner.
		ctrl.LoggerFrom(ctx).Info("Nothing to uninstall", "why", decision.Message)
		result := removeFinalizer(release)
		return decision, &result, nil
	}
}

// admitLoss returns the function that permits or refuses an action that would delete objects. It is for the management
// cluster, where a release may contain Clusters: an artifact without one of its folders, another release name or
// another selector would delete them. For workload clusters, and after a user deleted the HelmOp, admitLoss returns
// nil.
func admitLoss(scope *releaseScope) (func(model.Loss) error, error) {
	release, helmOp := scope.release, scope.helmOp
	if apiutil.ClusterKey(release) != clusterlink.Management || helmOp != nil && !helmOp.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	content, err := apiutil.ContentDigest(&release.Spec)
	if err != nil {
		return nil, err
	}
	// Without its HelmOp, the HelmOpRelease has the confirmation.
	resource, name, annotations, limit := addonsv1.HelmOpReleaseResource, release.Name, release.Annotations,
		(*intstr.IntOrString)(nil)
	if helmOp != nil {
		resource, name, annotations, limit = addonsv1.HelmOpResource, helmOp.Name, helmOp.Annotations,
			helmOp.Spec.MaxDeletions
	}
	return func(loss model.Loss) error {
		lost := brake.ObjectLoss{
			Objects: loss.Objects, Total: loss.Total, Max: limit, Undoes: loss.NeverWorked,
			Occasion: fmt.Sprintf("%d/%s", loss.Revision, content),
		}
		action, remedy := "upgrade", "Correct the artifact"
		if loss.Uninstalls {
			action, remedy = "uninstallation", "Undo the change of the HelmOp"
			lost.Occasion += "/" + string(release.UID)
		}
		why, confirmation := lost.Why(), lost.Confirmation()
		if why == "" || annotations[addonsv1.ConfirmDeletionsAnnotation] == confirmation {
			return nil
		}
		return fmt.Errorf("the %s of release %s %s. %s, or confirm: kubectl -n %s annotate %s %s --overwrite %s=%s", action,
			describe(release), why, remedy, release.Namespace, resource, name, addonsv1.ConfirmDeletionsAnnotation,
			confirmation)
	}, nil
}

// stillServes reads a release again right before an action begins. It returns nil if the release has left this shard.
// The manager that has begun an action also completes it. Other managers see in Helm's record that the action is
// running.
func (r *Reconciler) stillServes(ctx context.Context, scope *releaseScope) (*addonsv1.HelmOpRelease, error) {
	current := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.release), current); err != nil {
		scope.isOfOtherShard = apierrors.IsNotFound(err)
		return nil, client.IgnoreNotFound(err)
	}
	return current, nil
}

// mayBegin reports whether this manager still serves a release, and whether the release was not deleted since the pass
// began. Callers call it right before a change in a cluster. If the result is false, the event of the change starts the
// next pass. Callers must register the action before the call; otherwise a deletion could be missed.
func (r *Reconciler) mayBegin(ctx context.Context, scope *releaseScope) (bool, error) {
	current, err := r.stillServes(ctx, scope)
	return current != nil && current.UID == scope.release.UID && current.DeletionTimestamp.IsZero(), err
}

// slot acquires a slot for the action of a pass. If ok is false, the release is enqueued when it gets a slot.
func (r *Reconciler) slot(p *releasePass) (done func(), ok bool) {
	return r.slots.Acquire(slots.Claim{
		Release: client.ObjectKeyFromObject(p.release), Cluster: p.target.Key, HelmOp: p.desired.Owner,
		First: queue.IsFirst(p.release),
	})
}
