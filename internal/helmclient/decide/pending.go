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
func (s situation) decideAdoption(d Decision) Decision {
	newest, policy := s.newest, s.policy
	status := release.Status(newest.Status)
	adopting := fmt.Sprintf("Adopting the release at Helm revision %d.", newest.Revision)
	isRunning := status.IsPending() || status == release.StatusUninstalling
	if status == release.StatusDeployed {
		d.UnchangedOnly = policy.AdoptUnchangedOnly
		return d.stay(model.ActionAdopt, ReasonAdopt, adopting)
	}
	if isRunning {
		// The pending record belongs to another owner, so only its age counts.
		if until := s.abandonedAt(); !until.IsZero() {
			return s.waitFor(d, until)
		}
	}
	switch {
	case policy.AdoptUnchangedOnly:
		return d.stay(model.ActionRefuse, ReasonWouldChange, fmt.Sprintf("The release is not adopted: its Helm revision %d"+
			" is %s, and only a deployed revision can be adopted without a change; repair the release with the tool that"+
			" made it, or set install.adoption to Upgrade.", newest.Revision, newest.Status))
	case !isRunning:
		return d.act(model.ActionUpgrade, ReasonAdopt, adopting)
	default:
		return d.recoverFailed(ReasonPendingTimeout, s.abandonedMessage())
	}
}

// decidePending decides if an action on the release is running or was interrupted.
func (s situation) decidePending(d Decision) Decision {
	newest := s.newest
	if until := s.pendingUntil(); !until.IsZero() {
		return s.waitFor(d, until)
	}
	reason, message := ReasonPendingTimeout, s.abandonedMessage()
	if isOwnPending(newest, s.desired) {
		reason = ReasonInterrupted
		message = fmt.Sprintf("Helm revision %d was interrupted while it was %s.", newest.Revision, newest.Status)
	}
	status := release.Status(newest.Status)
	if status == release.StatusPendingRollback && newest.IsRolledBackFrom(s.desired) {
		return s.rollbackAgain(d, reason, message)
	}
	if !newest.TriedFor(s.desired) {
		return s.decideOverPending(d, reason, message)
	}
	decided := s.reachOverPending(d, reason, message)
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

// decideOverPending decides if the pending record is not an attempt at the desired state. If the record has another
// state, the next action is a new change. It has the reason of a change, because it does not continue the interrupted
// action.
func (s situation) decideOverPending(d Decision, reason, message string) Decision {
	change, differences := s.change()
	isChange := reason == ReasonInterrupted && change != ""
	if isChange {
		reason, message = change, message+" "+differences
	}
	decided := s.reachOverPending(d, reason, message)
	if isChange && decided.Returns {
		decided.Reason = ReasonReturn
	}
	return s.afterUnrecorded(d, decided)
}

// decideUninstalling decides if an uninstallation of the desired release is running or did not complete. HelmOp
// completes only its own remediation. Any other uninstallation may have deleted nothing so far, for example because its
// hook failed, and the release may work. So HelmOp upgrades the release: an upgrade creates the deleted objects again
// and keeps the others.
func (s situation) decideUninstalling(d Decision) Decision {
	if until := s.uninstallingUntil(); !until.IsZero() {
		return s.waitFor(d, until)
	}
	revision := s.newest.Revision
	switch {
	case s.newest.IsPointerUninstalledByHand():
		return s.afterUnrecorded(d, d.recoverFailed(ReasonChangedOutsideHelmOp, fmt.Sprintf("Helm revision %d was "+
			"uninstalled with the helm command, which deleted nothing because it cannot read split records: HelmOp upgrades "+
			"the release.", revision)))
	case !s.newest.NeverWorked || !s.isUninstallingFor():
		return s.afterUnrecorded(d, d.recoverFailed(ReasonInterrupted, fmt.Sprintf("The uninstallation of Helm revision %d "+
			"did not complete, and the release is desired: HelmOp upgrades the release, which creates deleted objects again.",
			revision)))
	}
	if wait := s.remainingBackoff(d.Failures); wait > 0 {
		return s.backOff(d, wait, fmt.Sprintf("The uninstallation of Helm revision %d did not complete.", revision))
	}
	return d.finishUninstall()
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

// pendingUntil returns until when another process may be working on the newest record. It is zero if HelmOp may resolve
// the record now.
func (s situation) pendingUntil() time.Time {
	if isOwnPending(s.newest, s.desired) {
		return time.Time{}
	}
	return s.abandonedAt()
}

// uninstallingUntil returns until when to wait for an uninstallation by another manager or by the helm command. It is
// zero if HelmOp may continue now: HelmOp continues an uninstallation for the same object in the same shard at once.
func (s situation) uninstallingUntil() time.Time {
	if s.isUninstallingFor() && s.newest.Shard == s.desired.Shard || s.newest.IsPointerUninstalledByHand() {
		return time.Time{}
	}
	return s.abandonedAt()
}

// isUninstallingFor reports whether a manager began the uninstallation for the object of the desired release. The mark
// and the UID belong to this record, also if a person made its revision.
func (s situation) isUninstallingFor() bool {
	return s.newest.Uninstalling && s.desired.UID != "" && s.newest.UID == s.desired.UID
}

// abandonedAt returns when the newest record counts as abandoned. It is zero if this time has passed.
func (s situation) abandonedAt() time.Time {
	end := s.actionEnd()
	if !end.After(s.now) {
		return time.Time{}
	}
	return end
}

// actionEnd returns the latest end of the action on the newest record. The record has this time, or the time when the
// action began, by the clock of the process that wrote it. If this clock is ahead by days, HelmOp would wait for days.
// So if the record seems to be written in the future, by more than clockTolerance, its times count from the time of the
// API server, plus clockTolerance. A difference that the clock of this manager has in common with the other clock does
// not count.
func (s situation) actionEnd() time.Time {
	newest := s.newest
	end := newest.ChangedAt.Add(s.policy.PendingLimit())
	if newest.HasDeadline() {
		end = newest.Deadline
	}
	if newest.ServerTime.IsZero() || !newest.ChangedAt.After(s.now.Add(clockTolerance)) {
		return end
	}
	return end.Add(-max(0, newest.ChangedAt.Sub(newest.ServerTime)-clockTolerance))
}

// abandonedMessage returns the message for a pending record whose action cannot be running any more.
func (s situation) abandonedMessage() string {
	if s.newest.HasDeadline() {
		return fmt.Sprintf("Helm revision %d is still %s, although its action had to end by %s: HelmOp takes over.",
			s.newest.Revision, s.newest.Status, s.actionEnd().UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Helm revision %d has been %s for more than %s: HelmOp takes over.",
		s.newest.Revision, s.newest.Status, s.policy.PendingLimit())
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

// waitFor returns the decision to wait for another process, which may be working on the newest record until a time. The
// time does not change between decisions. Each wait is short, because there is no event when the other process ends.
func (s situation) waitFor(d Decision, until time.Time) Decision {
	d.RequeueAfter = min(max(until.Sub(s.now), model.MinRequeue), OtherProcessRetry)
	d.NextTryAt = until.Round(time.Second)
	process, ofOwner := s.otherProcess()
	doing := fmt.Sprintf("%s, and %s may be working on it", s.newest.Status, process)
	if release.Status(s.newest.Status) == release.StatusUninstalling {
		doing = "being uninstalled by " + process
	}
	return d.stay(model.ActionWait, ReasonPendingOtherOwner,
		fmt.Sprintf("Helm revision %d%s is %s: HelmOp waits until the action has ended, at the latest until %s.",
			s.newest.Revision, ofOwner, doing, d.NextTryAt.UTC().Format(time.RFC3339)))
}

// otherProcess names the process that wrote the newest record, for the middle of a sentence. If this process is not a
// manager, but another HelmOp owns the release, ofOwner names the owner.
func (s situation) otherProcess() (process, ofOwner string) {
	newest, owner := s.newest, s.ownerTitle()
	isForeign := s.obs.State(s.desired) == model.StateForeign
	isByHand := !newest.Authentic() || release.Status(newest.Status) == release.StatusUninstalling && !newest.Uninstalling
	switch {
	case isByHand && isForeign && owner != "":
		return helmCommand, " of " + owner
	case isByHand:
		return helmCommand, ""
	case isForeign:
		return owner, ""
	case isOfOtherShard(newest, s.desired) && newest.Shard == "":
		return "the former manager (without a shard) of the release", ""
	case isOfOtherShard(newest, s.desired):
		return fmt.Sprintf("the former manager (shard %q) of the release", newest.Shard), ""
	default:
		return "another HelmOpRelease of " + owner, ""
	}
}

// ownerTitle names the HelmOp that owns the release; empty if no record names an owner.
func (s situation) ownerTitle() string {
	owner, management := s.obs.Owner(), s.obs.ManagementCluster()
	switch {
	case owner == "":
		return ""
	case model.IsManagedBy(management, s.desired):
		return fmt.Sprintf("HelmOp %q", owner)
	default:
		return fmt.Sprintf("HelmOp %q of another management cluster (UID %q of its namespace kube-system)", owner,
			management)
	}
}

// helmCommand names the program that makes records without HelmOp's labels.
const helmCommand = "the helm command or a similar program"

// OtherProcessRetry is how often a release is checked while another process may be working on it.
const OtherProcessRetry = 5 * time.Second

// clockTolerance is how far a clock may be ahead of others without an effect on waits. If it were smaller, HelmOp could
// take over a running action. If it were larger, HelmOp would wait longer for a process whose clock is ahead by more.
const clockTolerance = 10 * time.Minute

// ActionMargin is the time that an action may take after its timeout to record its outcome.
const ActionMargin = time.Minute
