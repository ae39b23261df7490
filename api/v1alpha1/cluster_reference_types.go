// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ClusterKind is the kind of cluster that a ClusterReference names.
// +kubebuilder:validation:Enum=Cluster;ManagementCluster
type ClusterKind string

const (
	// ClusterKindCluster is a Cluster of Cluster API.
	ClusterKindCluster ClusterKind = "Cluster"

	// ClusterKindManagementCluster is the cluster that contains the object itself.
	ClusterKindManagementCluster ClusterKind = "ManagementCluster"
)

// ClusterReference names a Cluster, or the management cluster.
type ClusterReference struct {
	// kind is Cluster or ManagementCluster. Default: Cluster.
	// +optional
	Kind ClusterKind `json:"kind,omitempty"`

	// namespace of the Cluster. Default: the namespace of the object that contains
	// this reference.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the Cluster. For the management cluster, name is
	// "management-cluster".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
