// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// decideAdoption decides on a release that belongs to somebody else and is to be adopted.
func decideAdoption(d Decision, newest model.Record, policy model.Policy, now time.Time) Decision {
	status := release.Status(newest.Status)
	if !status.IsPending() && status != release.StatusUninstalling {
		return d.act(model.ActionUpgrade, ReasonAdopt, fmt.Sprintf("Adopting the release at revision %d.", newest.Revision))
	}
	// Nothing in the record can make it ours, so only its age counts.
	if wait := remainingPending(newest, model.Desired{}, policy, now); wait > 0 {
		return d.wait(newest, wait)
	}
	if status == release.StatusUninstalling {
		return d.finishUninstall()
	}
	return d.recoverFailed(ReasonPendingTimeout, abandonedMessage(newest, policy))
}

func (s situation) decidePending(d Decision) Decision {
	newest := s.newest
	if wait := remainingPending(newest, s.desired, s.policy, s.now); wait > 0 {
		return d.waitFor(newest, s.desired, wait)
	}
	reason, message := ReasonPendingTimeout, abandonedMessage(newest, s.policy)
	if isOwnPending(newest, s.desired) {
		reason = ReasonInterrupted
		message = fmt.Sprintf("Revision %d was interrupted and left as %s.", newest.Revision, newest.Status)
	}
	status := release.Status(newest.Status)
	if status == release.StatusPendingRollback && newest.IsRolledBackFrom(s.desired) {
		return s.rollbackAgain(d, reason, message)
	}
	decided := s.reachOverPending(d, reason, message)
	if !newest.TriedFor(s.desired) {
		return decided
	}
	switch {
	case decided.Returns:
		if s.upgradesAgain() && decided.RollbackTo != newest.Revision {
			decided.Recovery, decided.ToRevision = RecoverReplace, d.FromRevision
		}
	case status == release.StatusPendingInstall && s.installsAgain():
		decided = d.recoverReplace(model.ActionRecoverThenInstall, reason, message)
	case status == release.StatusPendingUpgrade && s.upgradesAgain():
		decided = d.recoverReplace(model.ActionRecoverThenUpgrade, reason, message)
	}
	return s.takeUp(d, decided, s.policyNow(), d.Failures)
}

// installsAgain reports whether Helm would install under the newest revision's number, were that one not there.
func (s situation) installsAgain() bool {
	below := s.obs.Records[1:]
	if len(below) == 0 {
		return s.newest.Revision == 1
	}
	return below[0].Revision == s.newest.Revision-1 && release.Status(below[0].Status) == release.StatusUninstalled
}

// upgradesAgain reports whether Helm would upgrade, or roll back, under the newest revision's number, were that one not
// there.
func (s situation) upgradesAgain() bool {
	below := s.obs.Records[1:]
	if len(below) == 0 || below[0].Revision != s.newest.Revision-1 {
		return false
	}
	switch release.Status(below[0].Status) {
	case release.StatusDeployed, release.StatusSuperseded, release.StatusFailed:
		return true
	default:
		return false
	}
}

// interruptions returns how many tries in a row at what is desired were cut off.
func (s situation) interruptions() int {
	if s.past.RetryRequested || !s.newest.WasCutOff() || !s.newest.IsTryOf(s.desired) {
		return 0
	}
	return s.newest.Interruptions + 1
}

// takeUp decides to do again what was cut off: at once, but not if that happens each time. A try may itself be what ends
// the connection, or this process, before its failure can be recorded.
func (s situation) takeUp(d, decided Decision, policy model.FailurePolicy, failures int) Decision {
	counted := max(0, d.Interruptions-model.FreeInterruptions)
	message := decided.Message
	if counted > 0 {
		message = fmt.Sprintf("%s %d tries in a row were cut off, which may be their own doing.", message, d.Interruptions)
	}
	if !policy.Allows(failures + counted) {
		return d.stall(ReasonRetriesExhausted, message)
	}
	if wait := max(s.remainingBackoff(failures), s.remaining(s.newest.ChangedAt, counted)); wait > 0 {
		return s.backOff(d, wait, message)
	}
	return decided
}

// rollbackAgain decides on a rollback of ours that was cut off.
func (s situation) rollbackAgain(d Decision, reason, message string) Decision {
	if s.policy.Upgrade.Remediate != model.RemediateRollback {
		return s.takeUp(d, s.reachOverPending(d, reason, message), s.policy.Upgrade, d.Failures)
	}
	if !s.past.RetryRequested {
		d.RollbackFailures = s.newest.RollbackFailures
	}
	target, ok := s.provenTarget()
	if !ok {
		// Its own record has all that the revision had which it was to return to, so nothing may take its place.
		target = s.newest.Revision
	}
	decided := d.rollback(target, reason, message)
	decided.Recovery = RecoverFail
	if ok && s.upgradesAgain() {
		decided.Recovery, decided.ToRevision = RecoverReplace, d.FromRevision
	}
	return s.takeUp(d, decided, s.policy.Upgrade, d.RollbackFailures)
}

// isOwnPending reports whether a predecessor of this process left the pending record behind.
func isOwnPending(newest model.Record, desired model.Desired) bool {
	return newest.IsFor(desired) && newest.Shard == desired.Shard
}

// isElsewhere reports whether a process of another shard, which the release was of before, may be at work on the record.
func isElsewhere(newest model.Record, desired model.Desired) bool {
	return newest.IsFor(desired) && newest.Shard != desired.Shard
}

// remainingPending returns how long the record must still be left to its holder.
func remainingPending(newest model.Record, desired model.Desired, policy model.Policy, now time.Time) time.Duration {
	if isOwnPending(newest, desired) {
		return 0
	}
	end, longest := newest.ChangedAt.Add(policy.PendingLimit()), policy.PendingLimit()
	if newest.HasDeadline() {
		end, longest = newest.Deadline, maxActionTime
	}
	remaining := end.Sub(now)
	if remaining <= 0 {
		return 0
	}
	// A clock that runs ahead in the other cluster must not make the wait endless.
	return min(max(remaining, model.MinRequeue), longest)
}

// remainingUninstall returns how long to wait for an uninstallation by the manager of another shard, or by the helm command. What
// this manager, or the one before it in the same shard, has begun is continued at once.
func remainingUninstall(newest model.Record, desired model.Desired, policy model.Policy, now time.Time) time.Duration {
	if newest.Uninstalling && !isElsewhere(newest, desired) || newest.IsPointerUninstalledByHand() {
		return 0
	}
	return remainingPending(newest, model.Desired{}, policy, now)
}

func abandonedMessage(newest model.Record, policy model.Policy) string {
	if newest.HasDeadline() {
		return fmt.Sprintf("Revision %d is %s, and the action on it was to end by %s: the manager that began it is taken for gone.",
			newest.Revision, newest.Status, newest.Deadline.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Revision %d has been %s for more than %s; its holder is taken for gone.",
		newest.Revision, newest.Status, policy.PendingLimit())
}

func (d Decision) recoverReplace(action model.Action, reason, message string) Decision {
	d.Recovery = RecoverReplace
	return d.stay(action, reason, message)
}

func (d Decision) recoverFailed(reason, message string) Decision {
	d.Recovery = RecoverFail
	return d.act(model.ActionRecoverThenUpgrade, reason, message)
}

// wait looks again soon: the other holder may end any time.
func (d Decision) wait(newest model.Record, after time.Duration) Decision {
	d.RequeueAfter = min(after, ElsewhereRetry)
	return d.stay(model.ActionWait, ReasonPendingElsewhere,
		fmt.Sprintf("Revision %d is %s, and another holder may be at work on it.", newest.Revision, newest.Status))
}

// waitFor is wait for a record whose holder may be the manager of another shard. It ends what it has begun, and nothing tells when.
func (d Decision) waitFor(newest model.Record, desired model.Desired, after time.Duration) Decision {
	if !isElsewhere(newest, desired) {
		d = d.wait(newest, after)
		if release.Status(newest.Status) == release.StatusUninstalling {
			d.Message = fmt.Sprintf("Revision %d is being uninstalled with the helm command, and HelmOp waits for that to end.", newest.Revision)
		}
		return d
	}
	d = d.wait(newest, after)
	holder := "without a shard"
	if newest.Shard != "" {
		holder = fmt.Sprintf("of shard %q", newest.Shard)
	}
	d.Message = fmt.Sprintf("Revision %d is %s: the manager %s, which served the release before, may be at work on it.", newest.Revision, newest.Status, holder)
	return d
}

const (
	// ElsewhereRetry is how often it is looked whether another holder has ended what it began.
	ElsewhereRetry = 5 * time.Second
	// maxActionTime is the longest that an action may take, see the API's timeouts, with ActionMargin.
	maxActionTime = time.Hour + ActionMargin
	// ActionMargin is what an action may take beyond its timeout, to record how it ended.
	ActionMargin = time.Minute
)
