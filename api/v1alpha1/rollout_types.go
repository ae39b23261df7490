// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout is how a new HelmOp revision is assigned to the Clusters. New Clusters are installed at once: with the new
// HelmOp revision if their wave has begun, and with the last known good revision if not. Unreachable Clusters do not
// hold the rollout; they are updated when they are reachable again. A change of this field does not create a HelmOp
// revision.
type Rollout struct {
	// paused stops the rollout where it is: no further Cluster is assigned the new HelmOp revision, and no release is
	// deleted because its Cluster is no longer selected. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxUnavailable is how many Clusters may be updating to the new HelmOp revision at the same time: a number, or a
	// percentage of the selected Clusters, rounded down and at least 1. A Cluster is updating from when the HelmOp
	// revision is assigned until its release has been healthy for minReadySeconds. Failed Clusters count for maxFailures
	// instead. The same limit applies to releases that are deleted because their Clusters are no longer selected or
	// because the HelmOp is deleted. Default: all.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long, in seconds, a release must be Ready with the new HelmOp revision before its Cluster
	// counts as done (soak time). A wave can override it. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// waves are updated one after the other; a wave begins when the previous wave is done. A Cluster belongs to the
	// first wave whose selector selects it. Clusters without a wave are last.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Waves []Wave `json:"waves,omitempty"`

	// maxFailures is the number of failures at which the rollout stops, see onFailure: a number, or a percentage of the
	// selected Clusters, rounded down and at least 1. A Cluster fails if its release fails, does not become healthy in
	// time, fails its tests or cannot be rendered. Clusters that had failed before the rollout do not count, and
	// neither do failures that a retry corrected. Default: 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`

	// onFailure is what happens when maxFailures is reached. Pause keeps all Clusters as they are until the spec
	// changes or the annotation addons.cluster.x-k8s.io/rollout-continue continues the rollout. Rollback returns every
	// Cluster with the new HelmOp revision to the last known good revision until the spec changes. Default: Pause.
	// +optional
	// +kubebuilder:default=Pause
	OnFailure RolloutFailureAction `json:"onFailure,omitempty"`

	// approval is whether a HelmOp revision must be approved before it is rolled out. With Required, no Cluster is
	// assigned a new HelmOp revision until a user approves the digest in status.rollout.approval, with
	// kubectl helmop approve or with the annotation addons.cluster.x-k8s.io/rollout-approve. The digest covers the inputs
	// of the release of every selected Cluster: the chart, the rendered values and postRender, the options, the name and
	// the namespace. A release whose inputs change later waits for an approval of the new digest; the other releases do
	// not. A Cluster without a release gets the approved HelmOp revision without another approval. A return to the last
	// known good revision, a retry, the correction of drift and a deletion need no approval. None releases what waits.
	// Default: None.
	// +optional
	Approval ApprovalPolicy `json:"approval,omitempty"`
}

// ApprovalPolicy is whether a HelmOp revision must be approved before it is rolled out. The zero value is the same as
// None.
// +kubebuilder:validation:Enum=None;Required
type ApprovalPolicy string

const (
	// ApprovalPolicyNone needs no approval.
	ApprovalPolicyNone ApprovalPolicy = "None"

	// ApprovalPolicyRequired waits for an approval.
	ApprovalPolicyRequired ApprovalPolicy = "Required"
)

// RolloutFailureAction is what happens when the failure budget of a rollout is spent.
// +kubebuilder:validation:Enum=Pause;Rollback
type RolloutFailureAction string

const (
	// RolloutFailureActionPause keeps all Clusters as they are.
	RolloutFailureActionPause RolloutFailureAction = "Pause"

	// RolloutFailureActionRollback returns every Cluster with the new HelmOp revision to the last known good revision.
	RolloutFailureActionRollback RolloutFailureAction = "Rollback"
)

// Wave is a group of Clusters that is updated before others.
type Wave struct {
	// name of the wave.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must consist of lower case letters, digits and '-'"
	Name string `json:"name"`

	// clusterSelector selects the Clusters of the wave among the Clusters that the HelmOp selects.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// maxUnavailable is a lower limit for this wave, in addition to that of the rollout; a percentage is of the wave's
	// Clusters.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is the soak time of the wave's Clusters, in seconds. Default: the minReadySeconds of the rollout.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// promotion is what the next wave needs to begin when this wave is done. Automatic needs nothing. Manual needs the
	// annotation addons.cluster.x-k8s.io/rollout-promote with the number of the HelmOp revision and the name of this
	// wave, for example "7/canary". Default: Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Promotion WavePromotion `json:"promotion,omitempty"`
}

// WavePromotion is what the next wave needs to begin.
// +kubebuilder:validation:Enum=Automatic;Manual
type WavePromotion string

const (
	// WavePromotionAutomatic begins the next wave without a request.
	WavePromotionAutomatic WavePromotion = "Automatic"

	// WavePromotionManual waits for an annotation.
	WavePromotionManual WavePromotion = "Manual"
)

// RolloutPhase is the phase of a rollout. The zero value is the same as Progressing.
// +kubebuilder:validation:Enum=Progressing;Complete;Paused;RolledBack;Aborted;Superseded
type RolloutPhase string

const (
	// RolloutPhaseProgressing means: the HelmOp revision is being assigned to Clusters.
	RolloutPhaseProgressing RolloutPhase = "Progressing"

	// RolloutPhaseComplete means: all Clusters that can be updated are done. The HelmOp revision is the last known good
	// revision.
	RolloutPhaseComplete RolloutPhase = "Complete"

	// RolloutPhasePaused means: the failure budget is spent, and all Clusters stay as they are.
	RolloutPhasePaused RolloutPhase = "Paused"

	// RolloutPhaseRolledBack means: the failure budget is spent, and the Clusters return to the last known good revision.
	RolloutPhaseRolledBack RolloutPhase = "RolledBack"

	// RolloutPhaseAborted means: a user aborted the rollout, and the Clusters return to the last known good revision.
	RolloutPhaseAborted RolloutPhase = "Aborted"

	// RolloutPhaseSuperseded means: a newer HelmOp revision replaced it before it was complete.
	RolloutPhaseSuperseded RolloutPhase = "Superseded"
)

// RolloutStatus is the progress of a HelmOp revision. Its size does not depend on the number of Clusters.
type RolloutStatus struct {
	// revision is the number of the current HelmOp revision, see the HelmOpRevisions of the HelmOp.
	Revision int64 `json:"revision"`

	// lastGoodRevision is the number of the last known good HelmOp revision: the last one whose rollout was complete. 0
	// is none.
	// +optional
	LastGoodRevision int64 `json:"lastGoodRevision,omitempty"`

	// phase of the rollout.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// wave is the name of the current wave; empty while Clusters without a wave are updated, and when all are done.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Wave string `json:"wave,omitempty"`

	// startedAt is when the rollout began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// updated is the number of selected Clusters to which the HelmOp revision is assigned.
	Updated int32 `json:"updated"`

	// done is the number of updated Clusters that have been healthy for their soak time.
	Done int32 `json:"done"`

	// inFlight is the number of Clusters that are updating.
	InFlight int32 `json:"inFlight"`

	// failed is the number of failures that count for maxFailures.
	Failed int32 `json:"failed"`

	// waitingFor is what the rollout waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	WaitingFor string `json:"waitingFor,omitempty"`

	// nextMaintenance is when the next Cluster whose change waits for maintenance may be changed. It is absent if no
	// Cluster waits, and if the time is not known.
	// +optional
	NextMaintenance metav1.Time `json:"nextMaintenance,omitempty,omitzero"`

	// approval is what is approved, and what waits for an approval. It is absent unless spec.rollout.approval is
	// Required.
	// +optional
	Approval *RolloutApproval `json:"approval,omitempty"`
}

// RolloutApproval is what of a HelmOp revision is approved. Its size does not depend on the number of Clusters.
type RolloutApproval struct {
	// revision is the number of the HelmOp revision that the digest is of: the current one or, after a rollback or an
	// abort, the last known good one.
	Revision int64 `json:"revision"`

	// digest of the inputs of the releases of all selected Clusters: the digest to approve, or the approved one if nothing
	// waits. The progress of the rollout does not change it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`

	// approved is true if nothing waits for an approval.
	Approved bool `json:"approved"`

	// waiting is the number of Clusters in which the approval of the digest changes the release.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`

	// approvedAt is when the HelmOp revision was last approved.
	// +optional
	ApprovedAt metav1.Time `json:"approvedAt,omitempty,omitzero"`
}

// ReleaseRollout is the HelmOp revision of a release.
type ReleaseRollout struct {
	// revision is the number of the HelmOp revision.
	Revision int64 `json:"revision"`

	// reason is how the release got the HelmOp revision: Joined with a new Cluster, Updated from another HelmOp revision
	// or adopted from another owner, Returned to it after a rollback or an abort, or Pinned to it by a user.
	// +required
	Reason ReleaseRolloutReason `json:"reason"`

	// at is when a HelmOp revision last changed the desired state of the release. Soak times begin then at the
	// earliest.
	// +optional
	At metav1.Time `json:"at,omitempty,omitzero"`

	// failedBefore is true if the release had failed before the rollout. Its failure then does not count against the
	// revision.
	// +optional
	FailedBefore bool `json:"failedBefore,omitempty"`

	// previous is the desired state of the release in the last known good revision.
	// +optional
	Previous *PreviousRevision `json:"previous,omitempty"`
}

// ReleaseRolloutReason is how a release got a HelmOp revision.
// +kubebuilder:validation:Enum=Joined;Updated;Returned;Pinned
type ReleaseRolloutReason string

const (
	// ReleaseRolloutJoined means: the Cluster is new.
	ReleaseRolloutJoined ReleaseRolloutReason = "Joined"

	// ReleaseRolloutUpdated means: the release had another HelmOp revision.
	ReleaseRolloutUpdated ReleaseRolloutReason = "Updated"

	// ReleaseRolloutReturned means: the rollout of a newer HelmOp revision was rolled back or aborted.
	ReleaseRolloutReturned ReleaseRolloutReason = "Returned"

	// ReleaseRolloutPinned means: the annotation addons.cluster.x-k8s.io/pinned-revision has the HelmOp revision.
	ReleaseRolloutPinned ReleaseRolloutReason = "Pinned"
)

// PreviousRevision is the desired state of a release in another HelmOp revision. With the HelmOpRevision it is
// complete.
type PreviousRevision struct {
	// revision is the number of the HelmOp revision.
	Revision int64 `json:"revision"`

	// artifact is the chart.
	// +required
	Artifact ResolvedArtifact `json:"artifact"`

	// valuesDigest is the digest of the rendered values.
	// +required
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest"`

	// postRenderDigest is the digest of the rendered postRender; empty if there was none.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PostRenderDigest string `json:"postRenderDigest,omitempty"`
}
