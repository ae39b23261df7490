// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// failed reports an error of a step that did not change the workload cluster, and returns the time of the next try.
// Package failures decides both. failed returns the error only if the pass was canceled. Otherwise, the conditions have
// the error, and the log has it once. The status has the time of the next try only if the release has a delay of its
// own: each try of a shared pull would otherwise write the status of each release that needs the artifact.
func (r *Reconciler) failed(ctx context.Context, scope *releaseScope, stage failures.Stage,
	err error,
) (ctrl.Result, error) {
	release, outcome := scope.release, failures.Of(err, stage)
	release.Status.NextTryAt = metav1.Time{}
	if outcome.Kind == failures.Waiting {
		if !outcome.KeepsFailure || !releasestatus.HasFailed(release) {
			releasestatus.NotReleased(release, outcome.Reason, err.Error())
		}
		return ctrl.Result{RequeueAfter: outcome.Wait}, nil
	}
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	if outcome.Answered {
		// The Cluster may have been unreachable before.
		releasestatus.Reachable(release)
	}
	switch outcome.Kind {
	case failures.Unreachable:
		report.Unreachable(release, err.Error())
		return ctrl.Result{RequeueAfter: queue.Spread(outcome.Wait, release)}, nil
	case failures.Contended:
		releasestatus.NotReleased(release, outcome.Reason, err.Error())
	default:
		attempts.NoteError(release, err.Error())
		if releasestatus.NotReleased(release, outcome.Reason, err.Error()) {
			r.event(scope, corev1.EventTypeWarning, outcome.Reason, "Reconcile",
				fmt.Sprintf("Cluster %s, release %s: %v", apiutil.ClusterTitle(release), describe(release), err))
		}
	}
	return r.tryAgain(ctx, release, outcome, err), nil
}

// tryAgain returns the result of a failed pass. The next pass is due after the wait of the outcome or, without one,
// after 1 s, 2 s and so on, up to 5 min. The status then has the time of the next try.
func (r *Reconciler) tryAgain(ctx context.Context, release *addonsv1.HelmOpRelease, outcome failures.Outcome,
	err error,
) ctrl.Result {
	cause := requeue.Cause{Generation: release.Generation, Reason: outcome.Reason}
	wait, isNew := r.memoryOf(release).Delay.After(cause, err.Error())
	switch {
	case !isNew:
	case outcome.Kind == failures.Contended:
		ctrl.LoggerFrom(ctx).Info("Another program has changed the release; HelmOp reads it again", "Cluster",
			apiutil.ClusterTitle(release))
	default:
		// The text of the error has no secrets. A logger might print more of the error, so it gets nil.
		ctrl.LoggerFrom(ctx).Error(nil, "Cannot bring the release to the desired state; it is tried again", "Cluster",
			apiutil.ClusterTitle(release), "reason", outcome.Reason, "error", err.Error())
	}
	if outcome.Wait > 0 {
		return ctrl.Result{RequeueAfter: outcome.Wait}
	}
	release.Status.NextTryAt = r.tryAt(wait)
	return ctrl.Result{RequeueAfter: wait}
}

// tryAt returns the time of a try that is due after a delay, in whole seconds.
func (r *Reconciler) tryAt(wait time.Duration) metav1.Time {
	return metav1.NewTime(r.now().Add(wait).Round(time.Second))
}

// actionFailed reports a failed action. If the action counts as a try, the next pass decides what follows, and its
// message has the error: also the error of a Cluster that answers again in the next pass. An action that is no try is
// tried again like any other failed step.
func (r *Reconciler) actionFailed(ctx context.Context, p *releasePass, decision decide.Decision,
	result helmclient.Result, err error,
) (ctrl.Result, error) {
	if decision.Action == model.ActionTest && result.StorageChanged && !errors.Is(err, helmerr.ErrUnreachable) {
		ctrl.LoggerFrom(ctx).Error(nil, "The tests of a release failed", "Cluster", apiutil.ClusterTitle(p.release), "error",
			err.Error())
		r.reportTested(p, result)
		return ctrl.Result{RequeueAfter: requeueAtOnce}, nil
	}
	outcome, failure := r.failed(ctx, p.releaseScope, failures.Acting(releasestatus.FailureReason(decision)), err)
	if !attempts.IsTry(result, err) {
		return outcome, failure
	}
	if failure == nil {
		attempts.NoteError(p.release, err.Error())
	}
	p.release.Status.NextTryAt = metav1.Time{}
	return ctrl.Result{RequeueAfter: requeueAtOnce}, nil
}
