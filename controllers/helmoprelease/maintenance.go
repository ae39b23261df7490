// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// limitsOf returns when a release may be changed.
func limitsOf(scope *releaseScope) maintenance.Limits {
	var spec *addonsv1.Maintenance
	if scope.helmOp != nil {
		spec = scope.helmOp.Spec.Maintenance
	}
	var annotations map[string]string
	if scope.object != nil {
		annotations = scope.object.GetAnnotations()
	}
	return maintenance.PolicyOf(spec).For(annotations)
}

// isExempt reports whether a decision is carried out also while the release may not be changed. An action that finishes
// what was begun is always exempt; installations, returns and remediations are, unless the HelmOp includes them.
func isExempt(limits maintenance.Limits, decision decide.Decision, assigned *addonsv1.ReleaseRollout) bool {
	switch decision.Action {
	case model.ActionTest, model.ActionRecoverThenUpgrade:
		return true
	case model.ActionInstall, model.ActionRecoverThenInstall:
		return !limits.Covers(addonsv1.MaintenanceInstallation)
	case model.ActionRollback, model.ActionUninstall:
		return !limits.Covers(addonsv1.MaintenanceRollback)
	case model.ActionUpgrade:
		isBack := assigned != nil && (assigned.Reason == addonsv1.ReleaseRolloutReturned ||
			assigned.Reason == addonsv1.ReleaseRolloutPinned)
		return isBack && !limits.Covers(addonsv1.MaintenanceRollback)
	default:
		return false
	}
}

// waitsForMaintenance reports whether a decision must not be carried out now. It then reports why, and schedules the
// pass that carries it out. A release that has failed stays failed: its next try waits.
func (r *Reconciler) waitsForMaintenance(p *releasePass, decision decide.Decision) bool {
	limits := limitsOf(p.releaseScope)
	if isExempt(limits, decision, p.release.Spec.Rollout) {
		return false
	}
	state := limits.At(r.now())
	if !state.Closed {
		return false
	}
	p.release.Status.NextTryAt = metav1.NewTime(state.Opens)
	p.due(r.untilOpen(state))
	if decision.Failures > 0 {
		releasestatus.NotReleased(p.release, releasestatus.StandingReason(p.release, decision),
			releasestatus.WithLastError(p.release, "The next try waits for maintenance: "+state.Why))
		return true
	}
	releasestatus.NotReleased(p.release, addonsv1.WaitingForMaintenanceReason,
		fmt.Sprintf("The change of the release waits for maintenance: %s", state.Why))
	return true
}

// untilOpen returns the time until a release may be changed; 0 if it is not known.
func (r *Reconciler) untilOpen(state maintenance.State) time.Duration {
	if state.Opens.IsZero() {
		return 0
	}
	return max(time.Millisecond, state.Opens.Sub(r.now()))
}

// deferCorrections makes the pass report drift and not correct it, if the release may not be changed now.
func (r *Reconciler) deferCorrections(p *releasePass) (why string) {
	if !p.policy.CorrectDrift {
		return ""
	}
	state := limitsOf(p.releaseScope).At(r.now())
	if !state.Closed {
		return ""
	}
	p.policy.CorrectDrift = false
	if p.release.Status.Drift != nil && p.release.Status.Drift.Differing > 0 {
		p.due(r.untilOpen(state))
	}
	return state.Why
}
