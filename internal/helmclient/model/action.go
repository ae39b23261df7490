// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

const (
	// UserAgent is what this package is called in the clusters' audit logs.
	UserAgent = "helmop"
)

// RendersChart reports whether the action makes a revision from a chart and values.
func (a Action) RendersChart() bool {
	switch a {
	case ActionInstall, ActionRecoverThenInstall, ActionUpgrade, ActionRecoverThenUpgrade:
		return true
	default:
		return false
	}
}

// FieldManager is the field manager of the fields that Helm writes. By default Helm uses the name of the binary, and a
// renamed binary would leave fields behind that no manager owns.
const FieldManager = "helmop"

// Action is the next action on a release. The set is closed.
type Action string

const (
	// ActionNone means that there is nothing to do.
	ActionNone Action = "None"
	// ActionInstall installs the release.
	ActionInstall Action = "Install"
	// ActionUpgrade upgrades the release.
	ActionUpgrade Action = "Upgrade"
	// ActionRecoverThenInstall resolves a pending record, then installs.
	ActionRecoverThenInstall Action = "RecoverThenInstall"
	// ActionRecoverThenUpgrade resolves a pending record, then upgrades.
	ActionRecoverThenUpgrade Action = "RecoverThenUpgrade"
	// ActionRollback returns to the revision RollbackTo. Observe and decide again after it.
	ActionRollback Action = "Rollback"
	// ActionTest runs the chart's tests on the newest revision.
	ActionTest Action = "Test"
	// ActionCorrectDrift puts objects right that differ from the newest revision's manifest. Act does not do it.
	ActionCorrectDrift Action = "CorrectDrift"
	// ActionUninstall uninstalls the release. Where a release is desired, observe and decide again after it.
	ActionUninstall Action = "Uninstall"
	// ActionWait means that another holder may be at work, that the next try is not due, or that the cluster did not
	// answer: look again after RequeueAfter.
	ActionWait Action = "Wait"
	// ActionStall means that nothing is tried until the desired state changes or a retry is requested.
	ActionStall Action = "Stall"
	// ActionRefuse means that the release belongs to another owner.
	ActionRefuse Action = "Refuse"
)
