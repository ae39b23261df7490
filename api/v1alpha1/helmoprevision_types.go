// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOpRevisionSpec is the spec of a HelmOp at one time. It cannot be
// changed.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a HelmOpRevision cannot be changed: change the HelmOp instead"
type HelmOpRevisionSpec struct {
	// number of the HelmOp revision. The first HelmOp revision is 1.
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number"`

	// digest is the digest of all inputs that are the same for all Clusters:
	// artifacts, values before rendering, contents of the objects in valuesFrom,
	// options and overrides.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// artifact is the artifact that HelmOp found for spec.source of the HelmOp. If
	// no Cluster used spec.source.ref, or the lookup failed, artifact is absent.
	// +optional
	Artifact *ResolvedArtifact `json:"artifact,omitempty"`

	// artifacts are the artifacts that HelmOp found for the references in
	// overrides and refsByKubernetesVersion.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=48
	Artifacts []ReferencedArtifact `json:"artifacts,omitempty"`

	// helmOp is the spec that the HelmOp had when HelmOp created this HelmOp
	// revision. helmOp does not have the fields that contentFrom lists, and the
	// fields that always come from the present HelmOp, for example
	// clusterSelector and rollout.
	// +required
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	HelmOp HelmOpSpec `json:"helmOp"`

	// contentFrom lists the large fields that helmOp does not have, because an
	// earlier HelmOp revision has the same fields. For each field, contentFrom has
	// the number of the earlier HelmOp revision that contains the field.
	// +optional
	ContentFrom RevisionContent `json:"contentFrom,omitempty,omitzero"`
}

// RevisionContent has, for each large field of the spec of a HelmOp, the
// number of the earlier HelmOp revision that contains the field. If a number
// is absent, this HelmOp revision contains the field.
type RevisionContent struct {
	// values is the number of the HelmOp revision that contains helmOp.values.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Values int64 `json:"values,omitempty"`

	// valuesTemplate is the number of the HelmOp revision that contains
	// helmOp.valuesTemplate.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ValuesTemplate int64 `json:"valuesTemplate,omitempty"`

	// postRender is the number of the HelmOp revision that contains
	// helmOp.postRender.
	// +optional
	// +kubebuilder:validation:Minimum=1
	PostRender int64 `json:"postRender,omitempty"`

	// overrides is the number of the HelmOp revision that contains
	// helmOp.overrides.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Overrides int64 `json:"overrides,omitempty"`
}

// ReferencedArtifact is the artifact that HelmOp found for a reference in
// overrides or refsByKubernetesVersion.
type ReferencedArtifact struct {
	ArtifactStatus `json:",inline"`

	// reference is the reference in overrides or refsByKubernetesVersion.
	// +required
	Reference ArtifactReference `json:"reference"`
}

// HelmOpRevisionStatus is the result of a HelmOp revision. It is not a
// subresource: clusterctl move does not keep subresources, and a moved rollout
// must neither restart nor lose its last known good revision.
type HelmOpRevisionStatus struct {
	// phase of the rollout of the HelmOp revision, see status.rollout.phase of
	// HelmOp.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// reason is the cause of the end of the rollout.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`

	// startedAt is the time when the rollout began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// endedAt is the time when the rollout ended.
	// +optional
	EndedAt metav1.Time `json:"endedAt,omitempty,omitzero"`

	// good is true if the rollout of the HelmOp revision was complete once. A
	// rollback can return Clusters to a good HelmOp revision.
	// +optional
	Good bool `json:"good,omitempty"`

	// passedWave is the name of the last wave that is done. If Clusters of this
	// wave fail after that, the next waves continue.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	PassedWave string `json:"passedWave,omitempty"`

	// acknowledgedFailures is the number of failed Clusters when a user continued
	// the rollout. These failures no longer count for maxFailures.
	// +optional
	AcknowledgedFailures int32 `json:"acknowledgedFailures,omitempty"`

	// lastContinueRequest is the value of the annotation
	// addons.cluster.x-k8s.io/rollout-continue when HelmOp last continued the
	// rollout because of this annotation.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastContinueRequest string `json:"lastContinueRequest,omitempty"`

	// approval is the last approval of the HelmOp revision, see
	// spec.rollout.approval of HelmOp.
	// +optional
	Approval *RevisionApproval `json:"approval,omitempty"`
}

// RevisionApproval is an approval of a HelmOp revision.
type RevisionApproval struct {
	// digest is the approved digest. It covers the inputs of the releases of all
	// selected Clusters at the time of the approval.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`

	// approvedAt is the time of the approval.
	// +optional
	ApprovedAt metav1.Time `json:"approvedAt,omitempty,omitzero"`

	// releases has a short digest for each approved release. The digest covers the
	// Cluster and the inputs of the release. The list contains no names and no
	// values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=30000
	// +kubebuilder:validation:items:MaxLength=32
	Releases []string `json:"releases,omitempty"`
}

// HelmOpRevision is the spec of a HelmOp at one time, and the result of the
// rollout of this spec. Only HelmOp creates and deletes HelmOpRevisions.
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

	// spec is the spec of the HelmOp at the time of this HelmOp revision.
	// +required
	Spec HelmOpRevisionSpec `json:"spec"`

	// status is the result of the rollout of this HelmOp revision.
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
