/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
)

// mayEnd tells whether nothing in the Cluster depends any more on a release that is about to be uninstalled. If something does, it
// says so; events of that bring the next pass. A release that is replaced by another one of the same HelmOp waits for nobody: what depends on it
// stays, and would be waited for without end.
func (r *releaseReconciler) mayEnd(ctx context.Context, scope *releaseScope, fate releaseFate) (bool, error) {
	if fate == fateReplaced {
		return true, nil
	}
	siblings, err := siblingsOf(ctx, r.client, scope.release)
	if err != nil {
		return false, err
	}
	isGoing := scope.cluster != nil && !scope.cluster.DeletionTimestamp.IsZero()
	if needing := neededBy(scope.release, siblings, isGoing); needing != "" {
		setNotReady(scope.release, addonsv1.DeletingReason, needing)
		return false, nil
	}
	// What the cache does not show yet counts, too.
	list := &addonsv1.HelmOpReleaseList{}
	err = r.live.List(ctx, list, client.InNamespace(scope.release.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: capilabels.MustFormatValue(scope.release.Spec.ClusterRef.Name),
	})
	if err != nil {
		return false, fmt.Errorf("listing the releases of Cluster %s: %w", clusterKey(scope.release), err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(other addonsv1.HelmOpRelease) bool {
		return clusterKey(&other) != clusterKey(scope.release)
	})
	if needing := neededBy(scope.release, byHelmOp(list.Items, scope.release), isGoing); needing != "" {
		setNotReady(scope.release, addonsv1.DeletingReason, needing)
		return false, nil
	}
	return true, nil
}

// neededBy tells which of the other releases in a Cluster, by the names of their HelmOps, keeps one from ending; empty if none does. Those that
// need each other do not wait for each other. In a Cluster that is under deletion itself, only those are waited for that end before it goes.
func neededBy(release *addonsv1.HelmOpRelease, siblings map[string]*addonsv1.HelmOpRelease, isGoing bool) string {
	name := ownerName(release)
	if name == "" {
		return ""
	}
	graph := dependencyGraph{}
	graph.add(name, release.Spec.DependsOn)
	for other, sibling := range siblings {
		graph.add(other, sibling.Spec.DependsOn)
	}
	var needing []string
	for other, sibling := range siblings {
		if !dependsOn(sibling.Spec.DependsOn, name) || isNotThere(sibling) || graph.path(name, other) != nil {
			continue
		}
		if isGoing && sibling.DeletionTimestamp.IsZero() && sibling.Spec.BeforeClusterDelete == nil {
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
	if isChildPaused(first) {
		message += " and is paused"
	}
	if !first.DeletionTimestamp.IsZero() {
		return message + " and is ending"
	}
	return message + fmt.Sprintf(": delete HelmOp %s, let it not select the Cluster, or take the dependency out", needing[0])
}

// isNotThere tells whether a release waits to be installed for the first time: what it depends on may go before it came.
func isNotThere(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Release == nil && release.Status.State == string(helmclient.StateAbsent) && isAwaiting(release)
}
