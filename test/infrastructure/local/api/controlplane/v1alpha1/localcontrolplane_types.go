// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of LocalControlPlane.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &LocalControlPlane{}, &LocalControlPlaneList{},
		&LocalControlPlaneTemplate{}, &LocalControlPlaneTemplateList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// AvailableCondition is True once the control plane is initialized. Otherwise, the message says what is missing.
const AvailableCondition = "Available"

// LocalControlPlaneSpec describes the processes of a control plane.
type LocalControlPlaneSpec struct {
	// version is the desired version of Kubernetes, such as v1.36.3. If the provider has the kube-apiserver of this
	// version, it runs, and a change restarts the API server with it. For any other version, only status.version follows.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// replicas is the number of API servers: always 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1
	Replicas *int32 `json:"replicas,omitempty"`

	// controllers runs the controllers of a cluster without nodes. Default: false.
	// +optional
	Controllers bool `json:"controllers,omitempty"`

	// kwokNodes is the number of simulated nodes. Default: 0. More imply controllers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	KwokNodes int32 `json:"kwokNodes,omitempty"`

	// host is the name of a Cluster in the same namespace whose API server this control plane uses, as a user with the
	// name of its own Cluster. Nothing else separates the two. Default: the control plane has its own API server.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// holdBack keeps the control plane from becoming initialized, although its API server runs and its kubeconfig exists.
	// Default: false.
	// +optional
	HoldBack bool `json:"holdBack,omitempty"`

	// holdUpgrade keeps status.version and the running program unchanged when version changes, as an upgrade that takes
	// long. Default: false.
	// +optional
	HoldUpgrade bool `json:"holdUpgrade,omitempty"`

	// controlPlaneEndpoint is set by the provider.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitzero"`
}

// APIEndpoint is the address of an API server.
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is an address without the port.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is a TCP port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// LocalControlPlaneInitialization is the contract's provisioning state.
// +kubebuilder:validation:MinProperties=1
type LocalControlPlaneInitialization struct {
	// controlPlaneInitialized is true once the API server answers and the control plane is not held back. It never becomes
	// false again.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// LocalControlPlaneStatus is the observed state of a LocalControlPlane.
// +kubebuilder:validation:MinProperties=1
type LocalControlPlaneStatus struct {
	// conditions has Available.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the contract's provisioning state.
	// +optional
	Initialization *LocalControlPlaneInitialization `json:"initialization,omitempty"`

	// externalManagedControlPlane is true: no Machine belongs to the control plane.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`

	// version is the reported version of Kubernetes: spec.version once the upgrade to it is done. programVersion is the
	// version of the program.
	// +optional
	Version string `json:"version,omitempty"`

	// programVersion is the version of the running kube-apiserver.
	// +optional
	ProgramVersion string `json:"programVersion,omitempty"`

	// selector is the selector of the scale subresource. No Machine has its label.
	// +optional
	Selector string `json:"selector,omitempty"`

	// replicas, readyReplicas, availableReplicas and upToDateReplicas are 1 once the
	// API server answers.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// readyReplicas: see replicas.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// availableReplicas: see replicas.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
	// upToDateReplicas: see replicas.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// observedGeneration is the generation from which the rest of the status was computed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// LocalControlPlane is a control plane of processes on this machine: one etcd and one kube-apiserver, on loopback.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=localcontrolplanes,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=`.status.initialization.controlPlaneInitialized`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Endpoint",type=integer,JSONPath=`.spec.controlPlaneEndpoint.port`
type LocalControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the processes.
	// +optional
	Spec LocalControlPlaneSpec `json:"spec,omitempty"`
	// status is the observed state.
	// +optional
	Status LocalControlPlaneStatus `json:"status,omitzero"`
}

// LocalControlPlaneList is a list of LocalControlPlanes.
// +kubebuilder:object:root=true
type LocalControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocalControlPlane `json:"items"`
}
