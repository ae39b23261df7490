// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
)

// releaseMemory is what this process knows of the objects of one release and no status holds. A restart loses it. One
// worker at a time uses it: the queue never gives the same release to two.
type releaseMemory struct {
	// written is how the last action left each object, until it is seen.
	written written

	// unobservedSince is since when not all objects are seen; zero if all are.
	unobservedSince time.Time

	// listedFor is the request to retry for which the objects were listed.
	listedFor string

	drift driftmemory.Memory
}

// memoryOf returns the memory of a release.
func (r *Reconciler) memoryOf(release *addonsv1.HelmOpRelease) *releaseMemory {
	return r.memories.of(client.ObjectKeyFromObject(release))
}

// memories hold the memory of each release. The zero value is empty; it is safe for concurrent use.
type memories struct {
	mu        sync.Mutex
	byRelease map[types.NamespacedName]*releaseMemory
}

// of returns the memory of a release, an empty one if there is none.
func (m *memories) of(key types.NamespacedName) *releaseMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	memory, ok := m.byRelease[key]
	if !ok {
		if m.byRelease == nil {
			m.byRelease = map[types.NamespacedName]*releaseMemory{}
		}
		memory = &releaseMemory{}
		m.byRelease[key] = memory
	}
	return memory
}

func (m *memories) drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byRelease, key)
}
