// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeletionStatus counts the releases that HelmOp will delete because their
// Clusters are no longer selected. Releases of Clusters that are deleted or
// under deletion are not counted. The size of DeletionStatus does not depend on
// the number of Clusters.
type DeletionStatus struct {
	// waiting is the number of releases whose deletion waits for a confirmation,
	// see spec.maxDeletions.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`

	// waitingSince is the time when deletions began to wait for a confirmation.
	// +optional
	WaitingSince metav1.Time `json:"waitingSince,omitempty,omitzero"`

	// mostLost is the largest number of releases that would have been deleted
	// without a confirmation since waitingSince: recent, and the unconfirmed
	// deletions that waited. The deletions wait until spec.maxDeletions permits this
	// number, even if releases come back meanwhile.
	// +optional
	MostLost int32 `json:"mostLost,omitempty"`

	// waitingTotal is the number of releases to which spec.maxDeletions applied at
	// waitingSince. While deletions wait, HelmOp applies spec.maxDeletions to this
	// number, so that the deletions do not begin because other releases are added or
	// deleted.
	// +optional
	WaitingTotal int32 `json:"waitingTotal,omitempty"`

	// confirmation is the value that confirms the waiting deletions: the number of
	// these deletions and a digest. To confirm the deletions, set the annotation
	// addons.cluster.x-k8s.io/confirm-deletions to this value. If other releases
	// wait, the value changes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Confirmation string `json:"confirmation,omitempty"`

	// confirmed is the number of confirmed deletions that have not begun yet. They
	// wait because spec.rollout limits the number of deletions at the same time, or
	// because other deletions wait for a confirmation. The HelmOpReleases of these
	// deletions have the annotation addons.cluster.x-k8s.io/deletion-confirmed.
	// +optional
	Confirmed int32 `json:"confirmed,omitempty"`

	// recent is the number of deletions that began without a confirmation, each
	// less than 10 minutes after the previous deletion. HelmOp adds this number to
	// the number of new deletions, and compares the sum with spec.maxDeletions.
	// While deletions wait, recent stays as it is.
	// +optional
	Recent int32 `json:"recent,omitempty"`

	// lastAt is the time when the last of the recent deletions began.
	// +optional
	LastAt metav1.Time `json:"lastAt,omitempty,omitzero"`
}
