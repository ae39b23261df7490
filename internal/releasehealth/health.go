// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasehealth

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// restoreHint is the part of a message that says how a user can create deleted objects again.
const restoreHint = "to create the missing objects, set driftDetection.mode to Correct, or request a retry"

// Memory is the state of the objects of one release that is not in its status. A restart loses it. The zero value is
// empty. A Memory is not safe for concurrent use.
type Memory struct {
	// written holds the generation of each object after the last action, until a watch shows this generation.
	written written

	// observedSince is when this process first observed objects of the revision that are not healthy, see
	// [health.Past].ObservedSince.
	observedSince time.Time

	// unobservedSince is when the current state of some objects became unknown; zero if all states are known.
	unobservedSince time.Time
}

// ForgetGenerations removes the generations of the last action, because another program created the newest revision.
func (m *Memory) ForgetGenerations() { m.written = written{} }

// Begin resets the memory and status.health for a Helm revision that was just deployed.
func (m *Memory) Begin(release *addonsv1.HelmOpRelease, result helmclient.Result, now time.Time) {
	*m = Memory{}
	release.Status.Health = nil
	if !releasespec.FollowsHealth(&release.Spec) {
		return
	}
	m.written = writtenBy(releaseinventory.HealthRefs(release), result.Generations, now)
	// The timeout for the health starts now, after hooks and Helm's own wait.
	release.Status.Health = &addonsv1.HealthStatus{Revision: int64(result.Revision), Since: wholeSeconds(now),
		Deployed: true}
	report.SetCondition(release, addonsv1.HealthyCondition, metav1.ConditionUnknown, addonsv1.HealthProgressingReason,
		notCheckedYet)
}

// Seen holds the observations of a pass about the objects of a release.
type Seen struct {
	// Snapshot is the state of the objects according to the watches; nil if it is not known.
	Snapshot *objectwatch.Snapshot

	// Unread is the error of reading the objects of the newest revision; nil if they are known. IsReadPending is true if
	// they will be read when a slot is free.
	Unread        error
	IsReadPending bool

	// Newest is the newest Helm revision, and Desired is the desired state.
	Newest  model.Record
	Desired model.Desired

	Now time.Time
}

// Change is a change of the condition Healthy that needs an Event.
type Change int

const (
	// NoChange means that Healthy did not change, or that the change needs no Event.
	NoChange Change = iota

	// BecameUnhealthy means that Healthy became False.
	BecameUnhealthy

	// BecameHealthy means that Healthy became True after False.
	BecameHealthy
)

// Outcome is the result of an assessment.
type Outcome struct {
	// Missing is the number of deleted objects of the release, whatever the mode of the health. IsUnlisted is true if it
	// is not known whether the other objects exist.
	Missing    int
	IsUnlisted bool

	// IsUnwatchable is true if permissions to watch objects of the release are missing.
	IsUnwatchable bool

	// IsUnhealthy is true if a new revision did not become healthy.
	IsUnhealthy bool

	// RequeueAfter is the delay after which the health may change without an event; 0 means never.
	RequeueAfter time.Duration

	Change Change
}

// assessment is the state of one call of Assess.
type assessment struct {
	release *addonsv1.HelmOpRelease
	memory  *Memory
	seen    Seen
	outcome Outcome
}

// Assess sets the condition Healthy and status.health of a release from the snapshot of its objects. It sends no
// request.
func Assess(release *addonsv1.HelmOpRelease, memory *Memory, seen Seen) Outcome {
	a := &assessment{release: release, memory: memory, seen: seen}
	switch {
	case !releasespec.FollowsHealth(&release.Spec):
		conditions.Delete(release, addonsv1.HealthyCondition)
		release.Status.Health = nil
		a.outcome.Missing, a.outcome.IsUnlisted = a.existence()
	case seen.Unread != nil:
		reason := addonsv1.HealthUnknownReason
		if seen.IsReadPending {
			reason = addonsv1.HealthProgressingReason
		}
		a.setHealthy(metav1.ConditionUnknown, reason, "The health of the release is not known: "+seen.Unread.Error())
	case release.Status.Inventory != nil:
		a.assessObjects()
	}
	return a.outcome
}

// assessObjects sets the health of a release from the state of its objects.
func (a *assessment) assessObjects() {
	if _, err := CheckerOf(a.release.Spec.Health); err != nil {
		a.setHealthy(report.False, addonsv1.InvalidHealthCheckReason, err.Error())
		return
	}
	view := a.observe(releaseinventory.HealthRefs(a.release))
	a.addExistence(&view)
	a.outcome.Missing, a.outcome.IsUnlisted = view.missing, view.unlisted
	a.summarize(view)
}

// due schedules the next assessment after a delay or earlier. A delay of 0 or less does nothing.
func (a *assessment) due(delay time.Duration) {
	a.outcome.RequeueAfter = requeue.Sooner(a.outcome.RequeueAfter, delay)
}

// summarize computes the health of the release from the state of its objects. A failed object counts at once, even if
// the current state of other objects is not known. A timeout needs an object that is observed not to be healthy. The
// release can become healthy only if the current state of all objects is known. Also, the revision can fail and be
// remediated only if the current state of all objects is known.
func (a *assessment) summarize(view objectView) {
	release := a.release
	status, isKnown := a.inStatus()
	summary := health.Summarize(view.objects, healthPolicy(&release.Spec), health.Past{
		Revision: status.Revision, DeployedAt: status.Since.Time,
		Healthy: status.WasHealthy, Lost: status.Lost, ProgressingSince: status.ProgressingSince.Time,
		ObservedSince: a.observedSince(&status, isKnown),
	}, a.seen.Now)
	a.memory.observedSince = summary.Past.ObservedSince
	isBad := summary.State == health.StateFailed || summary.State == health.StateTimedOut
	a.due(summary.RequeueAfter)
	if view.blocker == "" {
		status.WasHealthy, status.Lost = summary.Past.Healthy, summary.Past.Lost
		status.ProgressingSince = metav1.NewTime(summary.Past.ProgressingSince)
		status.Failed = status.Failed || status.Deployed && isBad && !status.WasHealthy
	} else if !summary.Past.ProgressingSince.IsZero() {
		status.Lost = status.Lost || summary.Past.Lost
		status.ProgressingSince = metav1.NewTime(summary.Past.ProgressingSince)
	}
	a.outcome.IsUnwatchable = view.isDenied()
	unobserved := a.unobservedFor(view)
	if view.blocker == "" || isBad {
		a.report(summary, view)
	} else {
		a.reportUnobserved(view, unobserved, isKnown)
	}
	release.Status.Health = &status
	a.outcome.IsUnhealthy = isBad && view.blocker == "" && status.Failed && !status.WasHealthy &&
		int64(a.seen.Newest.Revision) == status.Revision
}

// observedSince returns since when this process has observed that the revision is not healthy; zero if it has not. A
// revision that is unhealthy according to the status is not observed again: its failure would not count meanwhile.
func (a *assessment) observedSince(status *addonsv1.HealthStatus, isKnown bool) time.Time {
	switch {
	case !isKnown:
		return time.Time{}
	case conditions.IsFalse(a.release, addonsv1.HealthyCondition):
		return status.Since.Time
	default:
		return a.memory.observedSince
	}
}

// inStatus returns the health of the current Helm revision from the status. isKnown is false if the status has none. A
// deployed revision may not have been watched for some time, for example during a pause. It may have been healthy
// meanwhile, so its health starts again.
func (a *assessment) inStatus() (status addonsv1.HealthStatus, isKnown bool) {
	release, now := a.release, a.seen.Now
	status.Revision = release.Status.Inventory.Revision
	newest := a.seen.Newest
	switch last := release.Status.Health; {
	case last == nil:
	case last.Revision == status.Revision:
		status, isKnown = *last, true
	case last.Revision < status.Revision && status.Revision == int64(newest.Revision) &&
		newest.IsDeployedFor(a.seen.Desired):
		// The manager stopped after it deployed the revision, or could not write the status.
		status.Deployed, status.Since = true, wholeSeconds(newest.ChangedAt)
	}
	status.Since, status.ProgressingSince = notAfter(status.Since, now), notAfter(status.ProgressingSince, now)
	// A process that began to observe the revision late may report the timeout late, too.
	policy, past := healthPolicy(&release.Spec), health.Past{ObservedSince: a.observedSince(&status, isKnown)}
	isLate := past.Left(status.Since.Time, policy, now) < -max(policy.Timeout, health.DefaultTimeout)
	isMissed := status.Deployed && !status.WasHealthy && !status.Failed && isLate
	// A release that was unhealthy stays unhealthy until its objects are observed again.
	if status.Since.IsZero() || isMissed && !conditions.IsFalse(release, addonsv1.HealthyCondition) {
		status.Since = wholeSeconds(now)
	}
	status.Deployed, status.Missed = status.Deployed && !isMissed, status.Missed || isMissed
	return status, isKnown
}

// wholeSeconds returns a time with the precision of the status.
func wholeSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// notAfter returns the stored start of a timeout; now if the stored time is later. The clock of a former manager was
// then ahead, and the timeout would become longer by the difference.
func notAfter(stored metav1.Time, now time.Time) metav1.Time {
	if stored.After(now) {
		return wholeSeconds(now)
	}
	return stored
}

// report sets the condition Healthy from a summary.
func (a *assessment) report(summary health.Summary, view objectView) {
	// The limits of the observation are at the start, because long messages are truncated at the end.
	var parts []string
	if a.release.Status.Inventory.Truncated {
		parts = append(parts, fmt.Sprintf("The release has too many objects: HelmOp watches only %d",
			releaseinventory.MaxObjects))
	}
	if view.denied > 0 {
		parts = append(parts, fmt.Sprintf("HelmOp does not notice the deletion of %s (the first is %s): "+
			"permissions are missing; permit list or get",
			plural.Count(view.denied, "object", "objects"), view.firstDenied))
	}
	if view.failing > 0 {
		parts = append(parts, fmt.Sprintf("HelmOp does not notice the deletion of %s (the first is %s): %v; "+
			"HelmOp tries again", plural.Count(view.failing, "object", "objects"), view.firstFailing, view.failure))
	}
	if summary.Message != "" {
		parts = append(parts, summary.Message)
	}
	message := strings.Join(parts, "; ")
	switch summary.State {
	case health.StateHealthy:
		a.setHealthy(report.True, addonsv1.HealthyReason, message)
	case health.StateProgressing:
		a.setHealthy(metav1.ConditionUnknown, addonsv1.HealthProgressingReason, message)
	case health.StateTimedOut:
		a.setHealthy(report.False, addonsv1.HealthTimeoutReason, message)
	default:
		reason := addonsv1.HealthFailedReason
		if a.outcome.Missing > 0 {
			reason = addonsv1.ObjectsMissingReason
			message += "; " + restoreHint
		}
		a.setHealthy(report.False, reason, message)
	}
}

// notCheckedYet is the message until the state of all objects is known for the first time.
const notCheckedYet = "The objects of the release are not checked yet"

// unobservedFor returns for how long the current state of some objects has not been known; 0 if it is known. It also
// schedules the next pass.
func (a *assessment) unobservedFor(view objectView) time.Duration {
	memory, now := a.memory, a.seen.Now
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
		a.due(writtenGrace)
	}
	return now.Sub(since)
}

// reportUnobserved sets the condition Healthy while the current state of some objects is not known. The last known
// health stays for objectwatch.StuckAfter, because API servers may only be restarting.
func (a *assessment) reportUnobserved(view objectView, unobserved time.Duration, isKnown bool) {
	before := conditions.Get(a.release, addonsv1.HealthyCondition)
	switch {
	case view.isDenied():
		a.setHealthy(metav1.ConditionUnknown, addonsv1.HealthUnknownReason,
			"The objects of the release cannot be watched; permit list and watch, or set health.mode to Disabled: "+
				view.watchError.Err.Error())
	case unobserved >= objectwatch.StuckAfter:
		a.setHealthy(metav1.ConditionUnknown, addonsv1.HealthUnknownReason, view.blocker)
	case !isKnown || before == nil || before.Status == metav1.ConditionUnknown ||
		before.Reason == addonsv1.InvalidHealthCheckReason:
		a.setHealthy(metav1.ConditionUnknown, addonsv1.HealthProgressingReason, view.blocker)
	}
}

func healthPolicy(spec *addonsv1.HelmOpReleaseSpec) health.Policy {
	policy := health.Policy{Timeout: health.DefaultTimeout, FailFast: true}
	if spec.Health != nil {
		policy.Timeout = cmp.Or(releasespec.Duration(spec.Health.Timeout), health.DefaultTimeout)
		policy.FailFast = ptr.Deref(spec.Health.FailFast, true)
	}
	return policy
}

// setHealthy sets the condition Healthy, and notes a change that needs an Event.
func (a *assessment) setHealthy(status metav1.ConditionStatus, reason, message string) {
	wasFalse := conditions.IsFalse(a.release, addonsv1.HealthyCondition)
	changed := report.SetCondition(a.release, addonsv1.HealthyCondition, status, reason, message)
	switch {
	case changed && status == report.False:
		a.outcome.Change = BecameUnhealthy
	case wasFalse && status == report.True:
		a.outcome.Change = BecameHealthy
	}
}

// CheckerOf returns the checker for the health of the objects of a release. The error means that an expression in the
// health checks is not valid.
func CheckerOf(spec *addonsv1.HealthOptions) (*health.Checker, error) {
	if spec == nil {
		return health.NewChecker(nil)
	}
	checks := make([]health.Check, len(spec.Checks))
	for i, check := range spec.Checks {
		checks[i] = health.Check(check)
	}
	return health.NewChecker(checks)
}
