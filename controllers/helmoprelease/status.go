// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	metav1Unknown = metav1.ConditionUnknown
)

// reportWaiting reports that the release waits for another program's action or for its next try.
func reportWaiting(p *releasePass, decision decide.Decision) {
	switch {
	case decision.Reason != decide.ReasonBackoff:
		releasestatus.NotReleased(p.release, addonsv1.ReleasePendingReason, decision.Message)
	case p.observation.State(p.desired) == model.StateInSync:
		p.reportDeployed()
	default:
		releasestatus.NotReleased(p.release, releasestatus.StandingReason(p.release, decision),
			releasestatus.WithLastError(p.release, decision.Message))
	}
}

// reportStalled reports that no retries are left.
func (r *Reconciler) reportStalled(p *releasePass, decision decide.Decision) {
	release := p.release
	message := releasestatus.WithLastError(release, decision.Message)
	if report.SetCondition(release, addonsv1.StalledCondition, report.True, addonsv1.RetriesExhaustedReason, message) {
		r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.RetriesExhaustedReason, string(decision.Action),
			fmt.Sprintf("Cluster %s, release %s: %s", apiutil.ClusterTitle(release), describe(release), message))
	}
	if p.observation.State(p.desired) == model.StateInSync {
		p.reportDeployed()
		return
	}
	releasestatus.NotReleased(release, releasestatus.StandingReason(release, decision), message)
}

// reportRefused reports that a release of another owner is not changed. It records an Event once.
func (r *Reconciler) reportRefused(p *releasePass, decision decide.Decision) {
	reason := addonsv1.ReleaseConflictReason
	if decision.Reason == decide.ReasonWouldChange {
		reason = addonsv1.AdoptionWouldChangeReason
	}
	r.reportConflict(p, string(decision.Action), reason, decision.Message)
}

// reportConflict reports that HelmOp does not change a release of another owner. It records an Event once.
func (r *Reconciler) reportConflict(p *releasePass, action, reason, message string) {
	if releasestatus.NotReleased(p.release, reason, message) {
		r.event(p.releaseScope, corev1.EventTypeWarning, reason, action, message)
	}
}

// reportInSync reports that the release has the desired state and needs no action. It resets the failures.
func reportInSync(p *releasePass) {
	if !p.isListing {
		// A retry request is met if nothing needs a retry.
		p.release.Status.LastRetryRequest = attempts.RetryRequest(p.release, p.helmOp)
	}
	p.release.Status.Failures, p.release.Status.LastError = 0, ""
	p.reportDeployed()
}

// reportDeployed reports that the desired state is deployed.
func (p *releasePass) reportDeployed() {
	newest, _ := p.observation.Newest()
	releasestatus.Deployed(p.release, newest, p.policy.Test.Enabled)
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
	releasestatus.Released(release)
	reason := addonsv1.UpgradedEvent
	switch {
	case decision.Returns:
		reason = addonsv1.ReturnedEvent
	case attempts.VerbOf(decision.Action) == attempts.VerbInstall:
		reason = addonsv1.InstalledEvent
		if since, ok := initializedSince(p.cluster, p.helmOp); ok && !wasReleased {
			monitoring.TimeToDeployed.Observe(r.now().Sub(since).Seconds())
		}
	}
	if decision.Recovery != decide.RecoverNothing {
		r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.RecoveredEvent, attempts.VerbOf(decision.Action),
			decision.Message)
	}
	r.event(p.releaseScope, corev1.EventTypeNormal, reason, attempts.VerbOf(decision.Action), fmt.Sprintf(
		"%s release %s in Cluster %s: chart %s %s, Helm revision %d to %d (%s)", reason, describe(release),
		apiutil.ClusterTitle(release),
		result.ChartName, result.ChartVersion, decision.FromRevision, result.Revision, decision.Reason))
}

// reportAdopted reports an adoption that did not create a Helm revision, with an Event. The next pass reads the objects
// of the release.
func (r *Reconciler) reportAdopted(p *releasePass, decision decide.Decision, result helmclient.Result) {
	p.release.Status.LastError = ""
	r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.AdoptedEvent, attempts.VerbAdopt, fmt.Sprintf(
		"Adopted release %s in Cluster %s without a change: chart %s %s, Helm revision %d stays (%s)",
		describe(p.release), apiutil.ClusterTitle(p.release), result.ChartName, result.ChartVersion, result.Revision,
		decision.Reason))
}

// reportRolledBack reports a rollback to a Helm revision that worked before, with an Event.
func (r *Reconciler) reportRolledBack(p *releasePass, decision decide.Decision, result helmclient.Result) {
	release := p.release
	releasestatus.NotReleased(release, addonsv1.RolledBackReason, releasestatus.WithLastError(release, decision.Message))
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.RolledBackEvent, attempts.VerbRollback, fmt.Sprintf(
		"Rolled back release %s in Cluster %s: Helm revision %d has the content of Helm revision %d, chart %s %s (%s): %s",
		describe(release), apiutil.ClusterTitle(release), result.Revision, decision.RollbackTo, result.ChartName,
		result.ChartVersion, decision.Reason, release.Status.LastError))
}

// reportTested reports the results of the chart's tests, with an Event.
func (r *Reconciler) reportTested(p *releasePass, result helmclient.Result) {
	message, hasFailed := releasestatus.Tested(p.release, result)
	eventType := corev1.EventTypeNormal
	if hasFailed {
		eventType = corev1.EventTypeWarning
	}
	r.event(p.releaseScope, eventType, addonsv1.TestedEvent, attempts.VerbTest, fmt.Sprintf(
		"Tested release %s in Cluster %s: %s", describe(p.release), apiutil.ClusterTitle(p.release), message))
}

// reportRecordsLeft counts records that could not be deleted. For each HelmOp, it records an Event and writes a line of
// the log at most once an hour, because the cause rarely changes.
func (r *Reconciler) reportRecordsLeft(ctx context.Context, scope *releaseScope, result helmclient.Result) {
	if result.RecordsLeft == 0 {
		return
	}
	monitoring.RecordsLeft.Add(float64(result.RecordsLeft))
	if scope.helmOp == nil || !r.recordsLeft.Add(scope.helmOp.UID, r.now()) {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Records that no release needs could not be deleted", "HelmOp", scope.helmOp.Name,
		"why", result.RecordsLeftReason)
	r.recorder.Eventf(scope.helmOp, scope.release, corev1.EventTypeWarning, addonsv1.RecordsLeftEvent, "DeleteRecords",
		"%s", apiutil.Truncate(fmt.Sprintf(
			"Records that no release needs could not be deleted: %s; delete them by hand, permit the credentials to delete, "+
				"or configure the retention of the registry", result.RecordsLeftReason), report.MaxEventMessage))
}
