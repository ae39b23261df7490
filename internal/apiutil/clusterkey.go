// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// ClusterKey is the key of the Cluster of a release.
func ClusterKey(release *addonsv1.HelmOpRelease) client.ObjectKey {
	return clusterKeyOf(release.Namespace, release.Spec.ClusterRef)
}

// clusterKeyOf is the key of the Cluster to which an object of a namespace refers.
func clusterKeyOf(namespace string, ref addonsv1.ClusterReference) client.ObjectKey {
	if ref.Kind == addonsv1.ClusterKindManagementCluster {
		return clusterlink.Management
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	return client.ObjectKey{Namespace: namespace, Name: ref.Name}
}

// ClusterTitle names the Cluster of a release to people: by its namespace, too, where that is another one.
func ClusterTitle(release *addonsv1.HelmOpRelease) string {
	return TitleOf(release.Namespace, ClusterKey(release))
}
