// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasememory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasehealth"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradereadiness"
)

// Memory is the memory of one release. It needs no lock, because the queue never gives the same release to two workers.
type Memory struct {
	// Health is the state of the assessment of the health.
	Health releasehealth.Memory

	// ListedFor is the retry request for which the objects were listed.
	ListedFor string

	// Drift is the state of drift detection.
	Drift driftmemory.Memory

	// Upgrade is the next try of a check for an upgrade of Kubernetes.
	Upgrade upgradereadiness.Retry

	// Trace is the memory of the trace.
	Trace tracing.Memory
}

// Memories hold the memory of each release. The zero value is empty; it is safe for concurrent use.
type Memories struct {
	mu        sync.Mutex
	byRelease map[types.NamespacedName]*Memory
}

// Of returns the memory of a release. It creates an empty memory if there is none.
func (m *Memories) Of(key types.NamespacedName) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	memory, ok := m.byRelease[key]
	if !ok {
		if m.byRelease == nil {
			m.byRelease = map[types.NamespacedName]*Memory{}
		}
		memory = &Memory{}
		m.byRelease[key] = memory
	}
	return memory
}

// DropObjects drops what is known of the objects of a release. The next try of a check for an upgrade stays.
func (m *Memories) DropObjects(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch memory := m.byRelease[key]; {
	case memory == nil:
	case memory.Upgrade == (upgradereadiness.Retry{}):
		delete(m.byRelease, key)
	default:
		m.byRelease[key] = &Memory{Upgrade: memory.Upgrade}
	}
}

// Drop drops what is known of a release.
func (m *Memories) Drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byRelease, key)
}
