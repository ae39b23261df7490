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

// assessHealth sets the health of the release from the state of its objects. It sends no request.
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
		r.setHealthy(p, metav1Unknown, reason, "it is not known what to look at: "+p.unread.Error())
		return
	}
	if release.Status.Inventory == nil {
		return
	}
	if _, err := checkerOf(release.Spec.Health); err != nil {
		r.setHealthy(p, report.False, addonsv1.InvalidHealthCheckReason, err.Error())
		return
	}
	seen := r.observeObjects(p, healthRefs(release))
	r.addExistence(p, &seen)
	p.missing, p.unlisted = seen.missing, seen.unlisted
	r.judgeHealth(p, seen)
}

// judgeHealth adds up the state of the objects. An object that is known to have failed counts at once, even if others
// are not seen. Only if all objects are seen can a release be healthy, or a revision have failed and be remediated.
func (r *Reconciler) judgeHealth(p *releasePass, seen objectView) {
	release := p.release
	memory, isKnown := r.rememberedHealth(p)
	summary := health.Summarize(seen.objects, healthPolicy(&release.Spec), health.Past{
		Revision: memory.Revision, DeployedAt: memory.Since.Time,
		Healthy: memory.WasHealthy, Lost: memory.Lost, ProgressingSince: memory.ProgressingSince.Time,
	}, r.now())
	isBad := summary.State == health.StateFailed || summary.State == health.StateTimedOut
	p.due(summary.RequeueAfter)
	if seen.blocker == "" {
		memory.WasHealthy, memory.Lost = summary.Past.Healthy, summary.Past.Lost
		memory.ProgressingSince = metav1.NewTime(summary.Past.ProgressingSince)
		memory.Failed = memory.Failed || memory.Deployed && isBad && !memory.WasHealthy
	} else if !summary.Past.ProgressingSince.IsZero() {
		memory.Lost = memory.Lost || summary.Past.Lost
		memory.ProgressingSince = metav1.NewTime(summary.Past.ProgressingSince)
	}
	p.unseeable = seen.isDenied()
	blindFor := r.unobservedFor(p, seen)
	if seen.blocker == "" || isBad {
		r.reportHealth(p, summary, p.missing > 0)
	} else {
		r.reportUnobserved(p, seen, blindFor, isKnown)
	}
	release.Status.Health = &memory
	newest, _ := p.observation.Newest()
	p.unhealthy = isBad && seen.blocker == "" && memory.Failed && !memory.WasHealthy &&
		int64(newest.Revision) == memory.Revision
}

// beginHealth begins to follow the health of a revision that was just deployed.
func (r *Reconciler) beginHealth(release *addonsv1.HelmOpRelease, result helmclient.Result) {
	memory, now := r.memoryOf(release), r.now()
	memory.unobservedSince, memory.written = time.Time{}, written{}
	release.Status.Health = nil
	if !releasespec.FollowsHealth(&release.Spec) {
		return
	}
	memory.written = writtenBy(healthRefs(release), result.Generations, now)
	// The time of hooks and of Helm's wait does not count.
	release.Status.Health = &addonsv1.HealthStatus{Revision: int64(result.Revision), Since: wholeSeconds(now),
		Deployed: true}
	report.SetCondition(release, addonsv1.HealthyCondition, metav1Unknown, addonsv1.HealthProgressingReason, aboutToLook)
}

// rememberedHealth is the health of the followed revision in the status, and whether there is any. A revision that
// was deployed, but not seen for long since, because of a pause for example, may have been healthy meanwhile: its
// health begins at zero.
func (r *Reconciler) rememberedHealth(p *releasePass) (memory addonsv1.HealthStatus, isKnown bool) {
	release, now := p.release, r.now()
	memory.Revision = release.Status.Inventory.Revision
	newest, _ := p.observation.Newest()
	switch known := release.Status.Health; {
	case known == nil:
	case known.Revision == memory.Revision:
		memory, isKnown = *known, true
	case known.Revision < memory.Revision && memory.Revision == int64(newest.Revision) && newest.IsDeployedFor(p.desired):
		// The process that deployed the revision ended, or could not write the status.
		memory.Deployed, memory.Since = true, wholeSeconds(now)
		if newest.ChangedAt.Before(now) {
			memory.Since = wholeSeconds(newest.ChangedAt)
		}
	}
	timeout := cmp.Or(healthPolicy(&release.Spec).Timeout, health.DefaultTimeout)
	isLate := now.Sub(memory.Since.Time) > timeout+max(timeout, health.DefaultTimeout)
	isMissed := memory.Deployed && !memory.WasHealthy && !memory.Failed && isLate
	// An object that is known to be unhealthy stays so until it is seen again.
	if memory.Since.IsZero() || isMissed && !conditions.IsFalse(release, addonsv1.HealthyCondition) {
		memory.Since = wholeSeconds(now)
	}
	memory.Deployed, memory.Missed = memory.Deployed && !isMissed, memory.Missed || isMissed
	return memory, isKnown
}

// wholeSeconds is a time with the precision of the status.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// reportHealth sets the condition Healthy.
func (r *Reconciler) reportHealth(p *releasePass, summary health.Summary, lacksObjects bool) {
	message := summary.Message
	if p.release.Status.Inventory.Truncated {
		// In front, because long messages are cut off at the end.
		message = strings.TrimSuffix(fmt.Sprintf("the release has too many objects, only %d are followed; %s", maxInventory,
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

// aboutToLook is the message before the first state of the objects is known.
const aboutToLook = "the objects of the release are about to be looked at"

// unobservedFor is how long not all objects have been seen; 0 if all are. It schedules the next pass.
func (r *Reconciler) unobservedFor(p *releasePass, seen objectView) time.Duration {
	memory, now := r.memoryOf(p.release), r.now()
	if seen.blocker == "" {
		memory.unobservedSince = time.Time{}
		return 0
	}
	if memory.unobservedSince.IsZero() {
		memory.unobservedSince = now
	}
	since := memory.unobservedSince
	if seen.watchError != nil && seen.watchError.Since.Before(since) {
		since = seen.watchError.Since
	}
	if !seen.isDenied() {
		p.due(writtenGrace)
	}
	return now.Sub(since)
}

// reportUnobserved sets the condition Healthy while not all objects are seen. The last known health of the revision
// stays for a while: API servers restart.
func (r *Reconciler) reportUnobserved(p *releasePass, seen objectView, blindFor time.Duration, isKnown bool) {
	before := conditions.Get(p.release, addonsv1.HealthyCondition)
	switch {
	case seen.isDenied():
		r.setHealthy(p, metav1Unknown, addonsv1.HealthUnknownReason,
			"the objects of the release cannot be watched; permit it, or set health.mode to Disabled: "+
				seen.watchError.Err.Error())
	case blindFor >= objectwatch.StuckAfter:
		r.setHealthy(p, metav1Unknown, addonsv1.HealthUnknownReason, seen.blocker)
	case !isKnown || before == nil || before.Status == metav1Unknown || before.Reason == addonsv1.InvalidHealthCheckReason:
		r.setHealthy(p, metav1Unknown, addonsv1.HealthProgressingReason, seen.blocker)
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

// setHealthy sets the condition Healthy, with an Event if the health becomes worse or better.
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
