// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/actiongate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// adoptionPending is the message of a release whose adoption waits for the rollout of its HelmOp.
const adoptionPending = "The release has another owner. It is adopted when the rollout of the HelmOp reaches this " +
	"Cluster: see status.rollout of the HelmOp"

// limitsOf returns when a release may be changed.
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

// waitsForMaintenance reports whether a decision must not be carried out now. It then reports why, and schedules the
// pass that carries it out. A release that has failed stays failed: its next try waits.
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
			releasestatus.WithLastError(p.release, "The next try waits for maintenance: "+state.Why))
		return true
	}
	releasestatus.NotReleased(p.release, addonsv1.WaitingForMaintenanceReason,
		fmt.Sprintf("The change of the release waits for maintenance: %s", state.Why))
	return true
}

// untilOpen returns the time until a release may be changed; 0 if it is not known.
func (r *Reconciler) untilOpen(state maintenance.State) time.Duration {
	if state.Opens.IsZero() {
		return 0
	}
	return max(time.Millisecond, state.Opens.Sub(r.now()))
}

// deferCorrections makes the pass report drift and not correct it, if the release may not be changed now.
func (r *Reconciler) deferCorrections(p *releasePass) maintenance.State {
	if !p.policy.CorrectDrift {
		return maintenance.State{}
	}
	state := limitsOf(p.releaseScope).At(r.now())
	p.policy.CorrectDrift = !state.Closed
	return state
}

// claimed is the message of a release that is about to be installed because its dependencies are met.
const claimed = "The dependencies are ready: the release is about to be installed"

// mayAct reports whether the dependencies of a release are met in its Cluster, or need not be met for a decision. If
// they are not met, it sets the condition Ready to False; events of the dependencies start the next pass.
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

// claim lets the dependencies of a release that is installed now wait with their uninstallation. It returns false if
// one of them is being uninstalled: the release then waits for its dependencies again. mayAct has returned true before.
func (r *Reconciler) claim(ctx context.Context, p *releasePass, decision decide.Decision) (bool, error) {
	if len(p.release.Spec.DependsOn) == 0 || !actiongate.NeedsPreconditions(decision, p.desired.Return) ||
		!dependencies.AwaitsInstall(p.release) {
		return true, nil
	}
	reason, message, err := r.claimDependencies(ctx, p)
	if reason != "" {
		report.SetNotReady(p.release, reason, message)
	}
	return reason == "" && err == nil, err
}

// claimDependencies writes into the status of a release that it is about to be installed, and then checks its
// dependencies again. Before the write, the dependencies may be uninstalled, because the release does not exist. After
// the write, their uninstallation waits for the release. The second check detects an uninstallation that began before
// the write.
func (r *Reconciler) claimDependencies(ctx context.Context, p *releasePass) (reason, message string, err error) {
	written := p.release.DeepCopy()
	write := func(reason, message string) error {
		before := written.DeepCopy()
		report.SetNotReady(written, reason, message)
		return r.client.Status().Patch(ctx, written, client.MergeFrom(before))
	}
	if err := write(addonsv1.UpdatingReason, claimed); err != nil {
		return "", "", fmt.Errorf("writing that the release is about to be installed: %w", err)
	}
	reason, message, err = r.gate.Unmet(ctx, p.release, p.cluster)
	if err != nil || reason == "" {
		return "", "", err
	}
	// The pass does not write this condition if it equals the condition at the start of the pass.
	if err := write(reason, message); err != nil {
		return "", "", fmt.Errorf("writing which dependencies the release waits for: %w", err)
	}
	return reason, message, nil
}

// mayUninstall reports whether no release in the Cluster depends on a release that is about to be uninstalled.
// Otherwise it reports the dependent in the condition Ready; events of the dependent start the next pass. A release
// that its HelmOp replaces by another release does not wait: its dependents stay, so the wait would not end.
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
