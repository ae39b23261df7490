// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// addManagement adds the management cluster to the scope, if the HelmOp installs there or has a release there.
func (r *Reconciler) addManagement(ctx context.Context, scope *helmOpScope,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) error {
	helmOp, child := scope.helmOp, children[clusterlink.Management]
	delete(children, clusterlink.Management)
	isWanted := helmOp.Spec.ManagementCluster != nil
	if !isWanted && child == nil {
		return nil
	}
	object, err := clusterview.ManagementCluster(ctx, r.client, r.shard)
	if err != nil {
		return err
	}
	c := &clusterScope{name: apiutil.ManagementTitle, key: clusterlink.Management, object: object, selected: isWanted,
		child: child}
	if c.cluster, err = apiutil.TypedCluster(object); err != nil {
		return err
	}
	allowed, err := r.guard.Allows(ctx, helmOp, clusterlink.Management)
	if err != nil {
		return err
	}
	if isWanted && !allowed {
		c.err = selection.DeniedError(helmOp, clusterlink.Management)
		scope.programErr = c.err
	}
	scope.clusters = append(scope.clusters, c)
	return nil
}
