// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Loss lists the objects that an action would delete. An upgrade or a rollback deletes objects of previous revisions
// that are not in the new manifest; an uninstallation deletes all. Objects with the keep policy stay.
type Loss struct {
	// Objects are the objects that would be deleted, in a fixed order.
	Objects []inventory.Ref
	// Total is the number of objects that the release has, including Objects.
	Total int
	// Revision is the revision with which Helm compares the new manifest, or the newest revision that Helm uninstalls.
	Revision int
	// Uninstalls is true if the action uninstalls the release. NeverWorked is true if also no revision of it ever worked.
	Uninstalls, NeverWorked bool
}
