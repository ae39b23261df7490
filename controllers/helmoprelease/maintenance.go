// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
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

// isExempt reports whether a decision is carried out also while the release may not be changed: it finishes what this
// manager began, or it installs or repairs, unless the HelmOp includes that.
func isExempt(limits maintenance.Limits, p *releasePass, decision decide.Decision) bool {
	switch {
	case decision.State == model.StateForeign:
		return false
	case decision.Reason == decide.ReasonInterrupted, decision.Action == model.ActionTest:
		return true
	case decision.Action.Installs(), decision.Action == model.ActionUpgrade && !hasWorked(p.observation):
		assigned := p.release.Spec.Rollout
		isNew := assigned == nil || assigned.Reason == addonsv1.ReleaseRolloutJoined
		// The installation after a replacement, or after an uninstallation as remediation, must not leave a hole.
		return !isNew || !limits.Covers(addonsv1.MaintenanceInstallation)
	case decision.Action == model.ActionRollback, decision.Action == model.ActionUninstall:
		return !limits.Covers(addonsv1.MaintenanceRollback)
	case decision.Action == model.ActionUpgrade:
		return isReturning(p.release) && !limits.Covers(addonsv1.MaintenanceRollback)
	default:
		return false
	}
}

// hasWorked reports whether a Helm revision of the release was ever deployed.
func hasWorked(observation model.Observation) bool {
	return slices.ContainsFunc(observation.Records, func(record model.Record) bool {
		return record.Status == statusDeployed || record.Status == statusSuperseded
	})
}

// isReturning reports whether a release was assigned an earlier HelmOp revision, by a rollback, an abort or a pin, and
// has not been changed since.
func isReturning(release *addonsv1.HelmOpRelease) bool {
	assigned := release.Spec.Rollout
	if assigned == nil || assigned.Reason != addonsv1.ReleaseRolloutReturned &&
		assigned.Reason != addonsv1.ReleaseRolloutPinned {
		return false
	}
	return !slices.ContainsFunc(release.Status.History, func(action addonsv1.ReleaseAction) bool {
		return action.Succeeded && action.Action != attempts.VerbCorrectDrift && !action.Time.Before(&assigned.At)
	})
}

// waitsForMaintenance reports whether a decision must not be carried out now. It then reports why, and schedules the
// pass that carries it out. A release that has failed stays failed: its next try waits.
func (r *Reconciler) waitsForMaintenance(p *releasePass, decision decide.Decision) bool {
	limits := limitsOf(p.releaseScope)
	if isExempt(limits, p, decision) {
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
func (r *Reconciler) deferCorrections(p *releasePass) maintenance.State {
	if !p.policy.CorrectDrift {
		return maintenance.State{}
	}
	state := limitsOf(p.releaseScope).At(r.now())
	p.policy.CorrectDrift = !state.Closed
	return state
}
