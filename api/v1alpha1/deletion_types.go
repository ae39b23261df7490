// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeletionStatus counts the releases of a HelmOp that will be deleted because their Clusters are no longer selected.
// The releases of Clusters that are gone, under deletion or paused do not count. Its size does not depend on the number
// of Clusters.
type DeletionStatus struct {
	// waiting is the number of releases whose deletion waits for a confirmation, see spec.maxDeletions.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`

	// waitingSince is since when deletions wait for a confirmation.
	// +optional
	WaitingSince metav1.Time `json:"waitingSince,omitempty,omitzero"`

	// mostWaiting is the largest number of deletions that waited at the same time since then.
	// +optional
	MostWaiting int32 `json:"mostWaiting,omitempty"`

	// confirmation is the value of the annotation addons.cluster.x-k8s.io/confirm-deletions that confirms the deletions
	// that wait: their number and a digest of them. It changes when the set of these releases changes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Confirmation string `json:"confirmation,omitempty"`

	// confirmed is the number of deletions that were confirmed and have not begun, because spec.rollout paces them.
	// +optional
	Confirmed int32 `json:"confirmed,omitempty"`

	// recent is the number of deletions that began without a confirmation, each less than 10 minutes after the one
	// before. They count against spec.maxDeletions together with the deletions that are due.
	// +optional
	Recent int32 `json:"recent,omitempty"`

	// lastAt is when the last of the recent deletions began.
	// +optional
	LastAt metav1.Time `json:"lastAt,omitempty,omitzero"`
}
