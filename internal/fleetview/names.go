// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"slices"
	"strings"
)

// BelongsTo is true if the name of a HelmOpRelease or HelmOpRevision begins with the name of a HelmOp and a hyphen, and
// not with the longer name of another HelmOp.
func BelongsTo(name, helmOp string, others []string) bool {
	return strings.HasPrefix(name, helmOp+"-") && !slices.ContainsFunc(others, func(other string) bool {
		return len(other) > len(helmOp) && strings.HasPrefix(name, other+"-")
	})
}
