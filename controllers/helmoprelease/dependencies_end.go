// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// mayUninstall reports whether no release in the Cluster depends on one that is about to be uninstalled. If one does,
// it says so at the release; events of the dependent start the next pass. A release that is replaced by another one
// of the same HelmOp does not wait: its dependents stay, and the wait would never end.
func (r *Reconciler) mayUninstall(ctx context.Context, scope *releaseScope, fate deletionIntent) (bool, error) {
	if fate == intentReplace {
		return true, nil
	}
	siblings, err := apiutil.SiblingsOf(ctx, r.client, scope.release)
	if err != nil {
		return false, err
	}
	if ok, err := r.hasNoDependents(ctx, r.client, scope, siblings); !ok {
		return false, err
	}
	// Dependents that the cache does not show yet count, too.
	list := &addonsv1.HelmOpReleaseList{}
	err = r.live.List(ctx, list, client.InNamespace(scope.release.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: capilabels.MustFormatValue(scope.release.Spec.ClusterRef.Name),
	})
	if err != nil {
		return false, fmt.Errorf("listing the releases of Cluster %s: %w", apiutil.ClusterKey(scope.release), err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(other addonsv1.HelmOpRelease) bool {
		return apiutil.ClusterKey(&other) != apiutil.ClusterKey(scope.release)
	})
	return r.hasNoDependents(ctx, r.live, scope, apiutil.ByHelmOp(list.Items, scope.release))
}

// hasNoDependents reports whether no other release in the Cluster keeps this one from being uninstalled, and says so
// at the release if one does.
func (r *Reconciler) hasNoDependents(ctx context.Context, reader client.Reader, scope *releaseScope,
	siblings map[string]*addonsv1.HelmOpRelease,
) (bool, error) {
	staying, err := r.stayingIn(ctx, reader, scope, siblings)
	if err != nil {
		return false, err
	}
	needing := neededBy(scope.release, siblings, staying)
	if needing != "" {
		report.SetNotReady(scope.release, addonsv1.DeletingReason, needing)
	}
	return needing == "", nil
}

// stayingIn are the dependents, by the names of their HelmOps, that are not uninstalled before their Cluster, which
// is under deletion, goes. There are none in a Cluster that stays: there, a release waits for its dependents, however
// long.
func (r *Reconciler) stayingIn(ctx context.Context, reader client.Reader, scope *releaseScope,
	siblings map[string]*addonsv1.HelmOpRelease,
) (map[string]bool, error) {
	if scope.cluster == nil || scope.cluster.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	name, staying := apiutil.HelmOpOf(scope.release), map[string]bool{}
	for other, sibling := range siblings {
		if !sibling.DeletionTimestamp.IsZero() || !dependencies.DependsOn(sibling.Spec.DependsOn, name) {
			continue
		}
		if sibling.Spec.BeforeClusterDelete == nil || !apiutil.IsWatched(sibling, r.watchFilter) ||
			report.IsBeingMoved(sibling) {
			staying[other] = true
			continue
		}
		helmOp := &addonsv1.HelmOp{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: sibling.Namespace, Name: other}, helmOp)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading HelmOp %s: %w", other, err)
		}
		staying[other] = err != nil || !clusterlife.UninstallsBeforeDeletion(scope.cluster, sibling, helmOp, r.now())
	}
	return staying, nil
}

// neededBy is the message that a dependent in the Cluster keeps a release from being uninstalled; empty if none does.
// Releases in a dependency cycle, and dependents that are never uninstalled, do not count.
func neededBy(release *addonsv1.HelmOpRelease, siblings map[string]*addonsv1.HelmOpRelease,
	staying map[string]bool,
) string {
	name := apiutil.HelmOpOf(release)
	if name == "" {
		return ""
	}
	graph := dependencies.DependencyGraph{}
	graph.Add(name, release.Spec.DependsOn)
	for other, sibling := range siblings {
		graph.Add(other, sibling.Spec.DependsOn)
	}
	var needing []string
	for other, sibling := range siblings {
		if !dependencies.DependsOn(sibling.Spec.DependsOn, name) || staying[other] || isNotThere(sibling) ||
			graph.Path(name, other) != nil {
			continue
		}
		needing = append(needing, other)
	}
	if len(needing) == 0 {
		return ""
	}
	slices.Sort(needing)
	first, others := siblings[needing[0]], ""
	if more := len(needing) - 1; more > 0 {
		others = fmt.Sprintf(" (and %d more)", more)
	}
	message := fmt.Sprintf("waits for the release of HelmOp %s%s, which depends on it", needing[0], others)
	if apiutil.IsChildPaused(first) {
		message += " and is paused"
	}
	if !first.DeletionTimestamp.IsZero() {
		return message + " and is ending"
	}
	return message + fmt.Sprintf(": delete HelmOp %s, let it not select the Cluster, or take the dependency out",
		needing[0])
}

// isNotThere reports whether a release waits to be installed for the first time: its dependencies may be uninstalled.
func isNotThere(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Release == nil && release.Status.State == string(model.StateAbsent) &&
		apiutil.IsAwaiting(release)
}
