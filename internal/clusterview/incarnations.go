// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Incarnations remember which Cluster is meant by a name. The zero value is empty; it is safe for concurrent use.
type Incarnations struct {
	mu        sync.Mutex
	byCluster map[types.NamespacedName]types.UID
}

// IsAnother takes note of the UID of a Cluster, and tells whether the name meant another one before.
func (i *Incarnations) IsAnother(key types.NamespacedName, uid types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byCluster == nil {
		i.byCluster = map[types.NamespacedName]types.UID{}
	}
	known, ok := i.byCluster[key]
	i.byCluster[key] = uid
	return ok && known != uid
}

// Forget forgets a Cluster.
func (i *Incarnations) Forget(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.byCluster, key)
}
