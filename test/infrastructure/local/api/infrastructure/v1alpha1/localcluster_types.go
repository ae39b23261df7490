// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of LocalCluster.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &LocalCluster{}, &LocalClusterList{}, &LocalClusterTemplate{},
		&LocalClusterTemplateList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// ReadyCondition is True once the LocalCluster is provisioned.
const ReadyCondition = "Ready"

// LocalClusterSpec holds values for templates to read. They do not change what runs.
type LocalClusterSpec struct {
	// region is any text. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`

	// settings are any texts by name. Default: none.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}

// LocalClusterInitialization is the contract's provisioning state.
// +kubebuilder:validation:MinProperties=1
type LocalClusterInitialization struct {
	// provisioned is true once the infrastructure is provisioned.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// LocalClusterStatus is the observed state of a LocalCluster.
// +kubebuilder:validation:MinProperties=1
type LocalClusterStatus struct {
	// conditions has Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the contract's provisioning state.
	// +optional
	Initialization *LocalClusterInitialization `json:"initialization,omitempty"`

	// observedGeneration is the generation from which the rest of the status was computed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// LocalCluster is the infrastructure of a Cluster that consists of processes on this machine. It needs no
// infrastructure of its own.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=localclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`
type LocalCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds values for templates to read.
	// +optional
	Spec LocalClusterSpec `json:"spec,omitempty"`
	// status is the observed state.
	// +optional
	Status LocalClusterStatus `json:"status,omitzero"`
}

// LocalClusterList is a list of LocalClusters.
// +kubebuilder:object:root=true
type LocalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocalCluster `json:"items"`
}
