// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasestatus

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// Reachable sets the condition ClusterReachable to True.
func Reachable(release *addonsv1.HelmOpRelease) {
	report.SetCondition(release, addonsv1.ClusterReachableCondition, report.True, addonsv1.ClusterReachableReason, "")
}

// NotReleased sets the conditions Released and Ready to False. It reports whether the status or the reason of one
// of them changed.
func NotReleased(release *addonsv1.HelmOpRelease, reason, message string) bool {
	changed := report.SetCondition(release, addonsv1.ReleasedCondition, report.False, reason, message)
	return report.SetNotReady(release, reason, message) || changed
}

// HasFailed reports whether the condition Released has a failure.
func HasFailed(release *addonsv1.HelmOpRelease) bool {
	released := conditions.Get(release, addonsv1.ReleasedCondition)
	return released != nil && released.Status == report.False && !apiutil.ProgressReasons[released.Reason]
}

// slotWait ends the messages about the wait for a slot. The text does not change while a release waits, so that a wait
// causes one write.
const slotWait = "waits for a slot: the concurrency limit of the manager is reached"

// releaseSlotWait is the message of a release without a failure that waits for a slot.
const releaseSlotWait = "The release " + slotWait

// AwaitsTurn reports whether a release only waits for its turn: for its first pass, for a slot or for the rollout. A
// paused or failed release does not wait for its turn.
func AwaitsTurn(release *addonsv1.HelmOpRelease) bool {
	if conditions.IsTrue(release, addonsv1.PausedCondition) {
		return false
	}
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready == nil || ready.Reason == addonsv1.AdoptionPendingReason ||
		ready.Reason == addonsv1.UpdatingReason && ready.Message == releaseSlotWait
}

// WaitingForSlot reports that the action of a decision waits for a slot. A release that is Ready with its current spec
// stays Ready, and a failed release keeps its reason. Other causes do not apply any more: the action only needs a slot.
func WaitingForSlot(release *addonsv1.HelmOpRelease, decision decide.Decision) {
	if IsReady(release) {
		return
	}
	reason, ok := standingFailure(release)
	if !ok && decision.Failures > 0 {
		// Another reason has replaced that of the failure, for example while the API server did not answer.
		reason, ok = StandingReason(release, decision), true
	}
	if !ok {
		report.SetNotReady(release, addonsv1.UpdatingReason, releaseSlotWait)
		return
	}
	message := "The next try " + slotWait
	if decision.Message != "" {
		message = strings.TrimRight(decision.Message, ". ") + "; the next try " + slotWait
	}
	message = WithLastError(release, message)
	if conditions.GetReason(release, addonsv1.ReleasedCondition) == reason {
		NotReleased(release, reason, message)
		return
	}
	report.SetNotReady(release, reason, message)
}

// UninstallWaitsForSlot reports that an uninstallation waits for a slot. A failed uninstallation keeps its reason.
func UninstallWaitsForSlot(release *addonsv1.HelmOpRelease) {
	const message = "The uninstallation " + slotWait
	if reason, ok := standingFailure(release); ok {
		NotReleased(release, reason, WithLastError(release, message))
		return
	}
	report.SetNotReady(release, addonsv1.DeletingReason, message)
}

// standingFailure returns the reason of Ready if Ready has a failure of the action, the health or the tests of the
// release with its current spec. Reasons of waits, and of Clusters that could not be reached, are no such failures.
func standingFailure(release *addonsv1.HelmOpRelease) (reason string, ok bool) {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	if ready == nil || ready.Status != report.False || ready.ObservedGeneration != release.Generation ||
		apiutil.ProgressReasons[ready.Reason] || ready.Reason == addonsv1.ReleasePendingReason {
		return "", false
	}
	for _, name := range []string{addonsv1.ReleasedCondition, addonsv1.HealthyCondition, addonsv1.TestedCondition} {
		if cause := conditions.Get(release, name); cause != nil && cause.Status == report.False &&
			cause.Reason == ready.Reason {
			return ready.Reason, true
		}
	}
	return "", false
}

// NoteUnhealthy sets the last error to a list of the unhealthy objects, when an upgrade is rolled back because of them.
// Messages contain the last error until the next success.
func NoteUnhealthy(release *addonsv1.HelmOpRelease, decision decide.Decision, now time.Time) {
	healthy := conditions.Get(release, addonsv1.HealthyCondition)
	if decision.Reason != decide.ReasonUnhealthy || healthy == nil {
		return
	}
	attempts.NoteError(release, fmt.Sprintf("Helm revision %d was not healthy at %s (%s): %s", decision.FromRevision,
		now.UTC().Format(time.RFC3339), healthy.Reason, healthy.Message))
}

// StandingReason returns the reason for a release that is not in the desired state while no action runs. It is the
// reason in the condition or, without one, the reason of a failed installation or upgrade.
func StandingReason(release *addonsv1.HelmOpRelease, decision decide.Decision) string {
	if decision.State == model.StateRolledBack {
		return addonsv1.RolledBackReason
	}
	switch reported := conditions.GetReason(release, addonsv1.ReleasedCondition); reported {
	case "", addonsv1.ReleasedReason, addonsv1.UpdatingReason, addonsv1.ReleasePendingReason,
		addonsv1.FetchingArtifactReason, addonsv1.ImagesMissingReason, addonsv1.ImagesUnknownReason:
		if decision.FromRevision <= 1 {
			return addonsv1.InstallFailedReason
		}
		return addonsv1.UpgradeFailedReason
	default:
		return reported
	}
}

// WithLastError returns a message with the last error appended.
func WithLastError(release *addonsv1.HelmOpRelease, message string) string {
	if release.Status.LastError == "" {
		return message
	}
	return strings.TrimRight(message, ". ") + "; the last error: " + release.Status.LastError
}

// FailureReason returns the reason for a failed action if the error itself maps to none.
func FailureReason(decision decide.Decision) string {
	switch attempts.VerbOf(decision.Action) {
	case attempts.VerbInstall:
		return addonsv1.InstallFailedReason
	case attempts.VerbUninstall:
		return addonsv1.UninstallFailedReason
	case attempts.VerbRollback:
		return addonsv1.RollbackFailedReason
	case attempts.VerbTest:
		return addonsv1.TestsFailedReason
	default:
		return addonsv1.UpgradeFailedReason
	}
}

// Deployed reports that the newest Helm revision is the desired state. hasTests is true if its tests are enabled; they
// may have failed.
func Deployed(release *addonsv1.HelmOpRelease, newest model.Record, hasTests bool) {
	before := release.Status.Release
	if before == nil || before.Revision != int64(newest.Revision) ||
		before.Status != attempts.HelmStatus(newest.Status) ||
		before.ArtifactDigest != release.Spec.Artifact.Digest || before.ValuesDigest != release.Spec.ValuesDigest {
		// The status was lost, for example in a move. The labels on Helm's records show that no action is needed.
		release.Status.Release = &addonsv1.ReleaseObservation{
			Revision: int64(newest.Revision), Status: attempts.HelmStatus(newest.Status),
			Version:        release.Spec.Artifact.Version,
			ArtifactDigest: release.Spec.Artifact.Digest, ValuesDigest: release.Spec.ValuesDigest,
			LastDeployed: metav1.NewTime(newest.ChangedAt),
		}
		if before != nil && before.ArtifactDigest == release.Spec.Artifact.Digest {
			release.Status.Release.Chart, release.Status.Release.AppVersion = before.Chart, before.AppVersion
		}
	}
	tests(release, newest, hasTests)
	Released(release)
}

// Released sets the condition Released to True, for the Helm revision in the status.
func Released(release *addonsv1.HelmOpRelease) {
	message := fmt.Sprintf("Helm revision %d is %s", release.Status.Release.Revision, release.Status.Release.Status)
	report.SetCondition(release, addonsv1.ReleasedCondition, report.True, addonsv1.ReleasedReason, message)
	Ready(release)
}

// Ready sets the condition Ready of a release whose newest revision is the desired state. The release is Ready if it is
// healthy and its tests succeeded. Disabled health checks and disabled tests are ignored.
func Ready(release *addonsv1.HelmOpRelease) {
	released := conditions.Get(release, addonsv1.ReleasedCondition)
	if released == nil || released.Status != report.True {
		return
	}
	for _, name := range []string{addonsv1.HealthyCondition, addonsv1.TestedCondition} {
		gate := conditions.Get(release, name)
		if gate == nil || gate.Status == report.True || isIgnored(release, name) {
			continue
		}
		reason := gate.Reason
		if reason == addonsv1.TestsPendingReason {
			reason = addonsv1.ProgressingReason
		}
		report.SetNotReady(release, reason, gate.Message)
		return
	}
	report.SetCondition(release, addonsv1.ReadyCondition, report.True, addonsv1.ReadyReason, released.Message)
}

// isIgnored reports whether a release may be Ready although a condition is not True.
func isIgnored(release *addonsv1.HelmOpRelease, condition string) bool {
	return condition == addonsv1.TestedCondition && releasespec.PolicyOf(&release.Spec).Test.IgnoreFailures
}

// InstalledOnce reports that a release that is installed once is done, and resets its failures. HelmOp does not connect
// to the Cluster for the release any more.
func InstalledOnce(release *addonsv1.HelmOpRelease) {
	report.ClearReachable(release)
	for _, name := range []string{addonsv1.TestedCondition, addonsv1.StalledCondition} {
		conditions.Delete(release, name)
	}
	release.Status.Failures, release.Status.LastError, release.Status.NextTryAt = 0, "", metav1.Time{}
	for _, name := range []string{addonsv1.ReleasedCondition, addonsv1.ReadyCondition} {
		report.SetCondition(release, name, report.True, addonsv1.InstalledOnceReason, releasespec.InstalledOnce)
	}
}

// IsReady reports whether a release is Ready with its current spec.
func IsReady(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == report.True && ready.ObservedGeneration == release.Generation
}
