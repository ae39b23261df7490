// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// NeededBy returns a message that names a dependent: another release in the Cluster that depends on the release that is
// about to be uninstalled. The message is empty if there is none. cluster is nil if the Cluster does not exist.
func (g *Gate) NeededBy(ctx context.Context, release *addonsv1.HelmOpRelease,
	cluster *clusterv1.Cluster,
) (string, error) {
	siblings, err := apiutil.SiblingsOf(ctx, g.Client, release)
	if err != nil {
		return "", err
	}
	if message, err := g.neededByOne(ctx, g.Client, release, cluster, siblings); message != "" || err != nil {
		return message, err
	}
	// The cache may not have a new dependent yet, so this reads from the API server.
	list := &addonsv1.HelmOpReleaseList{}
	err = g.Live.List(ctx, list, client.InNamespace(release.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: capilabels.MustFormatValue(release.Spec.ClusterRef.Name),
	})
	if err != nil {
		return "", fmt.Errorf("listing the releases of Cluster %s: %w", apiutil.ClusterKey(release), err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(other addonsv1.HelmOpRelease) bool {
		return apiutil.ClusterKey(&other) != apiutil.ClusterKey(release)
	})
	return g.neededByOne(ctx, g.Live, release, cluster, apiutil.ByHelmOp(list.Items, release))
}

// neededByOne returns a message that names one dependent of a release among the other releases in the Cluster; empty if
// there is none.
func (g *Gate) neededByOne(ctx context.Context, reader client.Reader, release *addonsv1.HelmOpRelease,
	cluster *clusterv1.Cluster,
	siblings map[string]*addonsv1.HelmOpRelease,
) (string, error) {
	remaining, err := g.remainingDependents(ctx, reader, release, cluster, siblings)
	if err != nil {
		return "", err
	}
	return neededBy(release, siblings, remaining), nil
}

// remainingDependents returns the dependents that are not uninstalled before their Cluster is deleted, by the names of
// their HelmOps. It returns none if the Cluster is not under deletion: then a release waits for all its dependents,
// without a time limit.
func (g *Gate) remainingDependents(ctx context.Context, reader client.Reader, release *addonsv1.HelmOpRelease,
	cluster *clusterv1.Cluster,
	siblings map[string]*addonsv1.HelmOpRelease,
) (map[string]bool, error) {
	if cluster == nil || cluster.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	name, remaining := apiutil.HelmOpOf(release), map[string]bool{}
	for other, sibling := range siblings {
		if !sibling.DeletionTimestamp.IsZero() || !DependsOn(sibling.Spec.DependsOn, name) {
			continue
		}
		if sibling.Spec.BeforeClusterDelete == nil || !apiutil.IsWatched(sibling, g.WatchFilter) ||
			report.IsBeingMoved(sibling) {
			remaining[other] = true
			continue
		}
		helmOp := &addonsv1.HelmOp{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: sibling.Namespace, Name: other}, helmOp)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading HelmOp %s: %w", other, err)
		}
		remaining[other] = err != nil || !clusterlife.UninstallsBeforeDeletion(cluster, sibling, helmOp, g.Now())
	}
	return remaining, nil
}

// neededBy returns a message that names a dependent for which the uninstallation of a release waits; empty if there is
// none. Releases in a dependency cycle and remaining dependents do not count.
func neededBy(release *addonsv1.HelmOpRelease, siblings map[string]*addonsv1.HelmOpRelease,
	remaining map[string]bool,
) string {
	name := apiutil.HelmOpOf(release)
	if name == "" {
		return ""
	}
	graph := DependencyGraph{}
	graph.Add(name, release.Spec.DependsOn)
	for other, sibling := range siblings {
		graph.Add(other, sibling.Spec.DependsOn)
	}
	var dependents []string
	for other, sibling := range siblings {
		if !DependsOn(sibling.Spec.DependsOn, name) || remaining[other] || AwaitsInstall(sibling) ||
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

// AwaitsInstall reports whether a release is not installed yet and waits for its dependencies or its images. So its
// dependencies may be uninstalled.
func AwaitsInstall(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Release == nil && release.Status.State == string(model.StateAbsent) &&
		(apiutil.IsAwaiting(release) || apiutil.WaitsForImages(release))
}
