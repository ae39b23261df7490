// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// The actions on a release, in status, Events and metrics.
const (
	VerbInstall      = "Install"
	VerbUpgrade      = "Upgrade"
	VerbAdopt        = "Adopt"
	VerbRollback     = "Rollback"
	VerbTest         = "Test"
	VerbCorrectDrift = "CorrectDrift"
	VerbUninstall    = "Uninstall"
)

// VerbOf returns the name of an action for status, Events and metrics. A recovery has the name of the action that
// follows it.
func VerbOf(action model.Action) string {
	switch action {
	case model.ActionInstall, model.ActionRecoverThenInstall:
		return VerbInstall
	case model.ActionUpgrade, model.ActionRecoverThenUpgrade:
		return VerbUpgrade
	default:
		return string(action)
	}
}

// maxReleaseStatus is the limit, in bytes, of a status of Helm in the status of a release. The statuses that Helm
// writes are shorter, but other programs may write records, too.
const maxReleaseStatus = 32

// HelmStatus returns a status of Helm within the limit of the status of a release.
func HelmStatus(status string) string { return apiutil.Truncate(status, maxReleaseStatus) }

// observed returns the observed release after an action, for the status.
func observed(release *addonsv1.HelmOpRelease, decision decide.Decision,
	result helmclient.Result,
) *addonsv1.ReleaseObservation {
	return &addonsv1.ReleaseObservation{
		Revision:       int64(result.Revision),
		Status:         HelmStatus(result.Status),
		Chart:          apiutil.Truncate(result.ChartName, 253),
		Version:        apiutil.Truncate(result.ChartVersion, 256),
		AppVersion:     apiutil.Truncate(result.AppVersion, 256),
		ArtifactDigest: madeFromDesired(decision, release.Spec.Artifact.Digest),
		ValuesDigest:   madeFromDesired(decision, release.Spec.ValuesDigest),
		LastDeployed:   metav1.NewTime(result.LastDeployed),
	}
}

// maxHistory is the number of actions in status.history at most.
const maxHistory = 5

// IsRemediation reports whether a decision is a rollback to another state than the desired state.
func IsRemediation(decision decide.Decision) bool {
	return decision.Action == model.ActionRollback && !decision.Returns
}

// madeFromDesired returns a digest of the desired state. It returns nothing if the decision is a rollback to another
// state.
func madeFromDesired(decision decide.Decision, digest string) string {
	if IsRemediation(decision) {
		return ""
	}
	return digest
}

// Remember adds an action at the start of the history. It removes the oldest action, but keeps the newest success that
// is no correction of drift: this success may show that the release has its desired state since the assignment.
func Remember(status *addonsv1.HelmOpReleaseStatus, entry addonsv1.ReleaseAction) {
	history := append([]addonsv1.ReleaseAction{entry}, status.History...)
	for last := len(history) - 1; last >= maxHistory; last-- {
		if slices.IndexFunc(history, isSuccess) == last {
			history = slices.Delete(history, last-1, last)
		} else {
			history = history[:last]
		}
	}
	status.History = history
}

// isSuccess reports whether an action succeeded and was no correction of drift.
func isSuccess(action addonsv1.ReleaseAction) bool {
	return action.Succeeded && action.Action != VerbCorrectDrift
}

// IsReturning reports whether a rollback, an abort or a pin has assigned an earlier HelmOp revision to a release, and
// the release has not reached this HelmOp revision yet.
func IsReturning(release *addonsv1.HelmOpRelease) bool {
	return isReturn(release.Spec.Rollout) && !hasReached(release)
}

// HasReturned reports whether a rollback, an abort or a pin has assigned an earlier HelmOp revision to a release, and
// the release has reached this HelmOp revision. A later change of the release is a change as any other.
func HasReturned(release *addonsv1.HelmOpRelease) bool {
	return isReturn(release.Spec.Rollout) && hasReached(release)
}

func isReturn(assigned *addonsv1.ReleaseRollout) bool {
	return assigned != nil && (assigned.Reason == addonsv1.ReleaseRolloutReturned ||
		assigned.Reason == addonsv1.ReleaseRolloutPinned)
}

// hasReached reports whether the release has had its desired state since the assignment. The condition Released does
// not suffice: it becomes False when the next change waits. The history does not suffice either: clusterctl move
// deletes it, and its times are earlier than the assignment if the clock was ahead at the assignment. An action that
// was running during the assignment installed another state.
func hasReached(release *addonsv1.HelmOpRelease) bool {
	released := conditions.Get(release, addonsv1.ReleasedCondition)
	if released != nil && released.Status == metav1.ConditionTrue && released.ObservedGeneration == release.Generation {
		return true
	}
	spec := &release.Spec
	return slices.ContainsFunc(release.Status.History, func(action addonsv1.ReleaseAction) bool {
		return isSuccess(action) && !action.Time.Before(&spec.Rollout.At) &&
			action.ArtifactDigest == spec.Artifact.Digest && action.ValuesDigest == spec.ValuesDigest
	})
}
