/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
)

// What is done to a release, in status, Events and metrics.
const (
	verbInstall   = "Install"
	verbUpgrade   = "Upgrade"
	verbUninstall = "Uninstall"
)

// Tries that changed the cluster and failed are repeated after 10 s, 20 s, 40 s and so on, up to 10 min. Each makes a
// Helm revision: less would push what worked out of the history within minutes.
const (
	minActionRetry = 10 * time.Second
	maxActionRetry = 10 * time.Minute
)

// retryBackoff is the wait after a number of failures in a row.
func retryBackoff(failures int32) time.Duration {
	delay := minActionRetry
	for range min(max(failures, 1), 16) - 1 {
		delay *= 2
	}
	return min(delay, maxActionRetry)
}

// retryDelay is how long an attempt must still wait because the same one failed before; 0 is not at all. Another
// attempt than the last need not wait.
func retryDelay(status *addonsv1.HelmOpReleaseStatus, attempt string, now time.Time) time.Duration {
	if status.Failures == 0 || status.LastAttemptedRevision != attempt {
		return 0
	}
	return max(0, status.LastAttemptedAt.Add(retryBackoff(status.Failures)).Sub(now))
}

func reportReachable(release *addonsv1.HelmOpRelease) {
	setCondition(release, addonsv1.ClusterReachableCondition, metav1.ConditionTrue, addonsv1.ClusterReachableReason, "")
}

// reportOutdated says that nothing is known yet of what is wanted since the spec changed. A pass that ends early must not
// let what was true of another generation stand for this one.
func reportOutdated(obj conditions.Setter) {
	ready := conditions.Get(obj, addonsv1.ReadyCondition)
	generation := obj.(metav1.Object).GetGeneration()
	if ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration != generation &&
		!conditions.IsTrue(obj, addonsv1.PausedCondition) {
		setCondition(obj, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ProgressingReason, "the spec changed and was not acted upon yet")
	}
}

// reportUnreachable leaves Released as it is: nothing is known to have changed.
func reportUnreachable(release *addonsv1.HelmOpRelease, message string) {
	setCondition(release, addonsv1.ClusterReachableCondition, metav1.ConditionFalse, addonsv1.ClusterUnreachableReason, message)
	setNotReady(release, addonsv1.ClusterUnreachableReason, message)
}

// reportNotReleased tells why the release is not as it is wanted, and whether that is news.
func reportNotReleased(release *addonsv1.HelmOpRelease, reason, message string) bool {
	changed := setCondition(release, addonsv1.ReleasedCondition, metav1.ConditionFalse, reason, message)
	return setNotReady(release, reason, message) || changed
}

// reportWaiting says why the last try failed while the next one waits for its time.
func reportWaiting(release *addonsv1.HelmOpRelease, decision helmclient.Decision) {
	if conditions.GetReason(release, addonsv1.ReadyCondition) == addonsv1.ClusterUnreachableReason {
		reportNotReleased(release, failureReason(decision), release.Status.LastError)
	}
}

// failureReason is the reason of an action that failed for no reason with a name of its own.
func failureReason(decision helmclient.Decision) string {
	switch verbOf(decision.Action) {
	case verbInstall:
		return addonsv1.InstallFailedReason
	case verbUninstall:
		return addonsv1.UninstallFailedReason
	default:
		return addonsv1.UpgradeFailedReason
	}
}

// reportInSync says that the cluster has what is wanted.
func reportInSync(release *addonsv1.HelmOpRelease, observation helmclient.Observation) {
	newest, _ := observation.Newest()
	known := release.Status.Release
	if known == nil || known.Revision != int64(newest.Revision) || known.Status != newest.Status ||
		known.ArtifactDigest != release.Spec.Artifact.Digest || known.ValuesDigest != release.Spec.ValuesDigest {
		// The status was lost, in a move for example; the labels in the cluster tell that nothing needs to be done.
		release.Status.Release = &addonsv1.ReleaseObservation{
			Revision: int64(newest.Revision), Status: newest.Status, Version: release.Spec.Artifact.Version,
			ArtifactDigest: release.Spec.Artifact.Digest, ValuesDigest: release.Spec.ValuesDigest,
			LastDeployed: metav1.NewTime(newest.ChangedAt),
		}
		if known != nil {
			release.Status.Release.Chart, release.Status.Release.AppVersion = known.Chart, known.AppVersion
		}
	}
	setReleased(release)
}

func setReleased(release *addonsv1.HelmOpRelease) {
	release.Status.Failures, release.Status.LastError = 0, ""
	message := fmt.Sprintf("revision %d is %s", release.Status.Release.Revision, release.Status.Release.Status)
	setCondition(release, addonsv1.ReleasedCondition, metav1.ConditionTrue, addonsv1.ReleasedReason, message)
	setCondition(release, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason, message)
}

// recordAttempt notes what was done, how it ended, and how often it failed.
func (r *releaseReconciler) recordAttempt(scope *releaseScope, decision helmclient.Decision, result helmclient.Result, attempt string, err error) {
	status := &scope.release.Status
	if err != nil && !result.StorageChanged {
		return
	}
	switch {
	case err == nil:
		status.Failures = 0
	case status.LastAttemptedRevision == attempt:
		status.Failures++
	default:
		status.Failures = 1
	}
	status.LastAttemptedRevision, status.LastAttemptedAt = attempt, metav1.NewTime(r.now())
	entry := addonsv1.ReleaseAction{
		Action:         verbOf(decision.Action),
		Reason:         decision.Reason,
		FromRevision:   int64(decision.FromRevision),
		Revision:       int64(result.Revision),
		Succeeded:      err == nil,
		ChartVersion:   result.ChartVersion,
		ArtifactDigest: scope.release.Spec.Artifact.Digest,
		ValuesDigest:   scope.release.Spec.ValuesDigest,
		Time:           status.LastAttemptedAt,
	}
	status.History = append([]addonsv1.ReleaseAction{entry}, status.History...)
	if len(status.History) > maxHistory {
		status.History = status.History[:maxHistory]
	}
	if result.Revision > 0 {
		status.Release = observed(scope.release, result)
	}
}

func observed(release *addonsv1.HelmOpRelease, result helmclient.Result) *addonsv1.ReleaseObservation {
	return &addonsv1.ReleaseObservation{
		Revision:       int64(result.Revision),
		Status:         result.Status,
		Chart:          result.ChartName,
		Version:        result.ChartVersion,
		AppVersion:     truncate(result.AppVersion, 256),
		ArtifactDigest: release.Spec.Artifact.Digest,
		ValuesDigest:   release.Spec.ValuesDigest,
		LastDeployed:   metav1.NewTime(result.LastDeployed),
	}
}

// reportReleased tells of a successful installation or upgrade.
func (r *releaseReconciler) reportReleased(scope *releaseScope, decision helmclient.Decision, result helmclient.Result) {
	release := scope.release
	wasReady := conditions.IsTrue(release, addonsv1.ReleasedCondition)
	setReleased(release)
	reason := addonsv1.UpgradedEvent
	if verbOf(decision.Action) == verbInstall {
		reason = addonsv1.InstalledEvent
		if since, ok := firstServed(scope.cluster, scope.helmOp); ok && !wasReady {
			timeToDeployed.Observe(r.now().Sub(since).Seconds())
		}
	}
	if decision.Recovery != helmclient.RecoverNothing {
		r.event(scope, corev1.EventTypeNormal, addonsv1.RecoveredEvent, verbOf(decision.Action), decision.Message)
	}
	r.event(scope, corev1.EventTypeNormal, reason, verbOf(decision.Action), fmt.Sprintf("%s release %s in Cluster %s: chart %s %s, revision %d (%s)",
		reason, describe(release), release.Spec.ClusterRef.Name, result.ChartName, result.ChartVersion, result.Revision, decision.Reason))
}

// verbOf is the Helm action that a decision comes down to.
func verbOf(action helmclient.Action) string {
	switch action {
	case helmclient.ActionInstall, helmclient.ActionRecoverThenInstall:
		return verbInstall
	case helmclient.ActionUninstall:
		return verbUninstall
	default:
		return verbUpgrade
	}
}
