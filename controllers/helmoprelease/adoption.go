// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// adoptionPending is the message of a release whose adoption waits for the rollout of its HelmOp.
const adoptionPending = "The release has another owner. It is adopted when the rollout of the HelmOp reaches this " +
	"Cluster: see status.rollout of the HelmOp"

// awaitsRollout reports whether a decision changes a release of another owner, and the rollout has not reached the
// Cluster yet. A Cluster counts as new until it reports a release of another owner: then its HelmOp assigns the
// HelmOp revision again when the limits of the rollout permit it, with another reason. A Cluster that a user has pinned
// to the HelmOp revision that it has takes no part in the rollout, so its release does not wait. A pin without effect
// does not count.
func awaitsRollout(release *addonsv1.HelmOpRelease, decision decide.Decision) bool {
	assigned := release.Spec.Rollout
	if assigned == nil || assigned.Reason != addonsv1.ReleaseRolloutJoined || decision.State != model.StateForeign {
		return false
	}
	number, _ := apiutil.PinOf(release)
	return number == 0 || number != assigned.Revision
}

// reportRefused reports that a release of another owner is left alone, with an Event if that is new.
func (r *Reconciler) reportRefused(p *releasePass, decision decide.Decision) {
	reason := addonsv1.ReleaseConflictReason
	if decision.Reason == decide.ReasonWouldChange {
		reason = addonsv1.AdoptionWouldChangeReason
	}
	if releasestatus.NotReleased(p.release, reason, decision.Message) {
		r.event(p.releaseScope, corev1.EventTypeWarning, reason, string(decision.Action), decision.Message)
	}
}
