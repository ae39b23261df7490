// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// returnTarget returns the target of a return: the newest older revision that was applied completely and that was made,
// for the owner, from the desired state. Failed tests of that revision, or a rollback from it, do not matter: an
// upgrade would make the same revision. ok is false if no return is desired, or if the history has no such revision.
func (s situation) returnTarget() (revision int, ok bool) {
	if !s.desired.Return {
		return 0, false
	}
	for _, record := range s.below() {
		if record.WasApplied() && s.isDesired(record) {
			return record.Revision, true
		}
	}
	// Failed attempts may have pushed the target out of the history. The last attempt has the same content.
	status := release.Status(s.newest.Status)
	if (status == release.StatusFailed || status == release.StatusPendingRollback) && s.isDesired(s.newest) &&
		s.workedBefore() {
		return s.newest.Revision, true
	}
	return 0, false
}

// isDesired reports whether a record was made, for the owner, from the desired state.
func (s situation) isDesired(record model.Record) bool {
	return record.Owner == model.OwnerLabel(s.desired.Owner) && record.MadeFrom(s.desired)
}

// reach brings an existing release to its desired state: by a return if one is desired and possible, otherwise by an
// upgrade.
func (s situation) reach(d Decision, reason, message string) Decision {
	target, ok := s.returnTarget()
	if !ok {
		return d.act(model.ActionUpgrade, reason, message)
	}
	d.Returns = true
	return d.rollback(target, reason, message)
}

// reachOverPending is reach if the newest record is pending and must be marked as failed first.
func (s situation) reachOverPending(d Decision, reason, message string) Decision {
	d.Recovery = RecoverFail
	decided := s.reach(d, reason, message)
	if decided.Action == model.ActionUpgrade {
		decided.Action = model.ActionRecoverThenUpgrade
	}
	return decided
}

// withoutRemediation returns the situation with a policy that does not roll back a failed return: a rollback would go
// to the state that was given up.
func (s situation) withoutRemediation() situation {
	if s.policy.Upgrade.Remediate == model.RemediateRollback {
		s.policy.Upgrade.Remediate = model.RemediateNothing
	}
	return s
}
