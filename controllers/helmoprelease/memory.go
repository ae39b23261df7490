// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasehealth"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// releaseMemory is the state of one release that is only in memory and lost with a restart. It needs no
// lock, because the queue never gives the same release to two workers.
type releaseMemory struct {
	// health is the state of the assessment of the health.
	health releasehealth.Memory

	// listedFor is the retry request for which the objects were listed.
	listedFor string

	// drift is the state of drift detection.
	drift driftmemory.Memory

	// upgrade is the next try of a check for an upgrade of Kubernetes.
	upgrade upgradeRetry

	// trace is the memory of the trace.
	trace tracing.Memory
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

// of returns the memory of a release. It creates an empty memory if there is none.
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

// dropObjects drops what is known of the objects of a release. The next try of a check for an upgrade stays.
func (m *memories) dropObjects(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch memory := m.byRelease[key]; {
	case memory == nil:
	case memory.upgrade == (upgradeRetry{}):
		delete(m.byRelease, key)
	default:
		m.byRelease[key] = &releaseMemory{upgrade: memory.upgrade}
	}
}

func (m *memories) drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byRelease, key)
}
