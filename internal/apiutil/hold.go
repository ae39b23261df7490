// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"strings"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// DeletionHoldOver is the value of the annotation after the hold. The deletion of the Cluster continues then.
	DeletionHoldOver = "over"

	// DeletionHoldPaused is the value while a user pauses the Cluster during the hold, with the paused annotation.
	DeletionHoldPaused = "paused"

	// DeletionHoldStopped is the value while a user pauses the Cluster during a hold for which HelmOp has not set
	// spec.paused. The user may have paused the Cluster with the paused annotation or with spec.paused.
	DeletionHoldStopped = "stopped"

	// deletionHoldUnpaused is the suffix of the value, after the time, for a hold for which HelmOp has not set
	// spec.paused.
	deletionHoldUnpaused = " unpaused"
)

// DeletionHoldSince returns the value of the annotation for a hold that begins at a time. pauses is true if HelmOp
// pauses the Cluster for the hold.
func DeletionHoldSince(since time.Time, pauses bool) string {
	value := since.UTC().Format(time.RFC3339)
	if !pauses {
		value += deletionHoldUnpaused
	}
	return value
}

// DeletionHold is the state of the hold that delays the deletion of a Cluster until releases are uninstalled.
type DeletionHold struct {
	// Since is when the hold began. It is zero if the hold has not begun or is over, or if a user pauses the Cluster.
	Since time.Time

	// Over is true after the end of the hold.
	Over bool

	// Paused is true while a user pauses the Cluster during the hold. The deletion then does not continue at the planned
	// end of the hold.
	Paused bool

	// Unpaused is true if HelmOp has not paused the Cluster for the hold. A pause of the Cluster is then the pause of a
	// user.
	Unpaused bool

	// Malformed is true if the value of the annotation is not valid.
	Malformed bool
}

// IsOn reports whether the deletion is held now.
func (h DeletionHold) IsOn() bool { return !h.Since.IsZero() }

// MayBegin reports whether a hold can begin: there was none yet, or the hold is paused or malformed.
func (h DeletionHold) MayBegin() bool { return !h.IsOn() && !h.Over }

// HoldOf returns the hold of a Cluster's deletion, from the annotation. It returns the zero value if the Cluster is not
// being deleted.
func HoldOf(cluster *clusterv1.Cluster) DeletionHold {
	value, ok := cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	if !ok || cluster.DeletionTimestamp.IsZero() {
		return DeletionHold{}
	}
	hold := parseHold(value)
	if hold.IsOn() && hold.Unpaused && annotations.IsPaused(cluster, cluster) {
		return DeletionHold{Paused: true, Unpaused: true}
	}
	return hold
}

// HasPauseOfHold reports whether HelmOp has set spec.paused of a Cluster for the hold of its deletion, according to the
// annotation.
func HasPauseOfHold(cluster *clusterv1.Cluster) bool {
	value, held := cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	hold := parseHold(value)
	return held && !hold.Over && !hold.Unpaused && ptr.Deref(cluster.Spec.Paused, false)
}

func parseHold(value string) DeletionHold {
	switch value {
	case DeletionHoldOver:
		return DeletionHold{Over: true}
	case DeletionHoldPaused:
		return DeletionHold{Paused: true}
	case DeletionHoldStopped:
		return DeletionHold{Paused: true, Unpaused: true}
	}
	begin, unpaused := strings.CutSuffix(value, deletionHoldUnpaused)
	since, err := time.Parse(time.RFC3339, begin)
	if err != nil {
		return DeletionHold{Malformed: true}
	}
	return DeletionHold{Since: since, Unpaused: unpaused}
}
