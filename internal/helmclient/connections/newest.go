// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// NewestVersion holds the highest resourceVersion that the lists of one kind in a cluster have returned. The lists must
// request the newest state: such lists never return a lower resourceVersion than an earlier list, whatever API server
// of the cluster answers. So a lower one shows that the cluster was restored from a backup. The zero value holds no
// resourceVersion. It is safe for concurrent use.
type NewestVersion struct {
	mu      sync.Mutex
	version string
}

// Get returns the highest resourceVersion; empty if there is none.
func (n *NewestVersion) Get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}

// Reach stores the resourceVersion of a list. before is the result of Get before the list began. Reach returns false if
// the resourceVersion is lower than before. It cannot compare resourceVersions that are no numbers.
func (n *NewestVersion) Reach(version, before string) bool {
	if order, err := resourceversion.CompareResourceVersion(version, before); err == nil && order < 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, n.version); err != nil || order > 0 {
		n.version = version
	}
	return true
}
