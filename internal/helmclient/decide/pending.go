// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// decideAdoption decides if the release belongs to another owner and the policy permits to adopt it. Only a deployed
// revision can be adopted without an upgrade.
func decideAdoption(d Decision, newest model.Record, policy model.Policy, now time.Time) Decision {
	status := release.Status(newest.Status)
	adopting := fmt.Sprintf("Adopting the release at Helm revision %d.", newest.Revision)
	isRunning := status.IsPending() || status == release.StatusUninstalling
	if status == release.StatusDeployed {
		d.UnchangedOnly = policy.AdoptUnchangedOnly
		return d.stay(model.ActionAdopt, ReasonAdopt, adopting)
	}
	if isRunning {
		// The pending record belongs to another owner, so only its age counts.
		if wait := remainingPending(newest, model.Desired{}, policy, now); wait > 0 {
			return d.wait(newest, wait)
		}
	}
	switch {
	case policy.AdoptUnchangedOnly:
		return d.stay(model.ActionRefuse, ReasonWouldChange, fmt.Sprintf("The release is not adopted: its Helm revision %d"+
			" is %s, and only a deployed revision can be adopted without a change; repair the release with the tool that"+
			" made it, or set install.adoption to Upgrade.", newest.Revision, newest.Status))
	case !isRunning:
		return d.act(model.ActionUpgrade, ReasonAdopt, adopting)
	case status == release.StatusUninstalling:
		return d.finishUninstall()
	default:
		return d.recoverFailed(ReasonPendingTimeout, abandonedMessage(newest, policy))
	}
}

// decidePending decides if an action on the release is running or was interrupted.
func (s situation) decidePending(d Decision) Decision {
	newest := s.newest
	if wait := remainingPending(newest, s.desired, s.policy, s.now); wait > 0 {
		return d.waitFor(newest, s.desired, wait)
	}
	reason, message := ReasonPendingTimeout, abandonedMessage(newest, s.policy)
	if isOwnPending(newest, s.desired) {
		reason = ReasonInterrupted
		message = fmt.Sprintf("Helm revision %d was interrupted while it was %s.", newest.Revision, newest.Status)
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
	return s.resume(d, decided, s.policyNow(), d.Failures)
}

// installsAgain reports whether Helm would install a revision with the number of the newest revision if the newest
// record did not exist.
func (s situation) installsAgain() bool {
	below := s.obs.Records[1:]
	if len(below) == 0 {
		return s.newest.Revision == 1
	}
	return below[0].Revision == s.newest.Revision-1 && release.Status(below[0].Status) == release.StatusUninstalled
}

// upgradesAgain reports whether Helm would upgrade or roll back to a revision with the number of the newest revision if
// the newest record did not exist.
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

// interruptions returns the number of successive interrupted attempts at the desired state.
func (s situation) interruptions() int {
	if s.past.RetryRequested || !s.newest.WasInterrupted() || !s.newest.IsTryOf(s.desired) {
		return 0
	}
	return s.newest.Interruptions + 1
}

// resume continues an interrupted action at once. If the action was interrupted repeatedly, it continues after a delay.
// The action itself may break the connection or end this process before its failure can be recorded.
func (s situation) resume(d, decided Decision, policy model.FailurePolicy, failures int) Decision {
	counted := max(0, d.Interruptions-model.FreeInterruptions)
	message := decided.Message
	if counted > 0 {
		message = fmt.Sprintf("%s %d attempts in a row were interrupted: the release itself may be the cause.", message,
			d.Interruptions)
	}
	if !policy.Allows(failures + counted) {
		return d.stall(ReasonRetriesExhausted, message)
	}
	if wait := max(s.remainingBackoff(failures), s.remaining(s.newest.ChangedAt, counted)); wait > 0 {
		return s.backOff(d, wait, message)
	}
	return decided
}

// rollbackAgain decides if a rollback by HelmOp was interrupted.
func (s situation) rollbackAgain(d Decision, reason, message string) Decision {
	if s.policy.Upgrade.Remediate != model.RemediateRollback {
		return s.resume(d, s.reachOverPending(d, reason, message), s.policy.Upgrade, d.Failures)
	}
	if !s.past.RetryRequested {
		d.RollbackFailures = s.newest.RollbackFailures
	}
	target, ok := s.provenTarget()
	if !ok {
		// Without an older proven record, only the rollback's own record still has the content to return to. So the
		// next rollback returns to this record, and no other record may replace it.
		target = s.newest.Revision
	}
	decided := d.rollback(target, reason, message)
	decided.Recovery = RecoverFail
	if ok && s.upgradesAgain() {
		decided.Recovery, decided.ToRevision = RecoverReplace, d.FromRevision
	}
	return s.resume(d, decided, s.policy.Upgrade, d.RollbackFailures)
}

// isOwnPending reports whether an earlier process of this manager left the pending record.
func isOwnPending(newest model.Record, desired model.Desired) bool {
	return newest.IsFor(desired) && newest.Shard == desired.Shard
}

// isOfOtherShard reports whether the manager of another shard, which managed the release before, may be working on the
// record.
func isOfOtherShard(newest model.Record, desired model.Desired) bool {
	return newest.IsFor(desired) && newest.Shard != desired.Shard
}

// remainingPending returns how long another process may still be working on the record. Zero means that HelmOp may
// resolve the record.
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
	// If the clock of the workload cluster is ahead, the wait must not become longer than the limit.
	return min(max(remaining, model.MinRequeue), longest)
}

// remainingUninstall returns how long to wait for an uninstallation by the manager of another shard or by the helm
// command. An uninstallation by this manager, or by an earlier process in the same shard, is continued at once.
func remainingUninstall(newest model.Record, desired model.Desired, policy model.Policy, now time.Time) time.Duration {
	if newest.Uninstalling && !isOfOtherShard(newest, desired) || newest.IsPointerUninstalledByHand() {
		return 0
	}
	return remainingPending(newest, model.Desired{}, policy, now)
}

// abandonedMessage returns the message for a pending record whose action cannot be running any more.
func abandonedMessage(newest model.Record, policy model.Policy) string {
	if newest.HasDeadline() {
		return fmt.Sprintf("Helm revision %d is still %s, although its action had to end by %s: HelmOp takes over.",
			newest.Revision, newest.Status, newest.Deadline.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Helm revision %d has been %s for more than %s: HelmOp takes over.",
		newest.Revision, newest.Status, policy.PendingLimit())
}

// recoverReplace returns the decision to repeat an action under the revision of its pending record.
func (d Decision) recoverReplace(action model.Action, reason, message string) Decision {
	d.Recovery = RecoverReplace
	return d.stay(action, reason, message)
}

// recoverFailed returns the decision to mark the newest record as failed and to upgrade.
func (d Decision) recoverFailed(reason, message string) Decision {
	d.Recovery = RecoverFail
	return d.act(model.ActionRecoverThenUpgrade, reason, message)
}

// wait returns the decision to wait for another process that may be working on the record. The wait is short, because
// the other process may end at any time.
func (d Decision) wait(newest model.Record, after time.Duration) Decision {
	d.RequeueAfter = min(after, OtherProcessRetry)
	return d.stay(model.ActionWait, ReasonPendingOtherOwner,
		fmt.Sprintf("Helm revision %d is %s, and another process may be working on it.", newest.Revision, newest.Status))
}

// waitFor does the same as wait. Its message names the other process. The wait is short because there is no event when
// the manager of another shard ends its action.
func (d Decision) waitFor(newest model.Record, desired model.Desired, after time.Duration) Decision {
	if !isOfOtherShard(newest, desired) {
		d = d.wait(newest, after)
		if release.Status(newest.Status) == release.StatusUninstalling {
			d.Message = fmt.Sprintf("Helm revision %d is being uninstalled with the helm command: HelmOp waits until the "+
				"command "+
				"has ended.", newest.Revision)
		}
		return d
	}
	d = d.wait(newest, after)
	holder := "without a shard"
	if newest.Shard != "" {
		holder = fmt.Sprintf("of shard %q", newest.Shard)
	}
	d.Message = fmt.Sprintf("Helm revision %d is %s, and the manager %s, which managed the release before, may be "+
		"working "+
		"on it.", newest.Revision, newest.Status, holder)
	return d
}

const (
	// OtherProcessRetry is how often a release is checked while another process may be working on it.
	OtherProcessRetry = 5 * time.Second
	// maxActionTime is the longest timeout that the API permits for an action, plus ActionMargin.
	maxActionTime = time.Hour + ActionMargin
	// ActionMargin is the time that an action may take after its timeout to record its outcome.
	ActionMargin = time.Minute
)
