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

// Memory is the memory of one release. It needs no lock, because the queue never gives a release to two workers at
// once.
type Memory struct {
	// Health is the memory of the health assessment.
	Health releasehealth.Memory

	// ListedFor is the retry request that caused the last list of the objects.
	ListedFor string

	// Drift is the memory of drift detection.
	Drift driftmemory.Memory

	// Upgrade is the state of failed checks for an upgrade of Kubernetes.
	Upgrade upgradereadiness.Retry

	// Trace is the memory of the trace.
	Trace tracing.Memory
}

// Memories hold the memory of each release. The zero value is empty. Memories are safe for concurrent use.
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

// DropObjects drops the memory of a release's objects. The state of failed upgrade checks stays.
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

// Drop drops the whole memory of a release.
func (m *Memories) Drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byRelease, key)
}
