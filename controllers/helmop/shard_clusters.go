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

const (

	// maxReadsOneByOne is how many Clusters are read one by one at most; more are one list. A Cluster that is gone is
	// read for each of its HelmOps, and a list of all Clusters of other shards for each would be hundreds of
	// megabytes.
	maxReadsOneByOne = 50
)

// addUnlisted adds the Clusters of children that are not among the eligible ones: they are gone, of another shard, or
// of a namespace that is no longer selected. That the cache does not have a Cluster is no proof: it has only those of
// the own shard.
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

// absentClusters are the Clusters of children that the cache does not have.
func (r *Reconciler) absentClusters(ctx context.Context,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) (sets.Set[client.ObjectKey], error) {
	absent := sets.Set[client.ObjectKey]{}
	for key := range children {
		there, err := dependencies.Exists(ctx, r.client, key, apiutil.NewCluster())
		if err != nil {
			return nil, err
		}
		if !there {
			absent.Insert(key)
		}
	}
	return absent, nil
}

// clustersOfOtherShards are those of the Clusters that are of other shards. If there are many, it lists each
// namespace once.
func (r *Reconciler) clustersOfOtherShards(ctx context.Context, keys sets.Set[client.ObjectKey]) (
	map[client.ObjectKey]*metav1.PartialObjectMetadata, error,
) {
	elsewhere := map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	if keys.Len() <= maxReadsOneByOne {
		for key := range keys {
			object := partialCluster()
			there, err := dependencies.Exists(ctx, r.live, key, object)
			if err != nil {
				return nil, err
			}
			if there && !apiutil.IsOfShard(object, r.shard) {
				elsewhere[key] = object
			}
		}
		return elsewhere, nil
	}
	namespaces := sets.Set[string]{}
	for key := range keys {
		namespaces.Insert(key.Namespace)
	}
	for namespace := range namespaces {
		err := listMetadata(ctx, r.live, clusterv1.GroupVersion.WithKind(apiutil.ClusterKind),
			func(object *metav1.PartialObjectMetadata) {
				if key := client.ObjectKeyFromObject(object); keys.Has(key) {
					elsewhere[key] = object.DeepCopy()
				}
			}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: apiutil.OtherShards(r.shard)})
		if err != nil {
			return nil, fmt.Errorf("listing the Clusters of other shards: %w", err)
		}
	}
	return elsewhere, nil
}

// otherShardScope is the scope of a Cluster of another shard. It has the labels of the Cluster, so that the Cluster
// stays in its wave.
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

// isHeldByOtherShard reports whether a release is left alone because its Cluster is of another shard. A release of a
// Cluster that is no longer selected may be orphaned.
func isHeldByOtherShard(c *clusterScope, policy addonsv1.DeletionPolicy) bool {
	return c.otherShard != "" && (c.selected || policy != addonsv1.DeletionPolicyOrphan)
}

// partialCluster is the metadata of a Cluster, to read into.
func partialCluster() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(apiutil.ClusterKind))
	return object
}
