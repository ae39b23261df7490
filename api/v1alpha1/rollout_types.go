// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout tells how a new revision of a HelmOp spreads over the Clusters. Clusters that are new are served at once, with the
// new revision if the turn of their wave has come and with the last good one if not; Clusters that do not answer hold nobody
// up and catch up when they are back. A change of this very field makes no new revision.
type Rollout struct {
	// paused stops the rollout where it is: no further Cluster is assigned the new revision, and no release is deleted because its
	// Cluster is no longer selected. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxUnavailable is how many Clusters, a number or a percentage of the selected ones rounded down and at least 1, may be on
	// their way to the new revision at the same time: told of it and not yet healthy for minReadySeconds. Those that failed
	// are counted by maxFailures instead. As many releases may be deleted at the same time, because their Clusters are no longer selected
	// or because the HelmOp is deleted. Default: all.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long, in seconds, the release of a Cluster must be Ready with the new revision before it counts as
	// done: its soak time. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// waves are served one after the other; a wave begins when the one before it is done. A Cluster belongs to the first
	// wave whose selector chooses it. Clusters in no wave come last.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Waves []Wave `json:"waves,omitempty"`

	// maxFailures is the number, or the percentage of the selected Clusters, rounded down and at least 1, of failures at which
	// the rollout ends, see onFailure. A Cluster fails if its release does, does not become healthy in time, fails its tests
	// or cannot be rendered. One that failed already before the rollout is not counted, nor is a failure that a retry mended.
	// Default: 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`

	// onFailure tells what happens when maxFailures is reached. Pause leaves every Cluster as it is until the spec changes or the
	// annotation addons.cluster.x-k8s.io/rollout-continue asks to go on. Rollback returns every Cluster that took the new
	// revision to the last good one, where they stay until the spec changes. Default: Pause.
	// +optional
	// +kubebuilder:default=Pause
	OnFailure RolloutFailureAction `json:"onFailure,omitempty"`
}

// RolloutFailureAction tells what happens when the failure budget of a rollout is spent.
// +kubebuilder:validation:Enum=Pause;Rollback
type RolloutFailureAction string

const (
	// RolloutFailureActionPause leaves every Cluster as it is.
	RolloutFailureActionPause RolloutFailureAction = "Pause"

	// RolloutFailureActionRollback returns every Cluster that took the revision to the last good one.
	RolloutFailureActionRollback RolloutFailureAction = "Rollback"
)

// Wave is a part of the Clusters that is served before others.
type Wave struct {
	// name of the wave.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must consist of lower case letters, digits and '-'"
	Name string `json:"name"`

	// clusterSelector chooses the Clusters of the wave among those that the HelmOp selects.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// maxUnavailable narrows that of the rollout for this wave; a percentage is one of the wave's Clusters.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is the soak time of the wave's Clusters. Default: that of the rollout.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// promotion tells what it takes, when the wave is done, for the next one to begin: Automatic is nothing, Manual is the annotation
	// addons.cluster.x-k8s.io/rollout-promote with the number of the revision and the name of the wave, for example "7/canary".
	// Default: Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Promotion WavePromotion `json:"promotion,omitempty"`
}

// WavePromotion tells what it takes for the next wave to begin.
// +kubebuilder:validation:Enum=Automatic;Manual
type WavePromotion string

const (
	// WavePromotionAutomatic goes on by itself.
	WavePromotionAutomatic WavePromotion = "Automatic"

	// WavePromotionManual waits for a human.
	WavePromotionManual WavePromotion = "Manual"
)

// RolloutPhase is what a rollout is about. The zero value is that it goes on.
// +kubebuilder:validation:Enum=Progressing;Complete;Paused;RolledBack;Aborted;Superseded
type RolloutPhase string

const (
	// RolloutPhaseProgressing means: Clusters are told one after the other.
	RolloutPhaseProgressing RolloutPhase = "Progressing"

	// RolloutPhaseComplete means: every Cluster that could be served is done. The revision is a good one.
	RolloutPhaseComplete RolloutPhase = "Complete"

	// RolloutPhasePaused means: the failure budget is spent, and every Cluster stays as it is.
	RolloutPhasePaused RolloutPhase = "Paused"

	// RolloutPhaseRolledBack means: the failure budget is spent, and the Clusters returned, or are on their way, to the last good revision.
	RolloutPhaseRolledBack RolloutPhase = "RolledBack"

	// RolloutPhaseAborted means: somebody asked to end it, and the Clusters returned, or are on their way, to the last good revision.
	RolloutPhaseAborted RolloutPhase = "Aborted"

	// RolloutPhaseSuperseded means: another revision was wanted before it was complete.
	RolloutPhaseSuperseded RolloutPhase = "Superseded"
)

// RolloutStatus tells how far a revision has come. Its size does not grow with the number of Clusters.
type RolloutStatus struct {
	// revision is the number of the revision that is wanted now, see the HelmOpRevisions of the HelmOp.
	Revision int64 `json:"revision"`

	// lastGoodRevision is the number of the last revision that was rolled out completely; 0 is none.
	// +optional
	LastGoodRevision int64 `json:"lastGoodRevision,omitempty"`

	// phase of the rollout.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// wave is the name of the wave whose turn it is; empty if it is that of the Clusters in no wave, or if all are done.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Wave string `json:"wave,omitempty"`

	// startedAt is when the rollout began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// updated is the number of selected Clusters that were told of the revision.
	Updated int32 `json:"updated"`

	// done is the number of them that are healthy with it for their soak time.
	Done int32 `json:"done"`

	// inFlight is the number of them that are on their way.
	InFlight int32 `json:"inFlight"`

	// failed is the number of failures that count against maxFailures.
	Failed int32 `json:"failed"`

	// waitingFor tells what the rollout waits for.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	WaitingFor string `json:"waitingFor,omitempty"`
}

// ReleaseRollout tells which revision of its HelmOp a release is made from.
type ReleaseRollout struct {
	// revision is the number of the revision.
	Revision int64 `json:"revision"`

	// reason tells how the release came to it: Joined with a Cluster that was new, was Updated from another revision, or Returned to it.
	// +required
	Reason ReleaseRolloutReason `json:"reason"`

	// at is when what is wanted of the release last changed with a revision. Soak times count from then at the earliest.
	// +optional
	At metav1.Time `json:"at,omitempty,omitzero"`

	// failedBefore tells that the release failed already before the rollout, so that it proves nothing against the revision.
	// +optional
	FailedBefore bool `json:"failedBefore,omitempty"`

	// previous is what the release had under the last good revision, to return to.
	// +optional
	Previous *PreviousRevision `json:"previous,omitempty"`
}

// ReleaseRolloutReason tells how a release came to a revision.
// +kubebuilder:validation:Enum=Joined;Updated;Returned
type ReleaseRolloutReason string

const (
	// ReleaseRolloutJoined is that its Cluster was new.
	ReleaseRolloutJoined ReleaseRolloutReason = "Joined"

	// ReleaseRolloutUpdated is that it had another revision.
	ReleaseRolloutUpdated ReleaseRolloutReason = "Updated"

	// ReleaseRolloutReturned is that a newer revision was given up.
	ReleaseRolloutReturned ReleaseRolloutReason = "Returned"
)

// PreviousRevision is what a release had under another revision. Together with that HelmOpRevision it tells all that was wanted.
type PreviousRevision struct {
	// revision is the number of the revision.
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
