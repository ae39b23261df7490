// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// ReadCluster reads a Cluster as the API server serves it. For the management cluster it makes the object that stands
// for it. It may be shared with a cache, and must not be changed.
func ReadCluster(ctx context.Context, reader client.Reader, key client.ObjectKey,
	shard string,
) (*unstructured.Unstructured, error) {
	if key == clusterlink.Management {
		return ManagementCluster(ctx, reader, shard)
	}
	object := apiutil.NewCluster()
	return object, reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
}

// ManagementCluster is the management cluster in the form of a Cluster: one that is initialized, never paused, and of
// whatever shard asks. Its UID is that of the namespace kube-system, which lives as long as the cluster does: after a
// move, it is another one.
func ManagementCluster(ctx context.Context, reader client.Reader, shard string) (*unstructured.Unstructured, error) {
	system, err := apiutil.SystemNamespace(ctx, reader)
	if err != nil {
		return nil, err
	}
	object := apiutil.NewCluster()
	object.SetName(clusterlink.Management.Name)
	object.SetUID(system.UID)
	object.SetCreationTimestamp(system.CreationTimestamp)
	if shard != "" {
		object.SetLabels(map[string]string{addonsv1.ShardLabel: shard})
	}
	err = unstructured.SetNestedField(object.Object, true, "status", "initialization", "controlPlaneInitialized")
	return object, err
}
