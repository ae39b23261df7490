// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasememory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestUpgradeRetryOutlivesObjectState checks that DropObjects keeps the delay before the next check, and that Drop
// removes it.
func TestUpgradeRetryOutlivesObjectState(t *testing.T) {
	t.Parallel()
	var m Memories
	key := types.NamespacedName{Namespace: "team", Name: "web"}
	m.Of(key).ListedFor, m.Of(key).Upgrade.Failures = "now", 3
	m.DropObjects(key)
	if got := m.Of(key); got.Upgrade.Failures != 3 || got.ListedFor != "" {
		t.Errorf("got %+v", got)
	}
	m.Drop(key)
	m.DropObjects(key)
	if len(m.byRelease) != 0 {
		t.Errorf("%d memories are left", len(m.byRelease))
	}
}
