// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/actiongate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// adoptionPending is the message of a release whose adoption waits for the rollout.
const adoptionPending = "The release has another owner, or was installed for a HelmOpRelease that does not exist any " +
	"more. It is changed when the rollout of the HelmOp reaches this Cluster: see status.rollout of the HelmOp"

// limitsOf returns the limits of maintenance for a release.
func limitsOf(scope *releaseScope) maintenance.Limits {
	var spec *addonsv1.Maintenance
	if scope.helmOp != nil {
		spec = scope.helmOp.Spec.Maintenance
	}
	var annotations map[string]string
	if scope.object != nil {
		annotations = scope.object.GetAnnotations()
	}
	return maintenance.PolicyOf(spec).For(annotations)
}

// waitsForMaintenance reports whether a decision must wait for maintenance. If so, it also writes the cause into the
// status, and schedules the pass that carries out the decision. A failed release stays failed: only its next try waits.
func (r *Reconciler) waitsForMaintenance(p *releasePass, decision decide.Decision) bool {
	limits := limitsOf(p.releaseScope)
	if actiongate.IsExempt(limits, p.release, p.observation, decision) {
		return false
	}
	state := limits.At(r.now())
	if !state.Closed {
		return false
	}
	p.release.Status.NextTryAt = metav1.NewTime(state.Opens)
	p.due(r.untilOpen(state))
	if decision.Failures > 0 {
		releasestatus.NotReleased(p.release, releasestatus.StandingReason(p.release, decision),
			releasestatus.WithLastError(p.release, apiutil.RetryAwaitsMaintenance+": "+state.Why))
		return true
	}
	message := fmt.Sprintf("The change of the release waits for maintenance: %s", state.Why)
	if decision.State == model.StatePending {
		// The release may be between two states until the change begins, and the helm command refuses upgrades.
		message += ". " + strings.TrimRight(decision.Message, ". ")
	}
	releasestatus.NotReleased(p.release, addonsv1.WaitingForMaintenanceReason, message)
	return true
}

// untilOpen returns the time until changes of a release are permitted; 0 if it is not known.
func (r *Reconciler) untilOpen(state maintenance.State) time.Duration {
	if state.Opens.IsZero() {
		return 0
	}
	return max(time.Millisecond, state.Opens.Sub(r.now()))
}

// deferCorrections makes the pass report drift without correcting it, if changes of the release are not permitted now.
func (r *Reconciler) deferCorrections(p *releasePass) maintenance.State {
	if !p.policy.CorrectDrift {
		return maintenance.State{}
	}
	state := limitsOf(p.releaseScope).At(r.now())
	p.policy.CorrectDrift = !state.Closed
	return state
}

// claimed is the message of a release whose installation begins because its dependencies are ready.
const claimed = "The dependencies are ready: the release is about to be installed"

// mayAct reports whether the dependencies of a release permit a decision. Some decisions do not need them. If
// dependencies are not ready, mayAct sets the condition Ready to False, and events of the dependencies start the next
// pass.
func (r *Reconciler) mayAct(ctx context.Context, p *releasePass, decision decide.Decision) (bool, error) {
	if len(p.release.Spec.DependsOn) == 0 || !actiongate.NeedsPreconditions(decision, p.desired.Return) {
		return true, nil
	}
	reason, message, err := r.gate.Unmet(ctx, p.release, p.cluster)
	if err != nil {
		return false, err
	}
	if reason != "" {
		report.SetNotReady(p.release, reason, message)
	}
	return reason == "", nil
}

// claim makes the uninstallation of dependencies wait for the installation of a release. It returns false if a
// dependency is already being uninstalled: the release must then wait for its dependencies again. Callers must call
// mayAct and mayBegin first, so that the action follows the claim.
func (r *Reconciler) claim(ctx context.Context, p *releasePass, decision decide.Decision) (bool, error) {
	if len(p.release.Spec.DependsOn) == 0 || !actiongate.NeedsPreconditions(decision, p.desired.Return) ||
		!dependencies.AwaitsInstall(p.release) {
		return true, nil
	}
	reason, message, err := r.claimDependencies(ctx, p, decision)
	if reason != "" {
		report.SetNotReady(p.release, reason, message)
	}
	return reason == "" && err == nil, err
}

// claimDependencies writes the coming installation into the status of the release, and then checks the dependencies
// again. Before the write, the dependencies may be uninstalled, because the release is not a dependent yet. After the
// write, their uninstallation waits for the release. The second check detects an uninstallation that began before the
// write. The write also announces the rendering, so that the rendering needs no write of its own.
func (r *Reconciler) claimDependencies(ctx context.Context, p *releasePass, decision decide.Decision,
) (reason, message string, err error) {
	written := p.before.DeepCopy()
	report.SetNotReady(written, addonsv1.UpdatingReason, claimed)
	r.announceIn(&written.Status, p, decision)
	if err := r.patchBefore(ctx, p, written); err != nil {
		return "", "", fmt.Errorf("writing that the release is about to be installed: %w", err)
	}
	return r.gate.Unmet(ctx, p.release, p.cluster)
}

// mayUninstall reports whether a release may be uninstalled. If another release in the Cluster depends on the release,
// the result is false. In this case, mayUninstall names the dependent in the condition Ready, and events of the
// dependent start the next pass. If the HelmOp replaces the release by another one, there is no wait: the dependents
// stay, so the wait would never end.
func (r *Reconciler) mayUninstall(ctx context.Context, scope *releaseScope,
	intent deletionintent.Intent,
) (bool, error) {
	if intent == deletionintent.Replace {
		return true, nil
	}
	message, err := r.gate.NeededBy(ctx, scope.release, scope.cluster)
	if message != "" {
		report.SetNotReady(scope.release, addonsv1.DeletingReason, message)
	}
	return message == "" && err == nil, err
}
