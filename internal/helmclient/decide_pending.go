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

package helmclient

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/release"
)

// decideAdoption decides on a release that belongs to somebody else and is to be adopted.
func decideAdoption(d Decision, newest Record, policy Policy, now time.Time) Decision {
	status := release.Status(newest.Status)
	if !status.IsPending() && status != release.StatusUninstalling {
		return d.act(ActionUpgrade, ReasonAdopt, fmt.Sprintf("Adopting the release at revision %d.", newest.Revision))
	}
	// Nothing in the record can make it ours, so only its age counts.
	if wait := remainingPending(newest, Desired{}, policy, now); wait > 0 {
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
	if status == release.StatusPendingRollback && newest.rolledBackFrom(s.desired) {
		return s.rollbackAgain(d, reason, message)
	}
	decided := s.reachOverPending(d, reason, message)
	if !newest.triedFor(s.desired) {
		return decided
	}
	switch {
	case decided.Returns:
		if s.upgradesAgain() && decided.RollbackTo != newest.Revision {
			decided.Recovery, decided.ToRevision = RecoverReplace, d.FromRevision
		}
	case status == release.StatusPendingInstall && s.installsAgain():
		decided = d.recoverReplace(ActionRecoverThenInstall, reason, message)
	case status == release.StatusPendingUpgrade && s.upgradesAgain():
		decided = d.recoverReplace(ActionRecoverThenUpgrade, reason, message)
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
	if s.past.RetryRequested || !s.newest.wasCutOff() || !s.newest.isTryOf(s.desired) {
		return 0
	}
	return s.newest.Interruptions + 1
}

// takeUp decides to do again what was cut off: at once, but not if that happens each time. A try may itself be what ends
// the connection, or this process, before its failure can be recorded.
func (s situation) takeUp(d, decided Decision, policy FailurePolicy, failures int) Decision {
	counted := max(0, d.Interruptions-freeInterruptions)
	message := decided.Message
	if counted > 0 {
		message = fmt.Sprintf("%s %d tries in a row were cut off, which may be their own doing.", message, d.Interruptions)
	}
	if !policy.allows(failures + counted) {
		return d.stall(ReasonRetriesExhausted, message)
	}
	if wait := max(s.remainingBackoff(failures), s.remaining(s.newest.ChangedAt, counted)); wait > 0 {
		return s.backOff(d, wait, message)
	}
	return decided
}

// rollbackAgain decides on a rollback of ours that was cut off.
func (s situation) rollbackAgain(d Decision, reason, message string) Decision {
	if s.policy.Upgrade.Remediate != RemediateRollback {
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
func isOwnPending(newest Record, desired Desired) bool {
	return newest.isFor(desired) && newest.Shard == desired.Shard
}

// isElsewhere reports whether a process of another shard, which the release was of before, may be at work on the record.
func isElsewhere(newest Record, desired Desired) bool {
	return newest.isFor(desired) && newest.Shard != desired.Shard
}

// isFor reports whether the very object that asks now asked for the revision.
func (r Record) isFor(desired Desired) bool {
	return r.authentic() && desired.UID != "" && r.UID == desired.UID
}

// remainingPending returns how long the record must still be left to its holder.
func remainingPending(newest Record, desired Desired, policy Policy, now time.Time) time.Duration {
	if isOwnPending(newest, desired) {
		return 0
	}
	end, longest := newest.ChangedAt.Add(policy.pendingTimeout()), policy.pendingTimeout()
	if newest.hasDeadline() {
		end, longest = newest.Deadline, maxActionTime
	}
	remaining := end.Sub(now)
	if remaining <= 0 {
		return 0
	}
	// A clock that runs ahead in the other cluster must not make the wait endless.
	return min(max(remaining, minRequeue), longest)
}

// hasDeadline reports whether the record says when the action that is at work on it ends at the latest. Helm, by hand, carries
// labels over.
func (r Record) hasDeadline() bool { return r.authentic() && !r.Deadline.IsZero() }

// remainingUninstall returns how long to wait for an uninstallation by the manager of another shard, or by the helm command. What
// this manager, or the one before it in the same shard, has begun is continued at once.
func remainingUninstall(newest Record, desired Desired, policy Policy, now time.Time) time.Duration {
	if newest.Uninstalling && !isElsewhere(newest, desired) || newest.isPointerUninstalledByHand() {
		return 0
	}
	return remainingPending(newest, Desired{}, policy, now)
}

// isPointerUninstalledByHand reports whether the helm command was used to uninstall a release whose record is a pointer: it deletes
// nothing then.
func (r Record) isPointerUninstalledByHand() bool { return r.KeptElsewhere && !r.Uninstalling }

func abandonedMessage(newest Record, policy Policy) string {
	if newest.hasDeadline() {
		return fmt.Sprintf("Revision %d is %s, and the action on it was to end by %s: the manager that began it is taken for gone.",
			newest.Revision, newest.Status, newest.Deadline.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("Revision %d has been %s for more than %s; its holder is taken for gone.",
		newest.Revision, newest.Status, policy.pendingTimeout())
}

func (d Decision) recoverReplace(action Action, reason, message string) Decision {
	d.Recovery = RecoverReplace
	return d.stay(action, reason, message)
}

func (d Decision) recoverFailed(reason, message string) Decision {
	d.Recovery = RecoverFail
	return d.act(ActionRecoverThenUpgrade, reason, message)
}

// wait looks again soon: the other holder may end any time.
func (d Decision) wait(newest Record, after time.Duration) Decision {
	d.RequeueAfter = min(after, elsewhereRetry)
	return d.stay(ActionWait, ReasonPendingElsewhere,
		fmt.Sprintf("Revision %d is %s, and another holder may be at work on it.", newest.Revision, newest.Status))
}

// waitFor is wait for a record whose holder may be the manager of another shard. It ends what it has begun, and nothing tells when.
func (d Decision) waitFor(newest Record, desired Desired, after time.Duration) Decision {
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
	// elsewhereRetry is how often it is looked whether another holder has ended what it began.
	elsewhereRetry = 5 * time.Second
	// maxActionTime is the longest that an action may take, see the API's timeouts, with actionMargin.
	maxActionTime = time.Hour + actionMargin
	// actionMargin is what an action may take beyond its timeout, to record how it ended.
	actionMargin = time.Minute
)
