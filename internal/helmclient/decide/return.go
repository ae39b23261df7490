// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// returnTarget returns the revision that a return goes to: the newest below the newest one that was applied as a whole
// and made, for the owner, from what is desired. How its tests ended, and whether it was rolled back from, does not matter:
// an upgrade to what is desired would make the same. ok is false where no return is desired, or nothing is left of it.
func (s situation) returnTarget() (revision int, ok bool) {
	if !s.desired.Return {
		return 0, false
	}
	for _, record := range s.below() {
		if record.WasApplied() && s.isDesired(record) {
			return record.Revision, true
		}
	}
	// Tries that failed may have pushed it out of the history. The last of them has all that it had.
	status := release.Status(s.newest.Status)
	if (status == release.StatusFailed || status == release.StatusPendingRollback) && s.isDesired(s.newest) && s.workedBefore() {
		return s.newest.Revision, true
	}
	return 0, false
}

// isDesired reports whether a record was made, for the owner, from what is desired.
func (s situation) isDesired(record model.Record) bool {
	return record.Owner == model.OwnerLabel(s.desired.Owner) && record.MadeFrom(s.desired)
}

// reach returns the decision to make a release what is desired that is there, but is something else: by a return where one is
// desired and possible, else by an upgrade.
func (s situation) reach(d Decision, reason, message string) Decision {
	target, ok := s.returnTarget()
	if !ok {
		return d.act(model.ActionUpgrade, reason, message)
	}
	d.Returns = true
	return d.rollback(target, reason, message)
}

// reachOverPending is reach over a pending record that is to be marked as failed.
func (s situation) reachOverPending(d Decision, reason, message string) Decision {
	d.Recovery = RecoverFail
	decided := s.reach(d, reason, message)
	if decided.Action == model.ActionUpgrade {
		decided.Action = model.ActionRecoverThenUpgrade
	}
	return decided
}

// withoutRemediation returns the situation with a policy under which a return is not rolled back, should it fail: it would be
// to what was given up.
func (s situation) withoutRemediation() situation {
	if s.policy.Upgrade.Remediate == model.RemediateRollback {
		s.policy.Upgrade.Remediate = model.RemediateNothing
	}
	return s
}
