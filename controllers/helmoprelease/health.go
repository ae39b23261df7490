// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// assessHealth sets the condition Healthy and status.health from the snapshot of the objects. It sends no request.
func (r *Reconciler) assessHealth(p *releasePass) {
	release := p.release
	if !releasespec.FollowsHealth(&release.Spec) {
		conditions.Delete(release, addonsv1.HealthyCondition)
		release.Status.Health = nil
		return
	}
	if p.unread != nil {
		reason := addonsv1.HealthUnknownReason
		if errors.Is(p.unread, errNoSlot) {
			reason = addonsv1.HealthProgressingReason
		}
		r.setHealthy(p, metav1Unknown, reason, "The health of the release is not known: "+p.unread.Error())
		return
	}
	if release.Status.Inventory == nil {
		return
	}
	if _, err := checkerOf(release.Spec.Health); err != nil {
		r.setHealthy(p, report.False, addonsv1.InvalidHealthCheckReason, err.Error())
		return
	}
	view := r.observeObjects(p, healthRefs(release))
	r.addExistence(p, &view)
	p.missing, p.unlisted = view.missing, view.unlisted
	r.summarizeHealth(p, view)
}

// summarizeHealth computes the health of the release from the state of its objects. An object that is known to have
// failed counts at once, even if the current state of other objects is not known. Only if the current state of all
// objects is known can the release be healthy, or can the revision fail and be remediated.
func (r *Reconciler) summarizeHealth(p *releasePass, view objectView) {
	release := p.release
	memory, isKnown := r.healthInStatus(p)
	summary := health.Summarize(view.objects, healthPolicy(&release.Spec), health.Past{
		Revision: memory.Revision, DeployedAt: memory.Since.Time,
		Healthy: memory.WasHealthy, Lost: memory.Lost, ProgressingSince: memory.ProgressingSince.Time,
	}, r.now())
	isBad := summary.State == health.StateFailed || summary.State == health.StateTimedOut
	p.due(summary.RequeueAfter)
	if view.blocker == "" {
		memory.WasHealthy, memory.Lost = summary.Past.Healthy, summary.Past.Lost
		memory.ProgressingSince = metav1.NewTime(summary.Past.ProgressingSince)
		memory.Failed = memory.Failed || memory.Deployed && isBad && !memory.WasHealthy
	} else if !summary.Past.ProgressingSince.IsZero() {
		memory.Lost = memory.Lost || summary.Past.Lost
		memory.ProgressingSince = metav1.NewTime(summary.Past.ProgressingSince)
	}
	p.unwatchable = view.isDenied()
	unobserved := r.unobservedFor(p, view)
	if view.blocker == "" || isBad {
		r.reportHealth(p, summary, p.missing > 0)
	} else {
		r.reportUnobserved(p, view, unobserved, isKnown)
	}
	release.Status.Health = &memory
	newest, _ := p.observation.Newest()
	p.unhealthy = isBad && view.blocker == "" && memory.Failed && !memory.WasHealthy &&
		int64(newest.Revision) == memory.Revision
}

// beginHealth resets status.health for a Helm revision that was just deployed.
func (r *Reconciler) beginHealth(release *addonsv1.HelmOpRelease, result helmclient.Result) {
	memory, now := r.memoryOf(release), r.now()
	memory.unobservedSince, memory.written = time.Time{}, written{}
	release.Status.Health = nil
	if !releasespec.FollowsHealth(&release.Spec) {
		return
	}
	memory.written = writtenBy(healthRefs(release), result.Generations, now)
	// The timeout of the health starts now, after hooks and Helm's own wait.
	release.Status.Health = &addonsv1.HealthStatus{Revision: int64(result.Revision), Since: wholeSeconds(now),
		Deployed: true}
	report.SetCondition(release, addonsv1.HealthyCondition, metav1Unknown, addonsv1.HealthProgressingReason, notCheckedYet)
}

// healthInStatus returns the health of the current Helm revision from the status; isKnown is false if there is none. A
// deployed revision may not have been watched for long, for example during a pause. It may have been healthy meanwhile,
// so its health starts again.
func (r *Reconciler) healthInStatus(p *releasePass) (memory addonsv1.HealthStatus, isKnown bool) {
	release, now := p.release, r.now()
	memory.Revision = release.Status.Inventory.Revision
	newest, _ := p.observation.Newest()
	switch last := release.Status.Health; {
	case last == nil:
	case last.Revision == memory.Revision:
		memory, isKnown = *last, true
	case last.Revision < memory.Revision && memory.Revision == int64(newest.Revision) && newest.IsDeployedFor(p.desired):
		// The manager stopped after it deployed the revision, or could not write the status.
		memory.Deployed, memory.Since = true, wholeSeconds(now)
		if newest.ChangedAt.Before(now) {
			memory.Since = wholeSeconds(newest.ChangedAt)
		}
	}
	timeout := cmp.Or(healthPolicy(&release.Spec).Timeout, health.DefaultTimeout)
	isLate := now.Sub(memory.Since.Time) > timeout+max(timeout, health.DefaultTimeout)
	isMissed := memory.Deployed && !memory.WasHealthy && !memory.Failed && isLate
	// A release that is known to be unhealthy stays unhealthy until its objects are observed again.
	if memory.Since.IsZero() || isMissed && !conditions.IsFalse(release, addonsv1.HealthyCondition) {
		memory.Since = wholeSeconds(now)
	}
	memory.Deployed, memory.Missed = memory.Deployed && !isMissed, memory.Missed || isMissed
	return memory, isKnown
}

// wholeSeconds returns a time with the precision of the status.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// reportHealth sets the condition Healthy from a summary.
func (r *Reconciler) reportHealth(p *releasePass, summary health.Summary, lacksObjects bool) {
	message := summary.Message
	if p.release.Status.Inventory.Truncated {
		// At the start, because long messages are truncated at the end.
		message = strings.TrimSuffix(fmt.Sprintf("The release has too many objects: HelmOp watches only %d; %s", maxInventory,
			message), "; ")
	}
	switch summary.State {
	case health.StateHealthy:
		r.setHealthy(p, report.True, addonsv1.HealthyReason, message)
	case health.StateProgressing:
		r.setHealthy(p, metav1Unknown, addonsv1.HealthProgressingReason, message)
	case health.StateTimedOut:
		r.setHealthy(p, report.False, addonsv1.HealthTimeoutReason, message)
	default:
		reason := addonsv1.HealthFailedReason
		if lacksObjects {
			reason = addonsv1.ObjectsMissingReason
			message += "; " + restoreHint
		}
		r.setHealthy(p, report.False, reason, message)
	}
}

// notCheckedYet is the message before the state of all objects is known for the first time.
const notCheckedYet = "The objects of the release are not checked yet"

// unobservedFor returns for how long the current state of some objects has not been known; 0 if it is known. It
// schedules the next pass.
func (r *Reconciler) unobservedFor(p *releasePass, view objectView) time.Duration {
	memory, now := r.memoryOf(p.release), r.now()
	if view.blocker == "" {
		memory.unobservedSince = time.Time{}
		return 0
	}
	if memory.unobservedSince.IsZero() {
		memory.unobservedSince = now
	}
	since := memory.unobservedSince
	if view.watchError != nil && view.watchError.Since.Before(since) {
		since = view.watchError.Since
	}
	if !view.isDenied() {
		p.due(writtenGrace)
	}
	return now.Sub(since)
}

// reportUnobserved sets the condition Healthy while the current state of some objects is not known. The last known
// health stays for objectwatch.StuckAfter, because API servers restart.
func (r *Reconciler) reportUnobserved(p *releasePass, view objectView, unobserved time.Duration, isKnown bool) {
	before := conditions.Get(p.release, addonsv1.HealthyCondition)
	switch {
	case view.isDenied():
		r.setHealthy(p, metav1Unknown, addonsv1.HealthUnknownReason,
			"The objects of the release cannot be watched; permit list and watch, or set health.mode to Disabled: "+
				view.watchError.Err.Error())
	case unobserved >= objectwatch.StuckAfter:
		r.setHealthy(p, metav1Unknown, addonsv1.HealthUnknownReason, view.blocker)
	case !isKnown || before == nil || before.Status == metav1Unknown || before.Reason == addonsv1.InvalidHealthCheckReason:
		r.setHealthy(p, metav1Unknown, addonsv1.HealthProgressingReason, view.blocker)
	}
}

func healthPolicy(spec *addonsv1.HelmOpReleaseSpec) health.Policy {
	policy := health.Policy{FailFast: true}
	if spec.Health != nil {
		policy.Timeout = releasespec.Duration(spec.Health.Timeout)
		policy.FailFast = ptr.Deref(spec.Health.FailFast, true)
	}
	return policy
}

// setHealthy sets the condition Healthy. It records an Event if the condition becomes False, or True after False.
func (r *Reconciler) setHealthy(p *releasePass, status metav1.ConditionStatus, reason, message string) {
	before := conditions.Get(p.release, addonsv1.HealthyCondition)
	wasFalse := before != nil && before.Status == report.False
	changed := report.SetCondition(p.release, addonsv1.HealthyCondition, status, reason, message)
	switch {
	case changed && status == report.False:
		r.event(p.releaseScope, corev1.EventTypeWarning, reason, "Watch",
			fmt.Sprintf("Cluster %s, release %s: %s", apiutil.ClusterTitle(p.release), describe(p.release), message))
	case wasFalse && status == report.True:
		r.event(p.releaseScope, corev1.EventTypeNormal, reason, "Watch",
			fmt.Sprintf("Cluster %s, release %s is healthy again", apiutil.ClusterTitle(p.release), describe(p.release)))
	}
}
