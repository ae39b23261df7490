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
		return d.wait(newest, wait)
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
	if !newest.authentic() || len(newest.differences(s.desired)) > 0 {
		return d.recoverFailed(reason, message)
	}
	switch status {
	case release.StatusPendingInstall:
		if newest.Revision > 1 {
			// An install over a kept history: without this record the newest would be superseded, and Helm installs
			// on top of an uninstalled or failed one only.
			return d.recoverFailed(reason, message)
		}
		return d.recoverDelete(ActionRecoverThenInstall, reason, message)
	case release.StatusPendingUpgrade:
		return d.recoverDelete(ActionRecoverThenUpgrade, reason, message)
	default:
		return d.recoverFailed(reason, message)
	}
}

// rollbackAgain decides on a rollback of ours that was cut off.
func (s situation) rollbackAgain(d Decision, reason, message string) Decision {
	target, ok := s.rollbackTarget()
	if !ok || s.policy.Upgrade.Remediate != RemediateRollback {
		return d.recoverFailed(reason, message)
	}
	d.RollbackFailures = s.newest.RollbackFailures
	if len(s.obs.Records) > 1 && release.Status(s.obs.Records[1].Status) == release.StatusFailed {
		// The record below still says that the release needs this rollback, and what there is to remove.
		d.Recovery = RecoverDelete
		d.RollbackTo = target
		return d.stay(ActionRollback, reason, message)
	}
	d.Recovery = RecoverFail
	return d.rollback(target, reason, message)
}

// isOwnPending reports whether a predecessor of this process left the pending record behind.
func isOwnPending(newest Record, desired Desired) bool {
	return newest.authentic() && desired.UID != "" && newest.UID == desired.UID
}

// remainingPending returns how long the record must still be left to its holder.
func remainingPending(newest Record, desired Desired, policy Policy, now time.Time) time.Duration {
	if isOwnPending(newest, desired) {
		return 0
	}
	remaining := newest.ChangedAt.Add(policy.pendingTimeout()).Sub(now)
	if remaining <= 0 {
		return 0
	}
	// A clock that runs ahead in the other cluster must not make the wait endless.
	return min(max(remaining, minRequeue), policy.pendingTimeout())
}

func abandonedMessage(newest Record, policy Policy) string {
	return fmt.Sprintf("Revision %d has been %s for more than %s; its holder is taken for gone.",
		newest.Revision, newest.Status, policy.pendingTimeout())
}

func (d Decision) recoverDelete(action Action, reason, message string) Decision {
	d.Recovery = RecoverDelete
	return d.stay(action, reason, message)
}

func (d Decision) recoverFailed(reason, message string) Decision {
	d.Recovery = RecoverFail
	return d.act(ActionRecoverThenUpgrade, reason, message)
}

func (d Decision) wait(newest Record, after time.Duration) Decision {
	d.RequeueAfter = after
	return d.stay(ActionWait, ReasonPendingElsewhere,
		fmt.Sprintf("Revision %d is %s, and another holder may be at work on it.", newest.Revision, newest.Status))
}
