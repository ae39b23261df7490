// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import "testing"

// TestLateListIsNoRestore checks that a list counts only against the lists that ended before it began: concurrent lists
// may end in any order.
func TestLateListIsNoRestore(t *testing.T) {
	t.Parallel()
	newest := &NewestVersion{}
	before := newest.Get()
	if !newest.Reach("100", before) {
		t.Error("the first list")
	}
	before = newest.Get()
	if !newest.Reach("120", before) {
		t.Error("a newer list")
	}
	if !newest.Reach("110", before) || newest.Get() != "120" {
		t.Errorf("a list that ended late: %s", newest.Get())
	}
	if newest.Reach("110", newest.Get()) {
		t.Error("a list of a restored cluster")
	}
}
