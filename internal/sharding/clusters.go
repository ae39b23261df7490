// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sharding

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
)

// maxReadsOneByOne is the largest number of Clusters that are read one by one. More Clusters are listed. Every HelmOp
// with a release in a Cluster that does not exist reads this Cluster. If each of them listed all Clusters of other
// shards, the lists would have hundreds of megabytes.
const maxReadsOneByOne = 50

// ClustersOfOtherShards returns the Clusters in a set that belong to other shards. If the set is large, it lists each
// namespace once.
func ClustersOfOtherShards(ctx context.Context, live client.Reader, shard string,
	keys sets.Set[client.ObjectKey],
) (map[client.ObjectKey]*metav1.PartialObjectMetadata, error) {
	found := map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	if keys.Len() <= maxReadsOneByOne {
		for key := range keys {
			object := PartialCluster()
			exists, err := dependencies.Exists(ctx, live, key, object)
			if err != nil {
				return nil, err
			}
			if exists && !apiutil.IsOfShard(object, shard) {
				found[key] = object
			}
		}
		return found, nil
	}
	namespaces := sets.Set[string]{}
	for key := range keys {
		namespaces.Insert(key.Namespace)
	}
	for namespace := range namespaces {
		err := listMetadata(ctx, live, clusterv1.GroupVersion.WithKind(apiutil.ClusterKind),
			func(object *metav1.PartialObjectMetadata) {
				if key := client.ObjectKeyFromObject(object); keys.Has(key) {
					found[key] = object.DeepCopy()
				}
			}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: apiutil.OtherShards(shard)})
		if err != nil {
			return nil, fmt.Errorf("listing the Clusters of other shards: %w", err)
		}
	}
	return found, nil
}

// PartialCluster returns an empty object, to read the metadata of a Cluster into.
func PartialCluster() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(apiutil.ClusterKind))
	return object
}
