// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"slices"
	"strings"
)

// BelongsTo reports whether a HelmOpRelease or HelmOpRevision belongs to a HelmOp by its name: the name begins with the
// name of the HelmOp and a hyphen, and not with the longer name of another HelmOp.
func BelongsTo(name, helmOp string, others []string) bool {
	return strings.HasPrefix(name, helmOp+"-") && !slices.ContainsFunc(others, func(other string) bool {
		return len(other) > len(helmOp) && strings.HasPrefix(name, other+"-")
	})
}
