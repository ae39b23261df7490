// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// ReadCluster reads a Cluster as the API server serves it. For the key of the management cluster, it returns
// ManagementCluster. The result may be shared with a cache: do not change it.
func ReadCluster(ctx context.Context, reader client.Reader, key client.ObjectKey,
	shard string,
) (*unstructured.Unstructured, error) {
	if key == clusterlink.Management {
		return ManagementCluster(ctx, reader, shard)
	}
	object := apiutil.NewCluster()
	return object, reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
}

// FindCluster reads a Cluster from a cache and, if the cache does not have it, from the API server: the cache has only
// the Clusters of the own shard, so only the API server shows whether another Cluster exists.
func FindCluster(ctx context.Context, cached, live client.Reader, key client.ObjectKey,
	shard string,
) (*unstructured.Unstructured, error) {
	object, err := ReadCluster(ctx, cached, key, shard)
	if apierrors.IsNotFound(err) {
		return ReadCluster(ctx, live, key, shard)
	}
	return object, err
}

// ManagementCluster returns a Cluster object for the management cluster, which is initialized, never paused, and of the
// shard of the argument. Its UID is the UID of the namespace kube-system, which exists as long as the cluster. So after
// a move to another management cluster, the UID differs.
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
