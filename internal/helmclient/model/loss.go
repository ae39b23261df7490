// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Loss lists the objects that an upgrade or a rollback would delete: objects of previous revisions that are not in the
// new manifest and have no policy to keep them.
type Loss struct {
	// Objects are the objects that would be deleted, in a fixed order.
	Objects []inventory.Ref
	// Total is the number of objects that the release has, including Objects.
	Total int
	// Revision is the revision with which Helm compares the new manifest.
	Revision int
}
