// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermove

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// MovedObjects returns the objects of a release that clusterctl move has moved to another management cluster, in a
// fixed order: Clusters first.
func MovedObjects(snapshot *objectwatch.Snapshot) []inventory.Ref {
	if snapshot == nil {
		return nil
	}
	var moved []inventory.Ref
	for ref, state := range snapshot.Objects {
		if state.Moved {
			moved = append(moved, ref)
		}
	}
	inventory.Sort(moved)
	// The other objects are mostly parts of a Cluster, so a message names Clusters first.
	slices.SortStableFunc(moved, func(a, b inventory.Ref) int { return cmp.Compare(clusterRank(a), clusterRank(b)) })
	return moved
}

// clusterRank returns a sort key, which is lower for Clusters than for other objects.
func clusterRank(ref inventory.Ref) int {
	if ref.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
		return 0
	}
	return 1
}
