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
