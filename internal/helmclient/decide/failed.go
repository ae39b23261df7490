// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// failures returns the known number of failed attempts at the desired state.
func (s situation) failures() int {
	if s.past.RetryRequested {
		return 0
	}
	return max(s.past.Failures, s.newest.FailuresAt(s.desired))
}

// attemptsSince returns when the first attempt at the desired state began, of those that failed since the last success.
// It returns zero if there is none. Each new record has this time, because Helm deletes old records.
func (s situation) attemptsSince() time.Time {
	var since time.Time
	for _, record := range s.obs.Records {
		if record.WasApplied() || release.Status(record.Status) == release.StatusUninstalled {
			break
		}
		if record.MadeFrom(s.desired) {
			since = model.Earlier(since, record.AttemptsSince)
		}
	}
	return since
}

// unrecordedFailures returns the number of failed attempts that the caller counted. Attempts that ended while the chart
// was rendered have no record.
func (s situation) unrecordedFailures() int {
	if s.past.RetryRequested {
		return 0
	}
	return s.past.Failures
}

// areFailuresRecorded reports whether a record counts all failed attempts. Another program has then changed the release
// after the last of them.
func (s situation) areFailuresRecorded() bool {
	return slices.ContainsFunc(s.obs.Records, func(r model.Record) bool {
		return r.FailuresAt(s.desired) >= s.past.Failures
	})
}

// afterUnrecorded delays or stops a decision to render the chart after failed attempts without a record. Such an
// attempt does not change the state of the release, so the same decision would follow at once.
func (s situation) afterUnrecorded(d, decided Decision) Decision {
	if s.unrecordedFailures() == 0 || !decided.Action.RendersChart() || s.areFailuresRecorded() {
		return decided
	}
	if !s.policy.Upgrade.Allows(d.Failures) {
		return d.stall(ReasonRetriesExhausted, decided.Message)
	}
	if wait := s.remaining(s.past.FailedAt, d.Failures); wait > 0 {
		return s.backOff(d, wait, decided.Message)
	}
	return decided
}

// install decides if the release does not exist. Earlier failures count if the release was uninstalled because it
// failed.
func (s situation) install(d Decision, message string) Decision {
	return s.retry(d, s.policy.Install, model.ActionInstall, ReasonNotInstalled, message)
}

// decideFailed decides if the newest revision failed and is an attempt at the desired state, or the rollback from such
// an attempt.
func (s situation) decideFailed(d Decision) Decision {
	if s.newest.IsRolledBackFrom(s.desired) {
		return s.decideFailedRollback(d)
	}
	first, policy := !s.workedBefore(), s.policyNow()
	reason, message := ReasonRetryFailed, fmt.Sprintf("Helm revision %d failed.", s.newest.Revision)
	if s.newest.Interrupted {
		// An interruption does not show that the desired state is faulty.
		again := s.reach(d, ReasonInterrupted, fmt.Sprintf("Helm revision %d was interrupted.", s.newest.Revision))
		return s.resume(d, again, policy, d.Failures)
	}
	switch {
	case d.Failures == 0:
		// A retry was requested.
	case first && policy.Remediate == model.RemediateUninstall && policy.Allows(d.Failures):
		kept := s.whyNotUninstalled()
		if kept == "" {
			return d.stay(model.ActionUninstall, ReasonRemediateUninstall,
				message+" No Helm revision of the release ever worked, so it is uninstalled before the next attempt.")
		}
		message += " The release is not uninstalled: " + kept
	case !first && policy.Remediate == model.RemediateRollback:
		target, ok := s.upgradeTarget()
		if ok {
			return d.rollback(target, ReasonUpgradeFailed, message)
		}
		reason, message = ReasonNoRollbackTarget, message+" There is no Helm revision to roll back to."
	}
	return s.retry(d, policy, model.ActionUpgrade, reason, message)
}

// decideFailedRollback decides if the newest revision is a failed rollback from the desired state.
func (s situation) decideFailedRollback(d Decision) Decision {
	policy := s.policy.Upgrade
	message := fmt.Sprintf("The upgrade failed, and its rollback, Helm revision %d, failed, too.", s.newest.Revision)
	if s.newest.Interrupted {
		message = fmt.Sprintf("The upgrade failed, and its rollback, Helm revision %d, was interrupted.", s.newest.Revision)
	}
	if policy.Remediate != model.RemediateRollback {
		return s.retry(d, policy, model.ActionUpgrade, ReasonRetryFailed, message)
	}
	target, ok := s.provenTarget()
	if !ok {
		// The record of the rollback contains the whole content of its target.
		target = s.newest.Revision
	}
	d.RollbackFailures = s.newest.RollbackFailures
	if !s.newest.Interrupted {
		d.RollbackFailures++
	}
	if s.past.RetryRequested {
		d.RollbackFailures = 0
	}
	if s.newest.Interrupted {
		return s.resume(d, d.rollback(target, ReasonRollbackFailed, message), policy, d.RollbackFailures)
	}
	if !policy.Allows(d.RollbackFailures) {
		return d.stall(ReasonRollbackFailed, message)
	}
	if wait := s.remainingBackoff(d.RollbackFailures); wait > 0 {
		return s.backOff(d, wait, message)
	}
	return d.rollback(target, ReasonRollbackFailed, message)
}

// retry decides to repeat an action after the backoff, as long as the policy allows it.
func (s situation) retry(d Decision, policy model.FailurePolicy, action model.Action, reason, message string) Decision {
	if !policy.Allows(d.Failures) {
		return d.stall(ReasonRetriesExhausted, message)
	}
	if wait := s.remainingBackoff(d.Failures); wait > 0 {
		return s.backOff(d, wait, message)
	}
	switch action {
	case model.ActionTest:
		return d.stay(action, reason, message)
	case model.ActionUpgrade:
		return s.reach(d, reason, message)
	default:
		return d.act(action, reason, message)
	}
}

// remainingBackoff returns the remaining time to wait after a number of failures.
func (s situation) remainingBackoff(failures int) time.Duration {
	since := s.past.FailedAt
	// A record that is in sync, or a missing record, does not show the time of a failure.
	failed := s.newest.IsRolledBackFrom(s.desired) || s.newest.TestsFailed() ||
		release.Status(s.newest.Status) == release.StatusFailed
	if failed && s.newest.ChangedAt.After(since) {
		since = s.newest.ChangedAt
	}
	return s.remaining(since, failures)
}

// remaining returns the remaining time to wait after a number of failures. since is when the wait began.
func (s situation) remaining(since time.Time, failures int) time.Duration {
	backoff := model.Backoff(failures, s.past.Jitter)
	if since.IsZero() || backoff == 0 {
		return 0
	}
	remaining := since.Add(backoff).Sub(s.now)
	if remaining <= 0 {
		return 0
	}
	// If the clock of the workload cluster is ahead, the wait must not become longer than the backoff.
	return min(remaining, backoff)
}

// policyNow returns the policy for a failure of the newest revision.
func (s situation) policyNow() model.FailurePolicy {
	if s.workedBefore() {
		return s.policy.Upgrade
	}
	return s.policy.Install
}

// workedBefore reports whether any older revision worked, including revisions that were made from the desired state.
func (s situation) workedBefore() bool {
	for _, record := range s.below() {
		if record.WasApplied() {
			return true
		}
	}
	return false
}

// below returns the revisions below the newest, newest first. It excludes revisions before an uninstallation that kept
// the history.
func (s situation) below() []model.Record {
	for i, record := range s.obs.Records {
		if release.Status(record.Status) == release.StatusUninstalled {
			return s.obs.Records[min(1, i):i]
		}
	}
	return s.obs.Records[min(1, len(s.obs.Records)):]
}

// whyNotUninstalled returns why a failed installation must not be uninstalled; empty if it may be uninstalled.
func (s situation) whyNotUninstalled() string {
	switch {
	case s.policy.TakeOwnership:
		return "it takes ownership of objects that may have worked before."
	case s.desired.UID == "" || s.newest.UID != s.desired.UID:
		return "another HelmOpRelease object installed it."
	case s.past.Worked || s.mayHaveWorked():
		return "it worked before, or its installation found objects of an earlier installation."
	case !s.neverWorked():
		return "a Helm revision may have worked before, according to its history."
	default:
		return ""
	}
}

// mayHaveWorked reports whether objects of the release may have worked before, see [model.LabelMayHaveWorked].
func (s situation) mayHaveWorked() bool {
	return s.newest.MayHaveWorked ||
		slices.ContainsFunc(s.below(), func(r model.Record) bool { return r.MayHaveWorked })
}

// neverWorked reports whether the history proves that no revision of the release ever worked. The history must reach
// back to the first revision, or to an uninstallation, without a gap. HelmOp must have made each record, and each must
// be failed. An interrupted revision proves nothing: it may have been applied completely.
func (s situation) neverWorked() bool {
	expected := s.newest.Revision
	for _, record := range s.obs.Records {
		switch {
		case record.Revision != expected:
			return false
		case release.Status(record.Status) == release.StatusUninstalled:
			return true
		case release.Status(record.Status) != release.StatusFailed || !record.Authentic() || record.Interrupted:
			return false
		}
		expected--
	}
	return expected == 0
}

// rollback returns the decision to roll back to a revision.
func (d Decision) rollback(target int, reason, message string) Decision {
	d.RollbackTo = target
	return d.act(model.ActionRollback, reason, fmt.Sprintf("%s Rolling back to Helm revision %d.", message, target))
}

// backOff returns the decision to wait until the next attempt is due.
func (s situation) backOff(d Decision, wait time.Duration, message string) Decision {
	// The time is rounded to seconds, so that the message does not change with each reconciliation.
	d.RequeueAfter, d.NextTryAt = max(wait, model.MinRequeue), s.now.Add(wait).Round(time.Second)
	return d.stay(model.ActionWait, ReasonBackoff,
		fmt.Sprintf("%s Failures so far: %d; the next attempt is at %s, or when a retry is requested.",
			message, max(d.Failures, d.RollbackFailures), d.NextTryAt.UTC().Format(time.RFC3339)))
}

// stall returns the decision to stop all attempts.
func (d Decision) stall(reason, message string) Decision {
	return d.stay(model.ActionStall, reason,
		fmt.Sprintf("%s Failures: %d; no further attempt is made. Correct the cause and change the spec,"+
			" or set the annotation %sretry-requested-at to try again.", message, max(d.Failures, d.RollbackFailures),
			model.LabelPrefix))
}
