// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Plan describes what the next installation or upgrade of a release would do. It contains the objects with all values,
// including values from Secrets.
type Plan struct {
	// Action is ActionInstall or ActionUpgrade. It is ActionAdopt if the release of another owner is adopted without a
	// change, and ActionNone if the release is in sync or was installed once. It is ActionRefuse if the release belongs to
	// another owner, or if its adoption would change the release.
	Action Action
	// Message explains ActionAdopt, ActionRefuse, and ActionNone for a release that was installed once. It may also say
	// what the action waits for. Otherwise it is empty.
	Message string
	// Changes are the objects that would change, and the objects whose change would fail. They are in this order: the
	// namespace of the release, the folder crds, the objects of the manifest, and the deletions.
	Changes []Change
	// Unchanged is the number of objects that would not change.
	Unchanged int
	// Hooks are the hooks of the action, in the order in which Helm runs them.
	Hooks []PlannedHook
	// PreviousValues are the values of the Helm revision that an upgrade starts from.
	PreviousValues map[string]any
}

// ChangeKind is what an action does to an object.
type ChangeKind string

// The kinds of changes.
const (
	ChangeCreate ChangeKind = "Create"
	ChangeUpdate ChangeKind = "Update"
	// ChangeRecreate deletes the object and creates it again. It is used if the cluster refuses to change the object and
	// upgrade.force is set.
	ChangeRecreate ChangeKind = "Recreate"
	ChangeDelete   ChangeKind = "Delete"
)

// ChangeReason is a remark on a change, for programs.
type ChangeReason string

// The first reasons mean that the change would fail. The action would then fail too.
const (
	// ReasonImmutable means that the cluster refuses to change a field of the object.
	ReasonImmutable ChangeReason = "Immutable"
	// ReasonKindNotServed means that the cluster does not serve the kind.
	ReasonKindNotServed ChangeReason = "KindNotServed"
	// ReasonOwnedByOther means that the object exists and does not belong to this release.
	ReasonOwnedByOther ChangeReason = "OwnedByOther"
	// ReasonForbidden means that the identity of the release lacks a permission.
	ReasonForbidden ChangeReason = "Forbidden"
	// ReasonRejected means that the cluster rejects the object.
	ReasonRejected ChangeReason = "Rejected"

	// ReasonUnchecked means that the cluster could not check the change. After is then the rendered object.
	ReasonUnchecked ChangeReason = "Unchecked"
	// ReasonTakeover means that the object belongs to another release, and that the action would take it over.
	ReasonTakeover ChangeReason = "Takeover"
)

// Fails reports whether the change would fail.
func (r ChangeReason) Fails() bool {
	switch r {
	case ReasonImmutable, ReasonKindNotServed, ReasonOwnedByOther, ReasonForbidden, ReasonRejected:
		return true
	default:
		return false
	}
}

// IsAsRendered reports whether the cluster did not compute the result of the change. After is then the rendered object.
func (r ChangeReason) IsAsRendered() bool { return r.Fails() || r == ReasonUnchecked }

// Change is what an action would do to an object.
type Change struct {
	Ref  inventory.Ref
	Kind ChangeKind
	// Reason and Message are a remark; empty if there is none. Message contains no values of the release.
	Reason  ChangeReason
	Message string
	// Before is the object in the cluster; nil if it does not exist. After is the object as the cluster would store it, or
	// the rendered object, see [ChangeReason.IsAsRendered]; nil if it would be deleted.
	Before, After map[string]any
}

// PlannedHook is a hook that an action would run.
type PlannedHook struct {
	Ref inventory.Ref
	// Event is when the hook runs, for example "pre-upgrade".
	Event string
}
