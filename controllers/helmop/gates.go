// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// checkDependencies checks the dependencies of the HelmOp in each Cluster, and sets the cause if they are not ready. It
// reads each dependency once for all Clusters.
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
		scope.dependencyErr = &helmopstatus.DependencyError{Reason: addonsv1.InvalidDependencyReason, Message: why}
	} else if path := dependencies.GraphOf(helmOps.Items).Path(helmOp.Name, helmOp.Name); path != nil {
		scope.dependencyErr = &helmopstatus.DependencyError{Reason: addonsv1.DependencyCycleReason,
			Message: dependencies.CycleMessage(path)}
	}
	if scope.dependencyErr != nil {
		for _, c := range scope.clusters {
			c.blocked = scope.dependencyErr.Message
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

// releasesByCluster returns the releases of a HelmOp by Cluster. The HelmOp does not need to exist. The cache shares
// the releases: callers must not change them.
func (r *Reconciler) releasesByCluster(ctx context.Context,
	namespace, name string,
) (map[client.ObjectKey]*addonsv1.HelmOpRelease, error) {
	list := &addonsv1.HelmOpReleaseList{}
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := r.client.List(ctx, list, client.InNamespace(namespace), apiutil.ReleasesOf(helmOp),
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

// checkMaintenance sets for each Cluster which changes of its release wait for maintenance, and the cause.
func (r *Reconciler) checkMaintenance(_ context.Context, scope *helmOpScope) error {
	policy := maintenance.PolicyOf(scope.helmOp.Spec.Maintenance)
	scope.invalidMaintenance = policy.Invalid()
	now := r.now()
	for _, c := range scope.clusters {
		if c.object == nil {
			continue
		}
		limits := policy.For(c.object.GetAnnotations())
		if c.limits = limits.At(now); !c.limits.Closed {
			continue
		}
		c.defers = rollout.Deferral{
			Changes: true, Opens: c.limits.Opens,
			Installations: limits.Covers(addonsv1.MaintenanceInstallation),
			Returns:       limits.Covers(addonsv1.MaintenanceRollback),
		}
	}
	return nil
}
