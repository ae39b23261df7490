// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// claimed is the message of a release that is about to be installed because its dependencies are met.
const claimed = "The dependencies are ready: the release is about to be installed"

// needsPreconditions reports whether the dependencies must be met, and the images must be in their registries, before a
// decision is carried out. An action that repairs, finishes or removes does not need them: they were met when an
// interrupted change began, and the rollback of a failed upgrade returns to a state that worked. A return to the last
// known good revision does not need them either: the given-up revision may be the cause that the dependencies are not
// ready.
func needsPreconditions(decision decide.Decision, isReturn bool) bool {
	switch decision.Action {
	case model.ActionInstall:
		return true
	case model.ActionUpgrade, model.ActionAdopt:
		return !isReturn
	case model.ActionRecoverThenInstall:
		return decision.Recovery != decide.RecoverReplace
	case model.ActionRecoverThenUpgrade:
		return !isReturn && decision.Recovery != decide.RecoverReplace
	default:
		return false
	}
}

// mayAct reports whether the dependencies of a release are met in its Cluster, or need not be met for a decision. If
// they are not met, it sets the condition Ready to False; events of the dependencies start the next pass.
func (r *Reconciler) mayAct(ctx context.Context, p *releasePass, decision decide.Decision) (bool, error) {
	if len(p.release.Spec.DependsOn) == 0 || !needsPreconditions(decision, p.desired.Return) {
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
	if len(p.release.Spec.DependsOn) == 0 || !needsPreconditions(decision, p.desired.Return) ||
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
