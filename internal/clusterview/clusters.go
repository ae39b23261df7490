// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// Clusters are the ways to the workload clusters.
type Clusters interface {
	// GetRESTConfig returns how to reach a Cluster; the error wraps clusterlink.ErrNotConnected if there is no way, and
	// clusterlink.ErrNotTried if that says nothing of the Cluster.
	GetRESTConfig(ctx context.Context, cluster client.ObjectKey) (*rest.Config, error)
	// State tells how a Cluster has answered.
	State(cluster client.ObjectKey) clusterlink.State
	// Source is of the requests for a Cluster whenever it begins or ceases to answer.
	Source(requests handler.MapFunc) source.Source
}
