/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
