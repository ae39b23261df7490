// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// shardLabels returns the labels of an object of a shard; nil for no shard.
func shardLabels(shard string) map[string]string {
	if shard == "" {
		return nil
	}
	return map[string]string{addonsv1.ShardLabel: shard}
}

func TestSetShard(t *testing.T) {
	const origin = "HelmRelease/fleet/one-calico"
	earlier := func(origin, shard string) *addonsv1.HelmOp {
		helmOp := newHelmOp("fleet", "calico", origin)
		helmOp.Labels = shardLabels(shard)
		return helmOp
	}
	for name, test := range map[string]struct {
		// shards are the shards of the Clusters "one" and "two"; empty for no shard.
		shards   [2]string
		existing *addonsv1.HelmOp
		labels   map[string]string
		gaps     []string
	}{
		"no shard": {},
		"a shard":  {shards: [2]string{"b", "b"}, labels: shardLabels("b")},
		"two shards": {shards: [2]string{"", "b"}, gaps: []string{`!Clusters: one is in no shard, two is in shard "b", and ` +
			"a HelmOp has releases only in Clusters of its own shard; set the same label addons.cluster.x-k8s.io/shard on the " +
			"Clusters, or write a HelmOp for each shard"}},
		"an earlier run with the shard": {shards: [2]string{"b", "b"}, existing: earlier(origin, "b"),
			labels: shardLabels("b")},
		"an earlier run without the shard": {shards: [2]string{"b", "b"}, existing: earlier(origin, ""),
			labels: shardLabels("b"), gaps: []string{`!Clusters: they are in shard "b", and HelmOp fleet/calico of an earlier ` +
				"run is in no shard, so that HelmOp would not adopt their releases; set the same label " +
				"addons.cluster.x-k8s.io/shard on both"}},
		"an earlier run with another shard": {existing: earlier(origin, "b"), gaps: []string{
			`!Clusters: they are in no shard, and HelmOp fleet/calico of an earlier run is in shard "b", so that HelmOp would ` +
				"not adopt their releases; set the same label addons.cluster.x-k8s.io/shard on both"}},
		"another HelmOp": {existing: earlier("HelmRelease/fleet/other", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			item := &Item{HelmOp: newHelmOp("fleet", "calico", origin)}
			var clusters []*metav1.PartialObjectMetadata
			for n, cluster := range []string{"one", "two", "gone"} {
				item.Releases = append(item.Releases, Release{Cluster: types.NamespacedName{Namespace: "fleet", Name: cluster}})
				if cluster != "gone" {
					clusters = append(clusters, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet",
						Name: cluster, Labels: shardLabels(test.shards[n])}})
				}
			}
			item.SetShard(clusters, test.existing)
			if diff := cmp.Diff(test.labels, item.HelmOp.Labels); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.gaps, gaps(item)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
