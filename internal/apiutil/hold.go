// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// DeletionHoldOver is the value of the annotation after the hold: the deletion of the Cluster continues.
	DeletionHoldOver = "over"

	// DeletionHoldPaused is the value while a user pauses the Cluster during the hold, with the paused annotation.
	DeletionHoldPaused = "paused"
)

// DeletionHold is the state of the hold that delays the deletion of a Cluster until releases are uninstalled.
type DeletionHold struct {
	// Since is when the hold began; zero if it has not begun, is over, or a user pauses the Cluster.
	Since time.Time

	// Over is true after the hold.
	Over bool

	// Paused is true while a user pauses the Cluster during the hold. The deletion then does not continue when the
	// hold would end.
	Paused bool

	// Malformed is true if the value of the annotation is not valid.
	Malformed bool
}

// IsOn reports whether the deletion is held now.
func (h DeletionHold) IsOn() bool { return !h.Since.IsZero() }

// MayBegin reports whether a hold can begin: there is none yet, or it is paused or malformed.
func (h DeletionHold) MayBegin() bool { return !h.IsOn() && !h.Over }

// HoldOf returns the hold of a Cluster's deletion, from the annotation; the zero value if the Cluster is not being
// deleted.
func HoldOf(cluster *clusterv1.Cluster) DeletionHold {
	value, ok := cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	if !ok || cluster.DeletionTimestamp.IsZero() {
		return DeletionHold{}
	}
	switch value {
	case DeletionHoldOver:
		return DeletionHold{Over: true}
	case DeletionHoldPaused:
		return DeletionHold{Paused: true}
	}
	since, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return DeletionHold{Malformed: true}
	}
	return DeletionHold{Since: since}
}
