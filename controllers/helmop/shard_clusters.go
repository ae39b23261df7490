// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// maxReadsOneByOne is the number of Clusters up to which each Cluster is read by a request of its own; more Clusters
// are listed. Every HelmOp of a Cluster that does not exist reads the Cluster. If each of them listed all Clusters of
// other shards, the lists would have hundreds of megabytes.
const maxReadsOneByOne = 50

// addUnlisted adds the Clusters of children that are not eligible to the scope: they do not exist, or are of another
// shard or of a namespace that is no longer selected. A Cluster that is not in the cache may exist, because the cache
// has only the Clusters of the own shard.
func (r *Reconciler) addUnlisted(ctx context.Context, scope *helmOpScope, selector *selection.Selector,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) error {
	if len(children) == 0 {
		return nil
	}
	absent, err := r.absentClusters(ctx, children)
	if err != nil {
		return err
	}
	foreign, err := r.clustersOfOtherShards(ctx, absent)
	if err != nil {
		return err
	}
	for key, child := range children {
		if object, ok := foreign[key]; ok {
			scope.clusters = append(scope.clusters, otherShardScope(scope.helmOp, key, object, selector, child))
			continue
		}
		c, err := r.unlistedCluster(ctx, scope, key, child)
		if err != nil {
			return err
		}
		scope.clusters = append(scope.clusters, c)
	}
	return nil
}

// absentClusters returns the Clusters of children that the cache does not have.
func (r *Reconciler) absentClusters(ctx context.Context,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) (sets.Set[client.ObjectKey], error) {
	absent := sets.Set[client.ObjectKey]{}
	for key := range children {
		exists, err := dependencies.Exists(ctx, r.client, key, apiutil.NewCluster())
		if err != nil {
			return nil, err
		}
		if !exists {
			absent.Insert(key)
		}
	}
	return absent, nil
}

// clustersOfOtherShards returns the Clusters that are of other shards, out of a set of Clusters. If the set is large,
// it lists each namespace once.
func (r *Reconciler) clustersOfOtherShards(ctx context.Context, keys sets.Set[client.ObjectKey]) (
	map[client.ObjectKey]*metav1.PartialObjectMetadata, error,
) {
	found := map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	if keys.Len() <= maxReadsOneByOne {
		for key := range keys {
			object := partialCluster()
			exists, err := dependencies.Exists(ctx, r.live, key, object)
			if err != nil {
				return nil, err
			}
			if exists && !apiutil.IsOfShard(object, r.shard) {
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
		err := listMetadata(ctx, r.live, clusterv1.GroupVersion.WithKind(apiutil.ClusterKind),
			func(object *metav1.PartialObjectMetadata) {
				if key := client.ObjectKeyFromObject(object); keys.Has(key) {
					found[key] = object.DeepCopy()
				}
			}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: apiutil.OtherShards(r.shard)})
		if err != nil {
			return nil, fmt.Errorf("listing the Clusters of other shards: %w", err)
		}
	}
	return found, nil
}

// otherShardScope returns the scope of a Cluster of another shard. It has the labels of the Cluster, so that the
// Cluster stays in its wave.
func otherShardScope(helmOp *addonsv1.HelmOp, key client.ObjectKey, object *metav1.PartialObjectMetadata,
	selector *selection.Selector,
	child *addonsv1.HelmOpRelease,
) *clusterScope {
	cluster := &clusterv1.Cluster{ObjectMeta: object.ObjectMeta}
	known := apiutil.NewCluster()
	known.SetNamespace(key.Namespace)
	known.SetName(key.Name)
	known.SetLabels(object.Labels)
	return &clusterScope{
		name: apiutil.TitleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: known, child: child,
		selected: selector.Matches(object), otherShard: apiutil.OtherShardMessage(object, helmOp),
	}
}

// isHeldByOtherShard reports whether a release is left alone because its Cluster is of another shard. If the Cluster is
// no longer selected and the deletion policy is Orphan, the release is not left alone, but orphaned.
func isHeldByOtherShard(c *clusterScope, policy addonsv1.DeletionPolicy) bool {
	return c.otherShard != "" && (c.selected || policy != addonsv1.DeletionPolicyOrphan)
}

// partialCluster returns an empty object to read the metadata of a Cluster into.
func partialCluster() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(apiutil.ClusterKind))
	return object
}
