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

// defaultShardLease is the lease of the managers that serve the objects without a shard label.
const defaultShardLease = "controller-leader-election-helmop"

// ShardLease returns the name of the lease with which the managers of a shard elect their leader. The shard must be a
// DNS label or empty. The lease shows the manager without a shard that another manager serves the shard.
func ShardLease(shard string) string {
	if shard == "" {
		return defaultShardLease
	}
	return defaultShardLease + "-" + shard
}

// ShardSelector returns a selector of the objects of a shard. For an empty shard, it selects the objects without the
// shard label.
func ShardSelector(shard string) labels.Selector {
	if shard == "" {
		return shardRequirement(selection.DoesNotExist)
	}
	return shardRequirement(selection.Equals, shard)
}

// OtherShards returns a selector of the objects that ShardSelector does not select.
func OtherShards(shard string) labels.Selector {
	if shard == "" {
		return shardRequirement(selection.Exists)
	}
	return shardRequirement(selection.NotEquals, shard)
}

func shardRequirement(operator selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(addonsv1.ShardLabel, operator, values)
	if err != nil {
		// The shard is not a valid label value, so no object can have it.
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

// IsOfShard reports whether an object belongs to a shard. The cache of a manager has only objects of the manager's own
// shard.
func IsOfShard(obj metav1.Object, shard string) bool {
	value, ok := obj.GetLabels()[addonsv1.ShardLabel]
	return value == shard && ok == (shard != "")
}

// ShardTitle returns the shard of an object for messages: 'in shard "a"' or 'in no shard'.
func ShardTitle(obj metav1.Object) string {
	value, ok := obj.GetLabels()[addonsv1.ShardLabel]
	if !ok {
		return "in no shard"
	}
	return fmt.Sprintf("in shard %q", value)
}

// OtherShardMessage returns the message for a release that is not reconciled because its Cluster and its HelmOp are in
// different shards. helmOp may be any object with the shard label of the HelmOp.
func OtherShardMessage(cluster, helmOp metav1.Object) string {
	return fmt.Sprintf("The release is not reconciled: Cluster %q is %s and its HelmOp is %s; set the same label %s on "+
		"both, or set deletionPolicy: Orphan to delete the HelmOpRelease without an uninstallation", cluster.GetName(),
		ShardTitle(cluster), ShardTitle(helmOp), addonsv1.ShardLabel)
}
