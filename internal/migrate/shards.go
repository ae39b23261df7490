// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// SetShard gives the HelmOp of an item the shard of its Clusters: a HelmOp has releases only in Clusters of its own
// shard. It blocks the item if the Clusters have different shards, or if the HelmOp of an earlier run has another
// shard. clusters are all Clusters. existing is the HelmOp with the same name; nil if there is none.
func (i *Item) SetShard(clusters []*metav1.PartialObjectMetadata, existing *addonsv1.HelmOp) {
	known, names := byKey(clusters), map[string][]string{}
	var first *metav1.PartialObjectMetadata
	var shards []string
	for _, key := range i.Clusters() {
		cluster := known[key]
		if cluster == nil {
			continue
		}
		if first == nil {
			first = cluster
		}
		shard := apiutil.ShardTitle(cluster)
		if !slices.Contains(shards, shard) {
			shards = append(shards, shard)
		}
		names[shard] = append(names[shard], key.Name)
	}
	if len(shards) > 1 {
		var parts []string
		for _, shard := range shards {
			parts = append(parts, plural.Few(names[shard], maxNamedClusters)+" "+plural.Word(len(names[shard]), "is ", "are ")+
				shard)
		}
		i.block("Clusters", "%s, and a HelmOp has releases only in Clusters of its own shard; set the same label %s on the "+
			"Clusters, or write a HelmOp for each shard", strings.Join(parts, ", "), addonsv1.ShardLabel)
		return
	}
	if first == nil {
		return
	}
	if shard, ok := first.Labels[addonsv1.ShardLabel]; ok {
		i.setLabel(addonsv1.ShardLabel, shard)
	}
	if existing != nil && existing.Annotations[addonsv1.MigratedFromAnnotation] == i.Origin() &&
		apiutil.ShardTitle(existing) != shards[0] {
		i.block("Clusters", "they are %s, and HelmOp %s/%s of an earlier run is %s, so that HelmOp would not adopt their "+
			"releases; set the same label %s on both", shards[0], existing.Namespace, existing.Name,
			apiutil.ShardTitle(existing), addonsv1.ShardLabel)
	}
}

// setLabel sets a label of the HelmOp.
func (i *Item) setLabel(key, value string) {
	if i.HelmOp.Labels == nil {
		i.HelmOp.Labels = map[string]string{}
	}
	i.HelmOp.Labels[key] = value
}
