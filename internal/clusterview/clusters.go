// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// Clusters provides the connections to the workload clusters.
type Clusters interface {
	// GetRESTConfig returns the configuration of clients for a Cluster. The error wraps clusterlink.ErrNotConnected if the
	// Cluster is not connected, and clusterlink.ErrNotTried if the state of the Cluster is not known.
	GetRESTConfig(ctx context.Context, cluster client.ObjectKey) (*rest.Config, error)
	// State returns the state of the connection to a Cluster.
	State(cluster client.ObjectKey) clusterlink.State
	// ReadAnswered, ReadTimedOut and ForgetReads report how the API server of a Cluster answers reads, see
	// clusterlink.Links.
	ReadAnswered(cluster client.ObjectKey)
	ReadTimedOut(cluster client.ObjectKey, began time.Time)
	ForgetReads(cluster client.ObjectKey)
	// Source returns a source that enqueues requests for a Cluster that became reachable or unreachable.
	Source(requests handler.MapFunc) source.Source
}
