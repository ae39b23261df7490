// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// claimed is the message of a release that is about to be installed because its dependencies are met.
const claimed = "The dependencies are ready: the release is about to be installed"

// needsDependencies reports whether the dependencies must be met before a decision is carried out. An action that
// repairs, finishes or removes does not need them: the dependencies were met when an interrupted change began, and the
// rollback of a failed upgrade returns to a state that worked. A return to the last known good revision does not need
// them either: the given-up revision may be the cause that the dependencies are not ready.
func needsDependencies(decision decide.Decision, isReturn bool) bool {
	switch decision.Action {
	case model.ActionInstall:
		return true
	case model.ActionUpgrade:
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
	if len(p.release.Spec.DependsOn) == 0 || !needsDependencies(decision, p.desired.Return) {
		return true, nil
	}
	reason, message, err := r.dependenciesOf(ctx, p.releaseScope)
	if err != nil {
		return false, err
	}
	if reason == "" && awaitsInstall(p.release) {
		reason, message, err = r.claimDependencies(ctx, p)
		if err != nil {
			return false, err
		}
	}
	if reason != "" {
		report.SetNotReady(p.release, reason, message)
	}
	return reason == "", nil
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
	reason, message, err = r.dependenciesOf(ctx, p.releaseScope)
	if err != nil || reason == "" {
		return "", "", err
	}
	// The pass does not write this condition if it equals the condition at the start of the pass.
	if err := write(reason, message); err != nil {
		return "", "", fmt.Errorf("writing which dependencies the release waits for: %w", err)
	}
	return reason, message, nil
}

// dependenciesOf returns the reason and the message for dependencies of a release that are not met. Both are empty if
// all are met.
func (r *Reconciler) dependenciesOf(ctx context.Context, scope *releaseScope) (reason, message string, err error) {
	release := scope.release
	if why := dependencies.InvalidDependency(release.Spec.DependsOn); why != "" {
		return addonsv1.InvalidDependencyReason, why, nil
	}
	helmOps := &addonsv1.HelmOpList{}
	if err := r.client.List(ctx, helmOps, client.InNamespace(release.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return "", "", fmt.Errorf("listing HelmOps: %w", err)
	}
	// The spec of this release counts, too: its HelmOp may have changed since.
	name, graph := apiutil.HelmOpOf(release), dependencies.GraphOf(helmOps.Items)
	graph.Add(name, release.Spec.DependsOn)
	if path := graph.Path(name, name); path != nil {
		return addonsv1.DependencyCycleReason, dependencies.CycleMessage(path), nil
	}
	siblings, err := apiutil.SiblingsOf(ctx, r.client, release)
	if err != nil {
		return "", "", err
	}
	var waits []string
	for _, named := range release.Spec.DependsOn {
		d, err := dependencies.ReadDependency(ctx, r.live, r.shard, release.Namespace, named, helmOps.Items)
		if err != nil {
			return "", "", err
		}
		why, err := r.unmet(ctx, scope, d, siblings[named.Name])
		if err != nil {
			return "", "", err
		}
		if why != "" {
			waits = append(waits, why)
		}
	}
	if len(waits) == 0 {
		return "", "", nil
	}
	return addonsv1.WaitingForDependenciesReason, dependencies.ListUnmet(waits), nil
}

// unmet returns why a dependency is not met; empty if it is met. Before it returns that a dependency is met, it reads
// the release of the dependency from the API server: the cache may not have a revision that was just assigned.
func (r *Reconciler) unmet(ctx context.Context, scope *releaseScope, d dependencies.Dependency,
	release *addonsv1.HelmOpRelease,
) (string, error) {
	if why := d.Unmet(scope.cluster, release); why != "" {
		return why, nil
	}
	current := &addonsv1.HelmOpRelease{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(release), current); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return d.Unmet(scope.cluster, nil), nil
		}
		return "", fmt.Errorf("reading the release of HelmOp %s: %w", d.Name, err)
	}
	return d.Unmet(scope.cluster, current), nil
}
