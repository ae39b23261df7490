// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"testing"
)

func TestNameSetIsBounded(t *testing.T) {
	t.Parallel()
	set := NewNameSet()
	for i := range 3 * maxNames {
		set.Add(fmt.Sprint(i))
	}
	if n := len(set.names); n > maxNames || !set.Has(fmt.Sprint(3*maxNames-1)) {
		t.Errorf("%d names are kept", n)
	}
}
