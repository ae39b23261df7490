// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// UserAgent is the user agent of all requests to workload clusters, for example in audit logs.
const UserAgent = "helmop"

// RendersChart reports whether the action needs a chart and values.
func (a Action) RendersChart() bool {
	switch a {
	case ActionInstall, ActionRecoverThenInstall, ActionUpgrade, ActionRecoverThenUpgrade, ActionAdopt:
		return true
	default:
		return false
	}
}

// Installs reports whether the action installs a release that does not exist.
func (a Action) Installs() bool { return a == ActionInstall || a == ActionRecoverThenInstall }

// FieldManager is the field manager of the fields that Helm writes. By default, Helm uses the name of the binary. After
// the binary is renamed, fields of the old field manager would be left behind.
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
	// ActionAdopt takes over the release of another owner. If the desired state would change nothing, the action labels
	// the newest record and creates no revision. Otherwise it upgrades the release or fails, see decide.Decision.
	ActionAdopt Action = "Adopt"
	// ActionRecoverThenInstall resolves a pending record, then installs.
	ActionRecoverThenInstall Action = "RecoverThenInstall"
	// ActionRecoverThenUpgrade resolves a pending record, then upgrades.
	ActionRecoverThenUpgrade Action = "RecoverThenUpgrade"
	// ActionRollback rolls back to the revision RollbackTo. Observe and decide again after it.
	ActionRollback Action = "Rollback"
	// ActionTest runs the chart's tests on the newest revision.
	ActionTest Action = "Test"
	// ActionCorrectDrift corrects objects that differ from the newest revision's manifest. Act ignores it: the caller
	// corrects the drift.
	ActionCorrectDrift Action = "CorrectDrift"
	// ActionUninstall uninstalls the release. If a release is desired, observe and decide again after it.
	ActionUninstall Action = "Uninstall"
	// ActionWait means that another process may be working on the release, that the next attempt is not due, or that the
	// cluster did not respond. Observe and decide again after RequeueAfter.
	ActionWait Action = "Wait"
	// ActionStall means that there is no further attempt until the desired state changes or a retry is requested.
	ActionStall Action = "Stall"
	// ActionRefuse means that the release belongs to another owner.
	ActionRefuse Action = "Refuse"
)
