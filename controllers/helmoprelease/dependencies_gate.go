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

const (

	// claimed is the message of a release whose dependencies were just met.
	claimed = "all that comes first is ready: the release is about to be installed"
)

// needsDependencies reports whether the dependencies must be met before a decision is carried out. They need not for
// an action that repairs, finishes or removes: an interrupted change had begun in order, and the rollback of a failed
// upgrade returns to what worked. Nor for a return to the last known good revision: the revision that is given up may
// be what broke the others.
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

// mayAct reports whether the dependencies of a release are met in its Cluster, if a decision needs that. If not, it
// says so at the release; events of the dependencies start the next pass.
func (r *Reconciler) mayAct(ctx context.Context, p *releasePass, decision decide.Decision) (bool, error) {
	if len(p.release.Spec.DependsOn) == 0 || !needsDependencies(decision, p.desired.Return) {
		return true, nil
	}
	reason, message, err := r.dependenciesOf(ctx, p.releaseScope)
	if err != nil {
		return false, err
	}
	if reason == "" && isNotThere(p.release) {
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

// claimDependencies writes at a release that it is about to be installed, and then checks the dependencies again.
// Before that, its dependencies may be uninstalled, since the release does not exist. From then on they wait for it,
// and the second check sees an uninstallation that had just begun.
func (r *Reconciler) claimDependencies(ctx context.Context, p *releasePass) (reason, message string, err error) {
	said := p.release.DeepCopy()
	say := func(reason, message string) error {
		before := said.DeepCopy()
		report.SetNotReady(said, reason, message)
		return r.client.Status().Patch(ctx, said, client.MergeFrom(before))
	}
	if err := say(addonsv1.UpdatingReason, claimed); err != nil {
		return "", "", fmt.Errorf("saying that the release is about to be installed: %w", err)
	}
	reason, message, err = r.dependenciesOf(ctx, p.releaseScope)
	if err != nil || reason == "" {
		return "", "", err
	}
	// The pass may not write this, if it is what the status said before.
	if err := say(reason, message); err != nil {
		return "", "", fmt.Errorf("saying what the release waits for: %w", err)
	}
	return reason, message, nil
}

// dependenciesOf is why the dependencies of a release are not met: a reason and a message, both empty if they are.
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

// unmet is why a dependency is not met; empty if it is. That it is must not come from a cache that lags behind: its
// HelmOp may just have assigned a revision.
func (r *Reconciler) unmet(ctx context.Context, scope *releaseScope, d dependencies.Dependency,
	release *addonsv1.HelmOpRelease,
) (string, error) {
	if why := d.Unmet(scope.cluster, release); why != "" {
		return why, nil
	}
	now := &addonsv1.HelmOpRelease{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(release), now); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return d.Unmet(scope.cluster, nil), nil
		}
		return "", fmt.Errorf("reading the release of HelmOp %s: %w", d.Name, err)
	}
	return d.Unmet(scope.cluster, now), nil
}
