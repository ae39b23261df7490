// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// defaultShardLease is the lease of the managers that serve what has no shard.
const defaultShardLease = "controller-leader-election-helmop"

// ShardLease is the name of the lease by which the managers of a shard, which must be a DNS label or empty, elect their
// leader, and which tells the manager without a shard that they live.
func ShardLease(shard string) string {
	if shard == "" {
		return defaultShardLease
	}
	return defaultShardLease + "-" + shard
}

// ShardSelector chooses the objects of a shard. The empty one has the objects without the label.
func ShardSelector(shard string) labels.Selector {
	if shard == "" {
		return shardRequirement(selection.DoesNotExist)
	}
	return shardRequirement(selection.Equals, shard)
}

// OtherShards chooses what ShardSelector does not.
func OtherShards(shard string) labels.Selector {
	if shard == "" {
		return shardRequirement(selection.Exists)
	}
	return shardRequirement(selection.NotEquals, shard)
}

func shardRequirement(operator selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(addonsv1.ShardLabel, operator, values)
	if err != nil {
		// What no label can be chooses nothing.
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

// IsOfShard tells whether an object is of a shard. One that was read from the cache always is of the manager's own.
func IsOfShard(obj metav1.Object, shard string) bool {
	value, ok := obj.GetLabels()[addonsv1.ShardLabel]
	return value == shard && ok == (shard != "")
}

// ShardTitle names the shard of an object to people.
func ShardTitle(obj metav1.Object) string {
	value, ok := obj.GetLabels()[addonsv1.ShardLabel]
	if !ok {
		return "in no shard"
	}
	return fmt.Sprintf("in shard %q", value)
}

// OtherShardMessage says that a release is not reconciled because its Cluster and its HelmOp are in different shards,
// and what to do.
func OtherShardMessage(cluster, helmOp metav1.Object) string {
	return fmt.Sprintf("Cluster %q is %s and its HelmOp is %s; the release is not reconciled until both have the same "+
		"label %s; "+
		"to delete it without the Cluster, set deletionPolicy: Orphan", cluster.GetName(), ShardTitle(cluster),
		ShardTitle(helmOp), addonsv1.ShardLabel)
}
