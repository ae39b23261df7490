// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// decideInSync decides if the newest revision is deployed and was made from the desired state.
func (s situation) decideInSync(d Decision) Decision {
	if s.past.Unhealthy && s.policy.Upgrade.Remediate == model.RemediateRollback {
		if target, ok := s.provenTarget(); ok {
			d.Failures = max(d.Failures, s.unhealthyFailures())
			return d.rollback(target, ReasonUnhealthy, fmt.Sprintf("Helm revision %d did not become healthy.", d.FromRevision))
		}
	}
	if s.past.Restore {
		return s.reach(d, ReasonObjectsMissing,
			fmt.Sprintf("Objects of Helm revision %d were deleted, and a retry was requested.", d.FromRevision))
	}
	if s.policy.Test.Enabled {
		switch {
		case s.newest.Tested == "":
			d.State = model.StateUntested
			if s.past.Progressing {
				return d.stay(model.ActionNone, ReasonUntested,
					fmt.Sprintf("Helm revision %d will be tested when it is healthy.", d.FromRevision))
			}
			return d.stay(model.ActionTest, ReasonUntested, fmt.Sprintf("Helm revision %d is not tested yet.", d.FromRevision))
		case s.newest.TestsFailed() && !s.policy.Test.IgnoreFailures:
			return s.decideFailedTests(d)
		}
	}
	d.Failures = 0
	return d.stay(model.ActionNone, ReasonInSync, fmt.Sprintf("Helm revision %d is up to date.", d.FromRevision))
}

// unhealthyFailures returns the number of failures of the newest revision, which did not become healthy.
func (s situation) unhealthyFailures() int {
	if s.past.RetryRequested {
		return 1
	}
	return s.newest.Failures + 1
}

// decideFailedTests decides if the newest revision is deployed, was made from the desired state and failed its tests.
func (s situation) decideFailedTests(d Decision) Decision {
	d.State = model.StateFailed
	message := fmt.Sprintf("The tests of Helm revision %d failed.", d.FromRevision)
	if s.workedBefore() && s.policy.Upgrade.Remediate == model.RemediateRollback && d.Failures > 0 {
		if target, ok := s.provenTarget(); ok {
			return d.rollback(target, ReasonTestsFailed, message)
		}
	}
	return s.retry(d, s.policyNow(), model.ActionTest, ReasonTestsFailed, message)
}

// decideDrift replaces a decision without an action if objects differ from the manifest of the newest revision and that
// revision is deployed.
func (s situation) decideDrift(d Decision) Decision {
	correct := s.policy.CorrectDrift
	idle := d.Action == model.ActionNone || correct && (d.Action == model.ActionWait || d.Action == model.ActionStall)
	if !idle || !s.newest.Authentic() || release.Status(s.newest.Status) != release.StatusDeployed ||
		d.State == model.StateForeign {
		return d
	}
	d.State, d.RequeueAfter = model.StateDrifted, 0
	message := fmt.Sprintf("Objects in the cluster differ from the manifest of Helm revision %d.", d.FromRevision)
	if correct {
		return d.stay(model.ActionCorrectDrift, ReasonDrifted, message)
	}
	return d.stay(model.ActionNone, ReasonDrifted, message)
}
