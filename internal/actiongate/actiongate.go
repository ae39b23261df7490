// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actiongate

import (
	"slices"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
)

// AwaitsRollout reports whether a decision changes a release of another owner, and the rollout has not reached the
// Cluster yet. A Cluster counts as new until it reports a release of another owner: then its HelmOp assigns the
// HelmOp revision again when the limits of the rollout permit it, with another reason. A Cluster that a user has pinned
// to the HelmOp revision that it has takes no part in the rollout, so its release does not wait. A pin without effect
// does not count.
func AwaitsRollout(release *addonsv1.HelmOpRelease, decision decide.Decision) bool {
	assigned := release.Spec.Rollout
	if assigned == nil || assigned.Reason != addonsv1.ReleaseRolloutJoined || decision.State != model.StateForeign {
		return false
	}
	number, _ := apiutil.PinOf(release)
	return number == 0 || number != assigned.Revision
}

// NeedsPreconditions reports whether the dependencies must be met, and the images must be in their registries, before a
// decision is carried out. An action that repairs, finishes or removes does not need them: they were met when an
// interrupted change began, and the rollback of a failed upgrade returns to a state that worked. A return to the last
// known good revision does not need them either: the given-up revision may be the cause that the dependencies are not
// ready.
func NeedsPreconditions(decision decide.Decision, isReturn bool) bool {
	switch decision.Action {
	case model.ActionInstall:
		return true
	case model.ActionUpgrade, model.ActionAdopt:
		return !isReturn
	case model.ActionRecoverThenInstall:
		return decision.Recovery != decide.RecoverReplace
	case model.ActionRecoverThenUpgrade:
		return !isReturn && decision.Recovery != decide.RecoverReplace
	default:
		return false
	}
}

// IsExempt reports whether a decision is carried out also while the release may not be changed: it finishes what this
// manager began, or it installs or repairs, unless the HelmOp includes that.
func IsExempt(limits maintenance.Limits, release *addonsv1.HelmOpRelease, observation model.Observation,
	decision decide.Decision,
) bool {
	switch {
	case decision.State == model.StateForeign:
		return false
	case decision.Reason == decide.ReasonInterrupted, decision.Action == model.ActionTest:
		return true
	case decision.Action.Installs(), decision.Action == model.ActionUpgrade && !hasWorked(observation):
		assigned := release.Spec.Rollout
		isNew := assigned == nil || assigned.Reason == addonsv1.ReleaseRolloutJoined
		// The installation after a replacement, or after an uninstallation as remediation, must not leave a hole.
		return !isNew || !limits.Covers(addonsv1.MaintenanceInstallation)
	case decision.Action == model.ActionRollback, decision.Action == model.ActionUninstall:
		return !limits.Covers(addonsv1.MaintenanceRollback)
	case decision.Action == model.ActionUpgrade:
		return isReturning(release) && !limits.Covers(addonsv1.MaintenanceRollback)
	default:
		return false
	}
}

// hasWorked reports whether a Helm revision of the release was ever deployed.
func hasWorked(observation model.Observation) bool {
	return slices.ContainsFunc(observation.Records, func(record model.Record) bool {
		return record.Status == model.StatusDeployed || record.Status == model.StatusSuperseded
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
