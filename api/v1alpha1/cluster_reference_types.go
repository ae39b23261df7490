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

package v1alpha1

// ClusterKind tells what a ClusterReference names.
// +kubebuilder:validation:Enum=Cluster;ManagementCluster
type ClusterKind string

const (
	// ClusterKindCluster is a Cluster of Cluster API.
	ClusterKindCluster ClusterKind = "Cluster"

	// ClusterKindManagementCluster is the cluster that the object itself is in.
	ClusterKindManagementCluster ClusterKind = "ManagementCluster"
)

// ClusterReference names a Cluster, or the management cluster.
type ClusterReference struct {
	// kind tells what is named. Default: Cluster.
	// +optional
	Kind ClusterKind `json:"kind,omitempty"`

	// namespace of the Cluster. Default: that of this object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the Cluster; "management-cluster" for the management cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
