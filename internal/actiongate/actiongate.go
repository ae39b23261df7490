// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actiongate

import (
	"slices"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
)

// AwaitsRollout reports whether a decision changes a release that HelmOp has not installed for this HelmOpRelease,
// before the rollout has reached the Cluster. The release has another owner, or was installed for a lost HelmOpRelease.
// The HelmOp then assigns its revision again when the limits of the rollout permit it, see [apiutil.MustNotAdopt]. If a
// Cluster is not new, a release of another HelmOp does not wait: a user hands it over with the labels of the Cluster.
//
// A Cluster that a user has pinned to its current HelmOp revision is not a part of the rollout, so its release does not
// wait. A pin without effect does not count.
func AwaitsRollout(release *addonsv1.HelmOpRelease, observation model.Observation, desired model.Desired,
	decision decide.Decision,
) bool {
	isForeign := decision.State == model.StateForeign &&
		(apiutil.HasJoined(release) || model.IsSameOwner(observation, desired))
	if !apiutil.MustNotAdopt(release) || !isForeign && !isOfLost(release, observation, decision) {
		return false
	}
	number, _ := apiutil.PinOf(release)
	return number == 0 || number != apiutil.RevisionOf(release)
}

// isOfLost reports whether a decision changes the release of a lost HelmOpRelease: HelmOp created this HelmOpRelease
// after another one had installed the release. A restore without HelmOpReleases causes this for all Clusters at once. A
// move creates HelmOpReleases with other UIDs, too, but copies the annotation. Repairs of failed, interrupted and
// drifted releases do not wait. A release that was up to date once is no longer lost, although its records stay the
// same: a later change of the Cluster itself does not wait for the rollout.
func isOfLost(release *addonsv1.HelmOpRelease, observation model.Observation, decision decide.Decision) bool {
	if decision.State != model.StateOutOfSync && decision.State != model.StateUnmanaged || release.Status.Release != nil {
		return false
	}
	record, ok := observation.Claimed()
	created, err := time.Parse(time.RFC3339, release.Annotations[addonsv1.FirstAssignedAnnotation])
	return ok && err == nil && record.UID != string(release.UID) && !record.WrittenAt.IsZero() &&
		record.WrittenAt.Before(created)
}

// NeedsPreconditions reports whether a decision needs ready dependencies and available images. Installations, upgrades
// and adoptions need them. Repairs and uninstallations do not need them. The end of an interrupted change needs no
// second check, because the dependencies and images were available at its start. A rollback of a failed upgrade returns
// to a state that worked, so it needs no check. A return to the last known good revision needs no check either: the
// failed revision may be the reason why a dependency is not ready.
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

// IsExempt reports whether a decision is carried out even if maintenance does not permit changes. This is true for the
// end of an action that this manager began. If the desired state has changed since an interrupted action, the next
// action is a change as any other. IsExempt is also true for installations and repairs, unless the maintenance of the
// HelmOp includes them.
func IsExempt(limits maintenance.Limits, release *addonsv1.HelmOpRelease, observation model.Observation,
	decision decide.Decision,
) bool {
	isUpgrade := decision.Action == model.ActionUpgrade || decision.Action == model.ActionRecoverThenUpgrade
	switch {
	case decision.State == model.StateForeign:
		return false
	case decision.Reason == decide.ReasonInterrupted, decision.Action == model.ActionTest:
		return true
	case decision.Action.Installs(), isUpgrade && !hasWorked(observation):
		isNew := release.Spec.Rollout == nil || apiutil.HasJoined(release)
		// An uninstallation as remediation or for a replacement must not leave the Cluster without the release.
		return !isNew || !limits.Covers(addonsv1.MaintenanceInstallation)
	case decision.Action == model.ActionRollback, decision.Action == model.ActionUninstall:
		return !limits.Covers(addonsv1.MaintenanceRollback)
	case isUpgrade:
		return attempts.IsReturning(release) && !limits.Covers(addonsv1.MaintenanceRollback)
	default:
		return false
	}
}

// hasWorked reports whether any Helm revision of the release was deployed.
func hasWorked(observation model.Observation) bool {
	return slices.ContainsFunc(observation.Records, func(record model.Record) bool {
		return record.Status == model.StatusDeployed || record.Status == model.StatusSuperseded
	})
}
