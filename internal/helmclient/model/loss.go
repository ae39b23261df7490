// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Loss holds the objects that an upgrade or a rollback would delete: objects of the previous revisions that the new
// manifest does not have and that have no policy to keep them.
type Loss struct {
	// Objects are what would be deleted, in a fixed order. Total is the number of objects that the release has, these
	// included.
	Objects []inventory.Ref
	Total   int
	// Revision is the number of the revision that the release has.
	Revision int
}
