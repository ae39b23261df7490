// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LocalClusterTemplateSpec holds the template.
type LocalClusterTemplateSpec struct {
	// template is the template of the infrastructure of the Clusters of a ClusterClass.
	// +required
	Template LocalClusterTemplateResource `json:"template"`
}

// LocalClusterTemplateResource is the template of a LocalCluster.
type LocalClusterTemplateResource struct {
	// metadata is added to each LocalCluster.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of each LocalCluster.
	// +optional
	Spec LocalClusterSpec `json:"spec,omitempty"`
}

// LocalClusterTemplate is the template of the infrastructure of the Clusters of a ClusterClass.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type LocalClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +required
	Spec LocalClusterTemplateSpec `json:"spec"`
}

// LocalClusterTemplateList is a list of LocalClusterTemplates.
// +kubebuilder:object:root=true
type LocalClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocalClusterTemplate `json:"items"`
}
