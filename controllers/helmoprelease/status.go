// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// The actions on a release, in status, Events and metrics.
const (
	verbInstall      = "Install"
	verbUpgrade      = "Upgrade"
	verbRollback     = "Rollback"
	verbTest         = "Test"
	verbCorrectDrift = "CorrectDrift"
	verbUninstall    = "Uninstall"
)

const (
	metav1Unknown = metav1.ConditionUnknown
)

// retryDelay returns how long an uninstallation still waits because the same uninstallation failed before; 0 if it is
// due.
func retryDelay(release *addonsv1.HelmOpRelease, attempt string, now time.Time) time.Duration {
	status := &release.Status
	if status.Failures == 0 || status.LastAttemptedDigest != attempt {
		return 0
	}
	return max(0, status.LastAttemptedAt.Add(model.Backoff(int(status.Failures), apiutil.Jitter(release))).Sub(now))
}

// recordUninstall counts a failed uninstallation and adds it to the history.
func (r *Reconciler) recordUninstall(scope *releaseScope, decision decide.Decision, result helmclient.Result,
	attempt string, err error,
) {
	status := &scope.release.Status
	if err == nil || !result.StorageChanged {
		return
	}
	if status.LastAttemptedDigest != attempt {
		status.Failures = 0
	}
	status.Failures++
	status.LastAttemptedDigest, status.LastAttemptedAt = attempt, metav1.NewTime(r.now())
	status.LastRetryRequest = retryRequest(scope)
	remember(status, addonsv1.ReleaseAction{
		Action: verbUninstall, Reason: decision.Reason, FromRevision: int64(decision.FromRevision),
		Time: status.LastAttemptedAt,
	})
}

func reportReachable(release *addonsv1.HelmOpRelease) {
	report.SetCondition(release, addonsv1.ClusterReachableCondition, report.True, addonsv1.ClusterReachableReason, "")
}

// reportNotReleased sets the conditions Released and Ready to False. It reports whether the status or the reason of one
// of them changed.
func reportNotReleased(release *addonsv1.HelmOpRelease, reason, message string) bool {
	changed := report.SetCondition(release, addonsv1.ReleasedCondition, report.False, reason, message)
	return report.SetNotReady(release, reason, message) || changed
}

// reportWaiting reports that the release waits for an action of another program, or for the next try.
func reportWaiting(p *releasePass, decision decide.Decision) {
	switch {
	case decision.Reason != decide.ReasonBackoff:
		reportNotReleased(p.release, addonsv1.ReleasePendingReason, decision.Message)
	case p.observation.State(p.desired) == model.StateInSync:
		reportDeployed(p)
	default:
		reportNotReleased(p.release, standingReason(p.release, decision), withLastError(p.release, decision.Message))
	}
}

// reportWaitingForSlot reports that a release waits for a slot, unless it has a Ready condition already.
func reportWaitingForSlot(release *addonsv1.HelmOpRelease) {
	if conditions.Get(release, addonsv1.ReadyCondition) == nil {
		report.SetNotReady(release, addonsv1.UpdatingReason,
			"The release waits for a slot: the concurrency limit of the manager is reached")
	}
}

// reportUninstallWaits reports that an uninstallation waits for a slot, unless Ready is about the deletion already.
func reportUninstallWaits(release *addonsv1.HelmOpRelease) {
	if ready := conditions.Get(release, addonsv1.ReadyCondition); ready == nil ||
		ready.ObservedGeneration != release.Generation {
		report.SetNotReady(release, addonsv1.DeletingReason,
			"The uninstallation waits for a slot: the concurrency limit of the manager is reached")
	}
}

// reportStalled reports that the retries are spent.
func (r *Reconciler) reportStalled(p *releasePass, decision decide.Decision) {
	release := p.release
	message := withLastError(release, decision.Message)
	if report.SetCondition(release, addonsv1.StalledCondition, report.True, addonsv1.RetriesExhaustedReason, message) {
		r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.RetriesExhaustedReason, string(decision.Action),
			fmt.Sprintf("Cluster %s, release %s: %s", apiutil.ClusterTitle(release), describe(release), message))
	}
	if p.observation.State(p.desired) == model.StateInSync {
		reportDeployed(p)
		return
	}
	reportNotReleased(release, standingReason(release, decision), message)
}

// noteUnhealthy sets the last error to the objects that are not healthy, when an upgrade is rolled back because of
// them. Messages have the last error until the next success.
func noteUnhealthy(release *addonsv1.HelmOpRelease, decision decide.Decision, now time.Time) {
	healthy := conditions.Get(release, addonsv1.HealthyCondition)
	if decision.Reason != decide.ReasonUnhealthy || healthy == nil {
		return
	}
	noteError(release, fmt.Sprintf("Helm revision %d was not healthy at %s (%s): %s", decision.FromRevision,
		now.UTC().Format(time.RFC3339), healthy.Reason, healthy.Message))
}

// maxReleaseStatus is the limit, in bytes, of a status of Helm in the status of a release. The statuses that Helm
// writes are shorter, but other programs may write records, too.
const maxReleaseStatus = 32

// noteError sets the last error, which messages have until the next success.
func noteError(release *addonsv1.HelmOpRelease, message string) {
	release.Status.LastError = apiutil.Truncate(message, report.MaxConditionMessage)
}

// standingReason returns the reason for a release that is not in the desired state while no action runs: the reason
// that is reported already or, without one, that the installation or the upgrade failed.
func standingReason(release *addonsv1.HelmOpRelease, decision decide.Decision) string {
	if decision.State == model.StateRolledBack {
		return addonsv1.RolledBackReason
	}
	switch reported := conditions.GetReason(release, addonsv1.ReleasedCondition); reported {
	case "", addonsv1.ReleasedReason, addonsv1.UpdatingReason, addonsv1.ReleasePendingReason:
		if decision.FromRevision <= 1 {
			return addonsv1.InstallFailedReason
		}
		return addonsv1.UpgradeFailedReason
	default:
		return reported
	}
}

// withLastError returns a message with the last error appended.
func withLastError(release *addonsv1.HelmOpRelease, message string) string {
	if release.Status.LastError == "" {
		return message
	}
	return strings.TrimRight(message, ". ") + "; the last error: " + release.Status.LastError
}

// failureReason returns the reason for a failed action whose error has no reason of its own.
func failureReason(decision decide.Decision) string {
	switch verbOf(decision.Action) {
	case verbInstall:
		return addonsv1.InstallFailedReason
	case verbUninstall:
		return addonsv1.UninstallFailedReason
	case verbRollback:
		return addonsv1.RollbackFailedReason
	case verbTest:
		return addonsv1.TestsFailedReason
	default:
		return addonsv1.UpgradeFailedReason
	}
}

// reportInSync reports that the release is in the desired state and needs no action. It resets the failures.
func reportInSync(p *releasePass) {
	if !p.isListing {
		// A retry request is met if nothing needs to be tried.
		p.release.Status.LastRetryRequest = retryRequest(p.releaseScope)
	}
	p.release.Status.Failures, p.release.Status.LastError = 0, ""
	reportDeployed(p)
}

// reportDeployed reports that the desired state is deployed. Its tests may have failed.
func reportDeployed(p *releasePass) {
	release := p.release
	newest, _ := p.observation.Newest()
	before := release.Status.Release
	if before == nil || before.Revision != int64(newest.Revision) ||
		before.Status != apiutil.Truncate(newest.Status, maxReleaseStatus) ||
		before.ArtifactDigest != release.Spec.Artifact.Digest || before.ValuesDigest != release.Spec.ValuesDigest {
		// The status was lost, for example in a move. The labels on Helm's records show that no action is needed.
		release.Status.Release = &addonsv1.ReleaseObservation{
			Revision: int64(newest.Revision), Status: apiutil.Truncate(newest.Status, maxReleaseStatus),
			Version:        release.Spec.Artifact.Version,
			ArtifactDigest: release.Spec.Artifact.Digest, ValuesDigest: release.Spec.ValuesDigest,
			LastDeployed: metav1.NewTime(newest.ChangedAt),
		}
		if before != nil && before.ArtifactDigest == release.Spec.Artifact.Digest {
			release.Status.Release.Chart, release.Status.Release.AppVersion = before.Chart, before.AppVersion
		}
	}
	reportTests(p, newest)
	setReleased(release)
}

func setReleased(release *addonsv1.HelmOpRelease) {
	message := fmt.Sprintf("Helm revision %d is %s", release.Status.Release.Revision, release.Status.Release.Status)
	report.SetCondition(release, addonsv1.ReleasedCondition, report.True, addonsv1.ReleasedReason, message)
	reportReady(release)
}

// reportReady sets the condition Ready of a release whose newest revision is the desired state. The release is Ready if
// it is healthy and its tests succeeded, as far as health checks and tests are enabled.
func reportReady(release *addonsv1.HelmOpRelease) {
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

func observed(release *addonsv1.HelmOpRelease, decision decide.Decision,
	result helmclient.Result,
) *addonsv1.ReleaseObservation {
	return &addonsv1.ReleaseObservation{
		Revision:       int64(result.Revision),
		Status:         apiutil.Truncate(result.Status, maxReleaseStatus),
		Chart:          apiutil.Truncate(result.ChartName, 253),
		Version:        apiutil.Truncate(result.ChartVersion, 256),
		AppVersion:     apiutil.Truncate(result.AppVersion, 256),
		ArtifactDigest: madeFromDesired(decision, release.Spec.Artifact.Digest),
		ValuesDigest:   madeFromDesired(decision, release.Spec.ValuesDigest),
		LastDeployed:   metav1.NewTime(result.LastDeployed),
	}
}

// reportReleased reports a successful installation or upgrade, with an Event.
func (r *Reconciler) reportReleased(p *releasePass, decision decide.Decision, result helmclient.Result) {
	release := p.release
	wasReleased := conditions.IsTrue(release, addonsv1.ReleasedCondition)
	if p.policy.Test.Enabled {
		report.SetCondition(release, addonsv1.TestedCondition, metav1Unknown, addonsv1.TestsPendingReason,
			"The tests are about to run")
	}
	release.Status.LastError = ""
	setReleased(release)
	reason := addonsv1.UpgradedEvent
	switch {
	case decision.Returns:
		reason = addonsv1.ReturnedEvent
	case verbOf(decision.Action) == verbInstall:
		reason = addonsv1.InstalledEvent
		if since, ok := initializedSince(p.cluster, p.helmOp); ok && !wasReleased {
			monitoring.TimeToDeployed.Observe(r.now().Sub(since).Seconds())
		}
	}
	if decision.Recovery != decide.RecoverNothing {
		r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.RecoveredEvent, verbOf(decision.Action), decision.Message)
	}
	r.event(p.releaseScope, corev1.EventTypeNormal, reason, verbOf(decision.Action), fmt.Sprintf(
		"%s release %s in Cluster %s: chart %s %s, Helm revision %d to %d (%s)", reason, describe(release),
		apiutil.ClusterTitle(release),
		result.ChartName, result.ChartVersion, decision.FromRevision, result.Revision, decision.Reason))
}

// reportRolledBack reports a rollback to a Helm revision that worked, with an Event.
func (r *Reconciler) reportRolledBack(p *releasePass, decision decide.Decision, result helmclient.Result) {
	release := p.release
	reportNotReleased(release, addonsv1.RolledBackReason, withLastError(release, decision.Message))
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.RolledBackEvent, verbRollback, fmt.Sprintf(
		"Rolled back release %s in Cluster %s: Helm revision %d has the content of Helm revision %d, chart %s %s (%s): %s",
		describe(release), apiutil.ClusterTitle(release), result.Revision, decision.RollbackTo, result.ChartName,
		result.ChartVersion, decision.Reason, release.Status.LastError))
}

// verbOf returns the name of an action for status, Events and metrics. A recovery has the name of the action that
// follows it.
func verbOf(action model.Action) string {
	switch action {
	case model.ActionInstall, model.ActionRecoverThenInstall:
		return verbInstall
	case model.ActionUpgrade, model.ActionRecoverThenUpgrade:
		return verbUpgrade
	default:
		return string(action)
	}
}
