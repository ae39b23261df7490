// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Loss is what an upgrade or a rollback would delete: objects of the revisions before that the new manifest does not
// have, and that are not to be kept.
type Loss struct {
	// Objects are what would be deleted, in a fixed order. Total is the number of objects that the release has, these
	// included.
	Objects []inventory.Ref
	Total   int
	// Revision is the number of the revision that the release has.
	Revision int
}
