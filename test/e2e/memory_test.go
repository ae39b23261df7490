// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

const (
	// memoryLimit is the value of --memory-limit for managers whose memory is measured. Half of it is for the processes
	// that render charts.
	memoryLimit = "1073741824"

	// ownMemory is the memory that such a manager may use itself, in bytes.
	ownMemory = 512 << 20
)

// followedMemory is the memory of a manager during a test.
type followedMemory struct {
	manager *environment.Manager
	before  int64
	peak    *measure.Peak
}

// followMemory starts to measure the memory of the first manager of an environment, which was started with memoryLimit.
func (s *scenario) followMemory() *followedMemory {
	s.Helper()
	manager := s.env.Managers()[0]
	before, err := measure.Memory(manager.PID())
	s.must(err)
	return &followedMemory{manager: manager, before: before, peak: measure.FollowPeak(manager.PID())}
}

// expectBounded checks that the manager used at most ownMemory, and still runs.
func (m *followedMemory) expectBounded(s *scenario) {
	s.Helper()
	peak := m.peak.Stop()
	s.Logf("memory of the manager: %d MiB before, %d MiB at most", m.before>>20, peak>>20)
	s.Expect(peak).To(gomega.BeNumerically("<", ownMemory), "memory of the manager, in bytes")
	s.Expect(m.manager.Running()).To(gomega.BeTrue(), "the first manager still runs")
}
