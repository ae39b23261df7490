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

// mayUninstall reports whether no release in the Cluster depends on a release that is about to be uninstalled.
// Otherwise it reports the dependent in the condition Ready; events of the dependent start the next pass. A release
// that its HelmOp replaces by another release does not wait: its dependents stay, so the wait would not end.
func (r *Reconciler) mayUninstall(ctx context.Context, scope *releaseScope, intent deletionIntent) (bool, error) {
	if intent == intentReplace {
		return true, nil
	}
	siblings, err := apiutil.SiblingsOf(ctx, r.client, scope.release)
	if err != nil {
		return false, err
	}
	if ok, err := r.hasNoDependents(ctx, r.client, scope, siblings); !ok {
		return false, err
	}
	// Dependents that the cache does not have yet count, too.
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

// hasNoDependents reports whether no other release in the Cluster depends on a release. Otherwise it sets the condition
// Ready of the release to False.
func (r *Reconciler) hasNoDependents(ctx context.Context, reader client.Reader, scope *releaseScope,
	siblings map[string]*addonsv1.HelmOpRelease,
) (bool, error) {
	remaining, err := r.remainingDependents(ctx, reader, scope, siblings)
	if err != nil {
		return false, err
	}
	message := neededBy(scope.release, siblings, remaining)
	if message != "" {
		report.SetNotReady(scope.release, addonsv1.DeletingReason, message)
	}
	return message == "", nil
}

// remainingDependents returns the dependents that are not uninstalled before their Cluster is deleted, by the names of
// their HelmOps. It returns none if the Cluster is not under deletion: a release then waits for all its dependents,
// without a limit of time.
func (r *Reconciler) remainingDependents(ctx context.Context, reader client.Reader, scope *releaseScope,
	siblings map[string]*addonsv1.HelmOpRelease,
) (map[string]bool, error) {
	if scope.cluster == nil || scope.cluster.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	name, remaining := apiutil.HelmOpOf(scope.release), map[string]bool{}
	for other, sibling := range siblings {
		if !sibling.DeletionTimestamp.IsZero() || !dependencies.DependsOn(sibling.Spec.DependsOn, name) {
			continue
		}
		if sibling.Spec.BeforeClusterDelete == nil || !apiutil.IsWatched(sibling, r.watchFilter) ||
			report.IsBeingMoved(sibling) {
			remaining[other] = true
			continue
		}
		helmOp := &addonsv1.HelmOp{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: sibling.Namespace, Name: other}, helmOp)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading HelmOp %s: %w", other, err)
		}
		remaining[other] = err != nil || !clusterlife.UninstallsBeforeDeletion(scope.cluster, sibling, helmOp, r.now())
	}
	return remaining, nil
}

// neededBy returns the message that names a dependent in the Cluster for which the uninstallation of a release waits;
// empty if there is none. Releases in a dependency cycle and remaining dependents do not count.
func neededBy(release *addonsv1.HelmOpRelease, siblings map[string]*addonsv1.HelmOpRelease,
	remaining map[string]bool,
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
	var dependents []string
	for other, sibling := range siblings {
		if !dependencies.DependsOn(sibling.Spec.DependsOn, name) || remaining[other] || awaitsInstall(sibling) ||
			graph.Path(name, other) != nil {
			continue
		}
		dependents = append(dependents, other)
	}
	if len(dependents) == 0 {
		return ""
	}
	slices.Sort(dependents)
	first, others := siblings[dependents[0]], ""
	if more := len(dependents) - 1; more > 0 {
		others = fmt.Sprintf(" (and %d more)", more)
	}
	message := fmt.Sprintf("The uninstallation waits for the release of HelmOp %s%s, which depends on this release",
		dependents[0], others)
	switch paused := apiutil.IsChildPaused(first); {
	case paused && !first.DeletionTimestamp.IsZero():
		return message + " and is being deleted, but is paused"
	case paused:
		message += " and is paused"
	case !first.DeletionTimestamp.IsZero():
		return message + " and is being deleted"
	}
	return message + fmt.Sprintf(": delete HelmOp %s, change its selector so that it does not select the Cluster, or "+
		"remove the dependency", dependents[0])
}

// awaitsInstall reports whether a release is not installed yet and waits for its dependencies, which therefore may be
// uninstalled.
func awaitsInstall(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Release == nil && release.Status.State == string(model.StateAbsent) &&
		apiutil.IsAwaiting(release)
}
