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

// assessHealth says how the objects of a release are, by what is seen of them. It sends no request.
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

// judgeHealth adds up what is seen of the objects. What is known to be wrong counts at once, whatever else is not seen; but
// only who sees everything may say that all is well, or that a revision has failed and is to be remediated.
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
	p.unhealthy = isBad && seen.blocker == "" && memory.Failed && !memory.WasHealthy && int64(newest.Revision) == memory.Revision
}

// beginHealth begins to follow a revision that was just deployed.
func (r *Reconciler) beginHealth(release *addonsv1.HelmOpRelease, result helmclient.Result) {
	memory, now := r.memoryOf(release), r.now()
	memory.unobservedSince, memory.written = time.Time{}, written{}
	release.Status.Health = nil
	if !releasespec.FollowsHealth(&release.Spec) {
		return
	}
	memory.written = writtenBy(healthRefs(release), result.Generations, now)
	// Hooks and what Helm waited for took their time before: it counts from now on.
	release.Status.Health = &addonsv1.HealthStatus{Revision: int64(result.Revision), Since: wholeSeconds(now), Deployed: true}
	report.SetCondition(release, addonsv1.HealthyCondition, metav1Unknown, addonsv1.HealthProgressingReason, aboutToLook)
}

// rememberedHealth is what the status remembers of the health of the revision that is followed, and whether it remembers
// anything. One that was deployed, but not seen for long after, by a pause for example, may have worked meanwhile: it counts
// as one that is looked at for the first time.
func (r *Reconciler) rememberedHealth(p *releasePass) (memory addonsv1.HealthStatus, isKnown bool) {
	release, now := p.release, r.now()
	memory.Revision = release.Status.Inventory.Revision
	newest, _ := p.observation.Newest()
	switch known := release.Status.Health; {
	case known == nil:
	case known.Revision == memory.Revision:
		memory, isKnown = *known, true
	case known.Revision < memory.Revision && memory.Revision == int64(newest.Revision) && newest.IsDeployedFor(p.desired):
		// Who deployed it did not get to say so: the process ended, or the status could not be written.
		memory.Deployed, memory.Since = true, wholeSeconds(now)
		if newest.ChangedAt.Before(now) {
			memory.Since = wholeSeconds(newest.ChangedAt)
		}
	}
	timeout := cmp.Or(healthPolicy(&release.Spec).Timeout, health.DefaultTimeout)
	isLate := now.Sub(memory.Since.Time) > timeout+max(timeout, health.DefaultTimeout)
	isMissed := memory.Deployed && !memory.WasHealthy && !memory.Failed && isLate
	// What is known to be unhealthy, as far as it is seen, does not become less so.
	if memory.Since.IsZero() || isMissed && !conditions.IsFalse(release, addonsv1.HealthyCondition) {
		memory.Since = wholeSeconds(now)
	}
	memory.Deployed, memory.Missed = memory.Deployed && !isMissed, memory.Missed || isMissed
	return memory, isKnown
}

// wholeSeconds is a time as the status holds it.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// reportHealth says what the objects of a release come to.
func (r *Reconciler) reportHealth(p *releasePass, summary health.Summary, lacksObjects bool) {
	message := summary.Message
	if p.release.Status.Inventory.Truncated {
		// In front: what is too long is cut off at the end.
		message = strings.TrimSuffix(fmt.Sprintf("the release has too many objects, only %d are followed; %s", maxInventory, message), "; ")
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

// aboutToLook says that a release is new.
const aboutToLook = "the objects of the release are about to be looked at"

// unobservedFor is for how long not all objects have been seen; 0 if all are. It sees to it that they are looked at again.
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

// reportUnobserved says what is to be said while not all objects are seen. What was said of this revision before stands for a
// while: API servers restart.
func (r *Reconciler) reportUnobserved(p *releasePass, seen objectView, blindFor time.Duration, isKnown bool) {
	before := conditions.Get(p.release, addonsv1.HealthyCondition)
	switch {
	case seen.isDenied():
		r.setHealthy(p, metav1Unknown, addonsv1.HealthUnknownReason, "the objects of the release cannot be watched; permit it, or set health.mode to Disabled: "+
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

// setHealthy says how the release is, and tells people when that becomes worse or better.
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
