// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// DeletionHoldOver is the value of the annotation when the deletion of the Cluster went on.
	DeletionHoldOver = "over"

	// DeletionHoldSuspended is the value while somebody pauses the Cluster during the hold, by the paused annotation.
	DeletionHoldSuspended = "suspended"
)

// DeletionHold is whether the deletion of a Cluster is held until releases are uninstalled.
type DeletionHold struct {
	// Since is from when on; zero if the hold is over or has not begun.
	Since time.Time

	// Over tells that it was.
	Over bool

	// Suspended tells that a user paused the Cluster during the hold, so that the deletion does not go on when the hold
	// would end.
	Suspended bool

	// Malformed tells that the value of the annotation means nothing.
	Malformed bool
}

// IsOn tells whether the deletion is held now.
func (h DeletionHold) IsOn() bool { return !h.Since.IsZero() }

// MayBegin tells whether a hold can begin.
func (h DeletionHold) MayBegin() bool { return !h.IsOn() && !h.Over }

// HoldOf is the hold of a Cluster's deletion.
func HoldOf(cluster *clusterv1.Cluster) DeletionHold {
	value, ok := cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	if !ok || cluster.DeletionTimestamp.IsZero() {
		return DeletionHold{}
	}
	switch value {
	case DeletionHoldOver:
		return DeletionHold{Over: true}
	case DeletionHoldSuspended:
		return DeletionHold{Suspended: true}
	}
	since, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return DeletionHold{Malformed: true}
	}
	return DeletionHold{Since: since}
}
