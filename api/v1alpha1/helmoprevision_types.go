// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOpRevisionSpec is the spec of a HelmOp at a time. It is immutable.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a HelmOp revision is immutable"
type HelmOpRevisionSpec struct {
	// number of the HelmOp revision, counted from 1.
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number"`

	// digest of everything that shapes a release and is the same for all Clusters: artifacts, values before rendering,
	// with the content of the objects in valuesFrom, options, overrides.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// artifact is the artifact that spec.source was resolved to; absent if no Cluster needed it or it could not be
	// resolved.
	// +optional
	Artifact *ResolvedArtifact `json:"artifact,omitempty"`

	// artifacts are the artifacts that the references in overrides and refsByKubernetesVersion were resolved to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=48
	Artifacts []ReferencedArtifact `json:"artifacts,omitempty"`

	// helmOp is the spec of the HelmOp at that time, without the fields that contentFrom names.
	// +required
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	HelmOp HelmOpSpec `json:"helmOp"`

	// contentFrom names the earlier HelmOp revisions that hold large fields of helmOp. A field that did not change
	// is not stored again.
	// +optional
	ContentFrom RevisionContent `json:"contentFrom,omitempty,omitzero"`
}

// RevisionContent names, for each large field of the spec of a HelmOp, the earlier HelmOp revision that has its
// content. A field without a number is stored in the HelmOp revision itself.
type RevisionContent struct {
	// values is the number of the HelmOp revision that holds helmOp.values.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Values int64 `json:"values,omitempty"`

	// valuesTemplate is the number of the HelmOp revision that holds helmOp.valuesTemplate.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ValuesTemplate int64 `json:"valuesTemplate,omitempty"`

	// postRender is the number of the HelmOp revision that holds helmOp.postRender.
	// +optional
	// +kubebuilder:validation:Minimum=1
	PostRender int64 `json:"postRender,omitempty"`

	// overrides is the number of the HelmOp revision that holds helmOp.overrides.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Overrides int64 `json:"overrides,omitempty"`
}

// ReferencedArtifact is the artifact that a reference in overrides or refsByKubernetesVersion was resolved to.
type ReferencedArtifact struct {
	ArtifactStatus `json:",inline"`

	// reference is the reference in the spec.
	// +required
	Reference ArtifactReference `json:"reference"`
}

// HelmOpRevisionStatus is the result of a HelmOp revision. It is not a subresource: clusterctl move does not keep
// subresources, and a moved rollout must neither restart nor lose its last known good revision.
type HelmOpRevisionStatus struct {
	// phase of its rollout.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// reason is why the rollout ended.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`

	// startedAt is when its rollout began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// endedAt is when its rollout ended.
	// +optional
	EndedAt metav1.Time `json:"endedAt,omitempty,omitzero"`

	// good is true if the rollout of the HelmOp revision was complete once: Clusters may return to it.
	// +optional
	Good bool `json:"good,omitempty"`

	// passedWave is the name of the last wave that the rollout completed. Later failures of its Clusters do not hold
	// later waves.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	PassedWave string `json:"passedWave,omitempty"`

	// acknowledgedFailures is the number of failures when a user continued the rollout. They no longer count.
	// +optional
	AcknowledgedFailures int32 `json:"acknowledgedFailures,omitempty"`

	// lastContinueRequest is the last handled value of the annotation addons.cluster.x-k8s.io/rollout-continue.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastContinueRequest string `json:"lastContinueRequest,omitempty"`

	// approval is what was last approved of the HelmOp revision, see spec.rollout.approval of the HelmOp.
	// +optional
	Approval *RevisionApproval `json:"approval,omitempty"`
}

// RevisionApproval is an approval of a HelmOp revision.
type RevisionApproval struct {
	// digest is the approved digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// approvedAt is when it was approved.
	// +optional
	ApprovedAt metav1.Time `json:"approvedAt,omitempty,omitzero"`

	// releases are short digests of the approved releases, each of a Cluster and the inputs of its release. They contain
	// no names and no values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=30000
	// +kubebuilder:validation:items:MaxLength=32
	Releases []string `json:"releases,omitempty"`
}

// HelmOpRevision is the spec of a HelmOp at a time, and the result of its rollout. Only the HelmOp creates and deletes
// it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helmoprevisions,shortName=hoprv,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="HelmOp",type=string,JSONPath=`.metadata.ownerReferences[0].name`,description="HelmOp of the HelmOp revision"
// +kubebuilder:printcolumn:name="HelmOp-Revision",type=integer,JSONPath=`.spec.number`,description="Number of the HelmOp revision"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Phase of its rollout"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.artifact.version`,description="Version of the chart"
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startedAt`,description="When its rollout began"
// +kubebuilder:printcolumn:name="Digest",type=string,priority=1,JSONPath=`.spec.artifact.digest`,description="Digest of the chart"
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.reason`,description="Why the rollout ended"
type HelmOpRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the recorded spec.
	// +required
	Spec HelmOpRevisionSpec `json:"spec"`

	// status is the result of the rollout.
	// +optional
	Status HelmOpRevisionStatus `json:"status,omitempty,omitzero"`
}

// HelmOpRevisionList is a list of HelmOpRevisions.
//
// +kubebuilder:object:root=true
type HelmOpRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items of the list.
	Items []HelmOpRevision `json:"items"`
}
