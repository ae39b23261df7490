// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LocalControlPlaneTemplateSpec holds the template.
type LocalControlPlaneTemplateSpec struct {
	// template is the template of the control planes of a ClusterClass.
	// +required
	Template LocalControlPlaneTemplateResource `json:"template"`
}

// LocalControlPlaneTemplateResource is the template of a LocalControlPlane.
type LocalControlPlaneTemplateResource struct {
	// metadata is added to each control plane.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of each control plane.
	// +optional
	Spec LocalControlPlaneTemplateResourceSpec `json:"spec,omitempty"`
}

// LocalControlPlaneTemplateResourceSpec is the part of the spec that all Clusters of a class have in common. The
// version, for example, is set by each Cluster.
type LocalControlPlaneTemplateResourceSpec struct {
	// controllers runs the controllers of a cluster without nodes. Default: false.
	// +optional
	Controllers bool `json:"controllers,omitempty"`

	// kwokNodes is the number of simulated nodes. Default: 0. More imply controllers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	KwokNodes int32 `json:"kwokNodes,omitempty"`
}

// LocalControlPlaneTemplate is the template of the control planes of a ClusterClass.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type LocalControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +required
	Spec LocalControlPlaneTemplateSpec `json:"spec"`
}

// LocalControlPlaneTemplateList is a list of LocalControlPlaneTemplates.
// +kubebuilder:object:root=true
type LocalControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocalControlPlaneTemplate `json:"items"`
}
