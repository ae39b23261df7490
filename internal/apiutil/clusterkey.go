// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// ClusterKey returns the key of the Cluster of a release.
func ClusterKey(release *addonsv1.HelmOpRelease) client.ObjectKey {
	return clusterKeyOf(release.Namespace, release.Spec.ClusterRef)
}

// clusterKeyOf returns the key of the Cluster to which an object in a namespace refers.
func clusterKeyOf(namespace string, ref addonsv1.ClusterReference) client.ObjectKey {
	if ref.Kind == addonsv1.ClusterKindManagementCluster {
		return clusterlink.Management
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	return client.ObjectKey{Namespace: namespace, Name: ref.Name}
}

// ClusterTitle returns the name of a release's Cluster for messages, see [TitleOf].
func ClusterTitle(release *addonsv1.HelmOpRelease) string {
	return TitleOf(release.Namespace, ClusterKey(release))
}
