// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasememory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/memory"
)

// TestUpgradeRetryOutlivesObjectState checks that DropObjects keeps the delay before the next check, and that Drop
// removes it.
func TestUpgradeRetryOutlivesObjectState(t *testing.T) {
	t.Parallel()
	var all memory.Objects[Memory]
	key := types.NamespacedName{Namespace: "team", Name: "web"}
	m := all.Of(key)
	m.ListedFor, m.Upgrade.Failures = "now", 3
	m.DropObjects()
	if got := all.Of(key); got.Upgrade.Failures != 3 || got.ListedFor != "" {
		t.Errorf("got %+v", got)
	}
	all.Drop(key)
	if all.Known(key) != nil {
		t.Error("a memory is left")
	}
}
