// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// returnTarget returns the target of a return: the newest older revision of the owner that was applied completely and
// was made from the desired state. Failed tests of this revision, or a rollback from it, do not matter, because an
// upgrade would create the same revision. ok is false if no return is desired, or if the history has no such revision.
func (s situation) returnTarget() (revision int, ok bool) {
	if !s.desired.Return {
		return 0, false
	}
	for _, record := range s.below() {
		if record.WasApplied() && s.isDesired(record) {
			return record.Revision, true
		}
	}
	// The history limit may have removed the target after failed attempts. The last attempt then has the same content as
	// the target.
	status := release.Status(s.newest.Status)
	if (status == release.StatusFailed || status == release.StatusPendingRollback) && s.isDesired(s.newest) &&
		s.workedBefore() {
		return s.newest.Revision, true
	}
	return 0, false
}

// isDesired reports whether a record belongs to the owner and was made from the desired state.
func (s situation) isDesired(record model.Record) bool {
	return record.Owner == model.OwnerLabel(s.desired.Owner) && record.MadeFrom(s.desired)
}

// reach decides how an existing release reaches its desired state: with a return if it is desired and possible,
// otherwise with an upgrade.
func (s situation) reach(d Decision, reason, message string) Decision {
	target, ok := s.returnTarget()
	if !ok {
		return d.act(model.ActionUpgrade, reason, message)
	}
	d.Returns = true
	return d.rollback(target, reason, message)
}

// reachOverPending does the same as reach for a pending newest record, which must be marked as failed first.
func (s situation) reachOverPending(d Decision, reason, message string) Decision {
	d.Recovery = RecoverFail
	decided := s.reach(d, reason, message)
	if decided.Action == model.ActionUpgrade {
		decided.Action = model.ActionRecoverThenUpgrade
	}
	return decided
}

// withoutRemediation returns the situation with a policy that does not roll back a failed return. A rollback would
// restore the abandoned state.
func (s situation) withoutRemediation() situation {
	if s.policy.Upgrade.Remediate == model.RemediateRollback {
		s.policy.Upgrade.Remediate = model.RemediateNothing
	}
	return s
}
