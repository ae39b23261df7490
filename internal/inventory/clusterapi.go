// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// IsClusterAPI reports whether an API group belongs to Cluster API, to one of its providers or to HelmOp.
func IsClusterAPI(group string) bool {
	return group == clusterv1.GroupVersion.Group || strings.HasSuffix(group, "."+clusterv1.GroupVersion.Group)
}

// MovesWithClusters reports whether an object has a reason for clusterctl move to move it: a label of clusterctl move,
// or an owner of Cluster API or of HelmOp. clusterctl move moves Secrets and ConfigMaps for such a reason.
func MovesWithClusters(obj metav1.Object) bool {
	for _, label := range []string{clusterctlv1.ClusterctlMoveLabel, clusterctlv1.ClusterctlMoveHierarchyLabel} {
		if _, ok := obj.GetLabels()[label]; ok {
			return true
		}
	}
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		return IsClusterAPI(group)
	})
}
