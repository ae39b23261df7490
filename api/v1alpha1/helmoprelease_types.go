// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOpReleaseSpec is the desired state of one release in one Cluster. Only
// HelmOp writes this spec. The spec contains only a digest of the values,
// because values may contain secrets. HelmOp renders the values again when it
// needs them.
type HelmOpReleaseSpec struct {
	// clusterRef names the Cluster of the release. This field cannot be changed.
	// +structType=atomic
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterRef cannot be changed"
	ClusterRef ClusterReference `json:"clusterRef"`

	// release is the name and namespace of the release in the workload cluster.
	// This field cannot be changed.
	// +structType=atomic
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="release cannot be changed: another name or namespace is another release"
	Release ReleaseIdentity `json:"release"`

	// artifact is the chart to install.
	// +structType=atomic
	// +required
	Artifact ResolvedArtifact `json:"artifact"`

	// valuesDigest is the digest of the rendered values.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest"`

	// postRenderDigest is the digest of the rendered postRender. Without
	// postRender, postRenderDigest is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PostRenderDigest string `json:"postRenderDigest,omitempty"`

	ReleaseOptions `json:",inline"`

	ClusterOptions `json:",inline"`

	// storage sets where HelmOp stores Helm's records of the release. This is a
	// copy of spec.storage of the HelmOp. The manager uses the copy when the
	// HelmOp no longer exists.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// rollout is the HelmOp revision of this release, and why the release has this
	// HelmOp revision.
	// +structType=atomic
	// +optional
	Rollout *ReleaseRollout `json:"rollout,omitempty"`

	// kubernetesVersion is the Kubernetes version for which HelmOp selected the
	// artifact. When a Kubernetes upgrade is requested, kubernetesVersion is the
	// new version. If the upgrade has several steps, one for each minor version,
	// kubernetesVersion is the version of the next step. If beforeClusterUpgrade
	// is not set, kubernetesVersion is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// deletionPolicy sets what HelmOp does with the release when this object is
	// deleted: Uninstall or Orphan.
	// +required
	DeletionPolicy DeletionPolicy `json:"deletionPolicy"`
}

// ReleaseIdentity is the name of a Helm release and its namespace in the
// workload cluster.
type ReleaseIdentity struct {
	// name of the release.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	Name string `json:"name"`

	// namespace of the release.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// HelmOpRelease is the release of a HelmOp in one Cluster. HelmOp creates,
// changes and deletes this object.
//
// +kubebuilder:metadata:labels="visualizer.cluster.x-k8s.io="
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helmopreleases,shortName=hopr,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`,description="Cluster of the release"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The release is in its desired state"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release.name`,description="Name of the Helm release"
// +kubebuilder:printcolumn:name="Helm-Revision",type=integer,JSONPath=`.status.release.revision`,description="Helm revision of the release"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.release.status`,description="Status of the Helm release"
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.status.release.chart`,description="Name of the chart"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.release.version`,description="Version of the chart"
// +kubebuilder:printcolumn:name="Deployed",type=date,JSONPath=`.status.release.lastDeployed`,description="Time since the last installation or upgrade"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong, and what to do"
// +kubebuilder:printcolumn:name="Cluster-Namespace",type=string,priority=1,JSONPath=`.spec.clusterRef.namespace`,description="Namespace of the Cluster, if it is not that of the HelmOpRelease"
// +kubebuilder:printcolumn:name="Namespace",type=string,priority=1,JSONPath=`.spec.release.namespace`,description="Namespace in the workload cluster"
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.state`,description="How the release compares with its desired state"
// +kubebuilder:printcolumn:name="Healthy",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`,description="The objects of the release are healthy"
// +kubebuilder:printcolumn:name="Drifted",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`,description="Objects differ from the release"
// +kubebuilder:printcolumn:name="Next-Try",type=string,priority=1,JSONPath=`.status.nextTryAt`,description="When a failed attempt is repeated"
// +kubebuilder:printcolumn:name="App",type=string,priority=1,JSONPath=`.status.release.appVersion`,description="Version of the application"
type HelmOpRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the release.
	// +required
	Spec HelmOpReleaseSpec `json:"spec"`

	// status is the observed state of the release.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status HelmOpReleaseStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the HelmOpRelease.
func (r *HelmOpRelease) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the HelmOpRelease.
func (r *HelmOpRelease) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// HelmOpReleaseList is a list of HelmOpReleases.
//
// +kubebuilder:object:root=true
type HelmOpReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items of the list.
	Items []HelmOpRelease `json:"items"`
}
