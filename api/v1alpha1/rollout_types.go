// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout limits how many Clusters get a new HelmOp revision at the same time,
// and in which order. A new Cluster gets its release at once. If its wave has
// begun, the release has the new HelmOp revision. Otherwise the release has
// the last known good revision. An unreachable Cluster does not stop the
// rollout. The Cluster gets the new HelmOp revision when it is reachable
// again. A change of this field does not create a HelmOp revision.
type Rollout struct {
	// paused stops the rollout. While paused is true, no further Cluster gets the
	// new HelmOp revision. HelmOp also does not delete releases of Clusters that
	// are no longer selected. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxUnavailable is the number of Clusters that may update at the same time.
	// The value is a number, or a percentage of the selected Clusters, rounded
	// down and at least 1. Example: 5 or "10%". Default: all Clusters.
	//
	// The update of a Cluster begins when the Cluster gets the new HelmOp
	// revision. The update ends when the release has been healthy for
	// minReadySeconds. A failed Cluster counts for maxFailures, not for
	// maxUnavailable.
	//
	// maxUnavailable also limits how many releases HelmOp deletes at the same
	// time, when Clusters are no longer selected or the HelmOp is deleted.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%, for example 3 or 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is the soak time in seconds. A Cluster is done when its
	// release has been Ready with the new HelmOp revision for this time. A wave
	// can set another time. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// waves are groups of Clusters that HelmOp updates one after the other. A wave
	// begins when the previous wave is done. A Cluster belongs to the first wave
	// that selects it. Clusters without a wave are updated last. Default: no
	// waves.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Waves []Wave `json:"waves,omitempty"`

	// maxFailures is the number of failed Clusters at which the rollout stops, see
	// onFailure. The value is a number, or a percentage of the selected Clusters,
	// rounded down and at least 1. Example: 3 or "5%". Default: 1.
	//
	// A Cluster fails if HelmOp cannot render, install or upgrade its release, if
	// the release does not become healthy in time, or if the tests of the release
	// fail. A Cluster that had failed before the rollout does not count. A failure
	// that a retry corrected does not count. A Cluster does not fail while its
	// release only waits: for the registry of its artifact, or for another Helm
	// action.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%, for example 3 or 25%"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`

	// onFailure sets what HelmOp does when maxFailures is reached. Default: Pause.
	// - Pause: HelmOp stops the rollout and does not change any Cluster. The
	//   rollout continues when the spec changes or the annotation
	//   addons.cluster.x-k8s.io/rollout-continue is set.
	// - Rollback: HelmOp returns every Cluster with the new HelmOp revision to the
	//   last known good revision. The Clusters stay there until the spec changes.
	// +optional
	// +kubebuilder:default=Pause
	OnFailure RolloutFailureAction `json:"onFailure,omitempty"`

	// approval sets whether a user must approve a HelmOp revision before its
	// rollout. Default: None.
	// - None: no approval is needed. If you change approval to None, changes that
	//   wait for an approval continue.
	// - Required: no Cluster gets a new HelmOp revision until a user approves the
	//   digest in status.rollout.approval. To approve, use "kubectl helmop
	//   approve" or the annotation addons.cluster.x-k8s.io/rollout-approve.
	//
	// The digest covers the inputs of the release of every selected Cluster: the
	// chart, the rendered values and postRender, the options, the name and the
	// namespace. If the inputs of a release change later, only this release waits
	// for an approval of the new digest. A Cluster without a release gets the
	// approved HelmOp revision without another approval. A return to the last
	// known good revision, a retry, a correction of drift and a deletion need no
	// approval.
	// +optional
	Approval ApprovalPolicy `json:"approval,omitempty"`
}

// ApprovalPolicy sets whether a user must approve a HelmOp revision before its
// rollout. The zero value is the same as None.
// +kubebuilder:validation:Enum=None;Required
type ApprovalPolicy string

const (
	// ApprovalPolicyNone needs no approval.
	ApprovalPolicyNone ApprovalPolicy = "None"

	// ApprovalPolicyRequired waits for the approval of a user.
	ApprovalPolicyRequired ApprovalPolicy = "Required"
)

// RolloutFailureAction sets what HelmOp does when maxFailures is reached.
// +kubebuilder:validation:Enum=Pause;Rollback
type RolloutFailureAction string

const (
	// RolloutFailureActionPause stops the rollout and does not change any Cluster.
	RolloutFailureActionPause RolloutFailureAction = "Pause"

	// RolloutFailureActionRollback returns every Cluster with the new HelmOp revision to the last known good revision.
	RolloutFailureActionRollback RolloutFailureAction = "Rollback"
)

// Wave is a group of Clusters that HelmOp updates together.
type Wave struct {
	// name of the wave. Example: "canary".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must consist of lower case letters, digits and '-'"
	Name string `json:"name"`

	// clusterSelector selects the Clusters of the wave by their labels, among the
	// Clusters that the HelmOp selects. A selector has at most 256 labels,
	// expressions and values.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// maxUnavailable is an additional limit for this wave, see
	// rollout.maxUnavailable. The value is a number, or a percentage of the
	// Clusters of the wave, rounded down and at least 1. Default: only
	// rollout.maxUnavailable applies.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%, for example 3 or 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is the soak time of the Clusters of this wave, in seconds.
	// Default: rollout.minReadySeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// promotion sets how the next wave begins after this wave is done. Default:
	// Automatic.
	// - Automatic: the next wave begins at once.
	// - Manual: the next wave begins when a user sets the annotation
	//   addons.cluster.x-k8s.io/rollout-promote to <HelmOp revision>/<name of this
	//   wave>. Example: "7/canary".
	// +optional
	// +kubebuilder:default=Automatic
	Promotion WavePromotion `json:"promotion,omitempty"`
}

// WavePromotion sets how the next wave begins.
// +kubebuilder:validation:Enum=Automatic;Manual
type WavePromotion string

const (
	// WavePromotionAutomatic begins the next wave at once.
	WavePromotionAutomatic WavePromotion = "Automatic"

	// WavePromotionManual waits until a user sets an annotation.
	WavePromotionManual WavePromotion = "Manual"
)

// RolloutPhase is the phase of a rollout. The zero value is the same as
// Progressing.
// +kubebuilder:validation:Enum=Progressing;Complete;Paused;RolledBack;Aborted;Superseded
type RolloutPhase string

const (
	// RolloutPhaseProgressing means: HelmOp assigns the HelmOp revision to Clusters.
	RolloutPhaseProgressing RolloutPhase = "Progressing"

	// RolloutPhaseComplete means: all Clusters that can be updated are done. The HelmOp revision is the last known good
	// revision.
	RolloutPhaseComplete RolloutPhase = "Complete"

	// RolloutPhasePaused means: maxFailures is reached, and HelmOp does not change any Cluster.
	RolloutPhasePaused RolloutPhase = "Paused"

	// RolloutPhaseRolledBack means: maxFailures is reached, and the Clusters return to the last known good revision.
	RolloutPhaseRolledBack RolloutPhase = "RolledBack"

	// RolloutPhaseAborted means: a user aborted the rollout, and the Clusters return to the last known good revision.
	RolloutPhaseAborted RolloutPhase = "Aborted"

	// RolloutPhaseSuperseded means: a newer HelmOp revision replaced it before it was complete.
	RolloutPhaseSuperseded RolloutPhase = "Superseded"
)

// RolloutStatus is the progress of the rollout of a HelmOp revision. Its size
// does not depend on the number of Clusters.
type RolloutStatus struct {
	// revision is the number of the current HelmOp revision.
	Revision int64 `json:"revision"`

	// lastGoodRevision is the number of the last known good HelmOp revision: the
	// last HelmOp revision whose rollout was complete. If no rollout was complete,
	// lastGoodRevision is 0.
	// +optional
	LastGoodRevision int64 `json:"lastGoodRevision,omitempty"`

	// phase of the rollout:
	// - Progressing: HelmOp assigns the HelmOp revision to Clusters.
	// - Complete: all Clusters that can be updated are done.
	// - Paused: maxFailures is reached, and HelmOp does not change any Cluster.
	// - RolledBack: maxFailures is reached, and the Clusters return to the last
	//   known good revision.
	// - Aborted: a user aborted the rollout, and the Clusters return to the last
	//   known good revision.
	// - Superseded: a newer HelmOp revision replaced this HelmOp revision before
	//   its rollout was complete.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// wave is the name of the current wave. While HelmOp updates Clusters without
	// a wave, and when all Clusters are done, wave is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Wave string `json:"wave,omitempty"`

	// startedAt is the time when the rollout began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// updated is the number of selected Clusters that have the current HelmOp
	// revision.
	Updated int32 `json:"updated"`

	// done is the number of updated Clusters whose release has been Ready for its
	// soak time.
	Done int32 `json:"done"`

	// inFlight is the number of Clusters that HelmOp is updating now.
	InFlight int32 `json:"inFlight"`

	// failed is the number of failed Clusters that count for maxFailures.
	Failed int32 `json:"failed"`

	// waitingFor says what the rollout waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	WaitingFor string `json:"waitingFor,omitempty"`

	// nextMaintenance is the earliest time at which a Cluster that waits for
	// maintenance may change. If no Cluster waits, or the time is not known,
	// nextMaintenance is absent.
	// +optional
	NextMaintenance metav1.Time `json:"nextMaintenance,omitempty,omitzero"`

	// approval is the state of the approval. If spec.rollout.approval is not
	// Required, approval is absent.
	// +optional
	Approval *RolloutApproval `json:"approval,omitempty"`
}

// RolloutApproval is the state of the approval of a HelmOp revision. Its size
// does not depend on the number of Clusters.
type RolloutApproval struct {
	// revision is the number of the HelmOp revision that the digest belongs to.
	// This is the current HelmOp revision. After a rollback or abort, it is the
	// last known good HelmOp revision.
	Revision int64 `json:"revision"`

	// digest is the digest to approve. If nothing waits for an approval, digest is
	// the approved digest. The digest covers the inputs of the releases of all
	// selected Clusters. The progress of the rollout does not change the digest.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`

	// approved is true if no release waits for an approval.
	Approved bool `json:"approved"`

	// waiting is the number of Clusters whose release will change after a user
	// approves the digest.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`

	// approvedAt is the time of the last approval of the HelmOp revision.
	// +optional
	ApprovedAt metav1.Time `json:"approvedAt,omitempty,omitzero"`
}

// ReleaseRollout is the HelmOp revision of a release, and why the release has
// this HelmOp revision.
type ReleaseRollout struct {
	// revision is the number of the HelmOp revision.
	Revision int64 `json:"revision"`

	// reason says why the release has this HelmOp revision.
	// - Joined: the Cluster is new.
	// - Updated: the release had another HelmOp revision before, or HelmOp adopted
	//   the release from another owner. Or the Cluster itself changed after the
	//   release had reached the HelmOp revision of Returned or Pinned.
	// - Returned: the rollout of a newer HelmOp revision was rolled back or
	//   aborted.
	// - Pinned: a user pinned the release to this HelmOp revision.
	// A return or a pin that has not taken effect yet keeps its reason under
	// another HelmOp revision with the same content.
	// +required
	Reason ReleaseRolloutReason `json:"reason"`

	// at is the time when a HelmOp revision last changed the desired state of the
	// release. The soak time begins at this time or later.
	// +optional
	At metav1.Time `json:"at,omitempty,omitzero"`

	// failedBefore is true if the release had failed before the rollout. The
	// failure of this release does not count for maxFailures.
	// +optional
	FailedBefore bool `json:"failedBefore,omitempty"`

	// previous is the desired state of the release in the last known good
	// revision.
	// +optional
	Previous *PreviousRevision `json:"previous,omitempty"`
}

// ReleaseRolloutReason says why a release has its HelmOp revision.
// +kubebuilder:validation:Enum=Joined;Updated;Returned;Pinned
type ReleaseRolloutReason string

const (
	// ReleaseRolloutJoined means: the Cluster is new.
	ReleaseRolloutJoined ReleaseRolloutReason = "Joined"

	// ReleaseRolloutUpdated means: the release had another HelmOp revision, or the Cluster itself changed after the
	// release had reached the HelmOp revision of a return or a pin.
	ReleaseRolloutUpdated ReleaseRolloutReason = "Updated"

	// ReleaseRolloutReturned means: the rollout of a newer HelmOp revision was rolled back or aborted.
	ReleaseRolloutReturned ReleaseRolloutReason = "Returned"

	// ReleaseRolloutPinned means: the annotation addons.cluster.x-k8s.io/pinned-revision pins the release to the HelmOp
	// revision.
	ReleaseRolloutPinned ReleaseRolloutReason = "Pinned"
)

// PreviousRevision is the desired state of a release in the last known good
// HelmOp revision: the inputs that were rendered for this Cluster. The
// HelmOpRevision contains the inputs that are the same for all Clusters.
type PreviousRevision struct {
	// revision is the number of the HelmOp revision.
	Revision int64 `json:"revision"`

	// artifact is the chart of the release in this HelmOp revision.
	// +required
	Artifact ResolvedArtifact `json:"artifact"`

	// valuesDigest is the digest of the rendered values.
	// +required
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest"`

	// postRenderDigest is the digest of the rendered postRender. If there was no
	// postRender, postRenderDigest is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PostRenderDigest string `json:"postRenderDigest,omitempty"`
}
