// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// dependencyError is why the dependencies of a HelmOp can never be met.
type dependencyError struct {
	reason, message string
}

func (e *dependencyError) condition() metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: e.reason, Message: e.message}
}

// checkDependencies sets for each Cluster why the dependencies of the HelmOp are not ready there. It reads each
// dependency once for all Clusters.
func (r *Reconciler) checkDependencies(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	if len(helmOp.Spec.DependsOn) == 0 {
		return nil
	}
	helmOps := &addonsv1.HelmOpList{}
	if err := r.client.List(ctx, helmOps, client.InNamespace(helmOp.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing HelmOps: %w", err)
	}
	if why := dependencies.InvalidDependency(helmOp.Spec.DependsOn); why != "" {
		scope.dependencyErr = &dependencyError{addonsv1.InvalidDependencyReason, why}
	} else if path := dependencies.GraphOf(helmOps.Items).Path(helmOp.Name, helmOp.Name); path != nil {
		scope.dependencyErr = &dependencyError{addonsv1.DependencyCycleReason, dependencies.CycleMessage(path)}
	}
	if scope.dependencyErr != nil {
		for _, c := range scope.clusters {
			c.blocked = scope.dependencyErr.message
		}
		return nil
	}
	waits := make([][]string, len(scope.clusters))
	for _, named := range helmOp.Spec.DependsOn {
		d, err := dependencies.ReadDependency(ctx, r.live, r.shard, helmOp.Namespace, named, helmOps.Items)
		if err != nil {
			return err
		}
		releases, err := r.releasesByCluster(ctx, helmOp.Namespace, named.Name)
		if err != nil {
			return err
		}
		for i, c := range scope.clusters {
			if c.object == nil || !c.selected {
				continue
			}
			if why := d.Unmet(c.object, releases[c.key]); why != "" {
				waits[i] = append(waits[i], why)
			}
		}
	}
	for i, c := range scope.clusters {
		c.blocked = dependencies.ListUnmet(waits[i])
	}
	return nil
}

// releasesByCluster returns the releases of a HelmOp by their Clusters. The HelmOp need not exist. The releases are
// shared with the cache: read only.
func (r *Reconciler) releasesByCluster(ctx context.Context,
	namespace, name string,
) (map[client.ObjectKey]*addonsv1.HelmOpRelease, error) {
	list := &addonsv1.HelmOpReleaseList{}
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := r.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(apiutil.ChildSelector(helmOp)),
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the releases of HelmOp %s: %w", name, err)
	}
	releases := make(map[client.ObjectKey]*addonsv1.HelmOpRelease, len(list.Items))
	for i := range list.Items {
		if apiutil.HelmOpOf(&list.Items[i]) == name {
			releases[apiutil.ClusterKey(&list.Items[i])] = &list.Items[i]
		}
	}
	return releases, nil
}

// isBlocked reports whether the release of a Cluster waits for dependencies or images: its condition says so, or it is
// Ready and the desired revision is not assigned to it because of a dependency. A release that has the desired revision
// stays as it is when a dependency is no longer ready. The API server of the Cluster answers.
func isBlocked(c *clusterScope) bool {
	if c.child == nil || !c.selected {
		return false
	}
	return apiutil.IsAwaiting(c.child) || apiutil.WaitsForImages(c.child) ||
		c.blocked != "" && !c.step.Assigned && apiutil.IsReadyNow(c.child)
}

// blockedCondition is the condition Ready of a HelmOp while Clusters wait for dependencies or images. It names the
// first Cluster, and why it waits. Dependencies come first: images are looked up when the dependencies are ready.
func blockedCondition(scope *helmOpScope, s fleetSummary) (reason, message string) {
	var first *clusterScope
	forImages := int32(0)
	for _, c := range scope.clusters {
		// Only Clusters that the summary counts as blocked.
		if phase, _ := phaseOf(c, scope.desiredNumber()); phase != phaseBlocked || !c.cluster.DeletionTimestamp.IsZero() {
			continue
		}
		if apiutil.WaitsForImages(c.child) {
			forImages++
		}
		if first == nil || apiutil.WaitsForImages(first.child) && !apiutil.WaitsForImages(c.child) {
			first = c
		}
	}
	n, what := s.counts.Blocked-forImages, "dependencies"
	reason = addonsv1.WaitingForDependenciesReason
	if first != nil && apiutil.WaitsForImages(first.child) {
		n, what, reason = forImages, "images", conditions.GetReason(first.child, addonsv1.ReadyCondition)
	}
	message = fmt.Sprintf("%d of %s %s for %s", n, plural.Count(s.counts.Selected, "Cluster", "Clusters"),
		plural.Word(n, "waits", "wait"), what)
	if first == nil {
		return reason, message
	}
	why := first.blocked
	if ready := conditions.Get(first.child, addonsv1.ReadyCondition); ready != nil &&
		(why == "" || apiutil.WaitsForImages(first.child)) {
		why = ready.Message
	}
	return reason, message + "; " + first.name + ": " + why
}
