// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// heapInterval is how often it is looked how much was allocated.
	heapInterval = 5 * time.Second

	// burstShare is which part of what is in use must be allocated anew within heapInterval to be a burst of work: a quarter. A thousand
	// Clusters at rest take less than a third of that, for health probes and looks; their installations take five times as much.
	burstShare = 4

	// minBurst is the least, in bytes, for small managers, whose metrics are read now and then.
	minBurst = 16 << 20

	// restTicks is for how many intervals there must be no burst until one is over: connections of actions end 20 seconds after them.
	restTicks = 5
)

// memoryReturner gives back what a burst of work needed, such as an upgrade of a whole fleet. Go would keep it for minutes: garbage is
// collected when enough of it was made, which takes long at rest, and pages are given back by and by.
type memoryReturner struct {
	// read returns the bytes that were allocated since the start, and those that were in use at the last collection.
	read     func() (allocated, live uint64)
	giveBack func()
	interval time.Duration
}

func setupMemory(mgr ctrl.Manager) error {
	return mgr.Add(&memoryReturner{read: readHeap, giveBack: debug.FreeOSMemory, interval: heapInterval})
}

// Start implements manager.Runnable.
func (m *memoryReturner) Start(ctx context.Context) error {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	var b burst
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if b.isOver(m.read()) {
				m.giveBack()
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that waits fills its caches, too.
func (*memoryReturner) NeedLeaderElection() bool { return false }

// burst is what is known of a burst of work.
type burst struct {
	// allocated is what was allocated when it was last looked at.
	allocated uint64
	// rest is for how many more intervals there must be none; 0 if there was none, or what it needed was given back.
	rest int
}

// isOver tells once of each burst that it is over, by the bytes that were allocated so far and those that are in use.
func (b *burst) isOver(allocated, live uint64) bool {
	recent := allocated - b.allocated
	b.allocated = allocated
	switch {
	case recent > max(live/burstShare, minBurst):
		b.rest = restTicks
		return false
	case b.rest == 0:
		return false
	}
	b.rest--
	return b.rest == 0
}

// readHeap asks the runtime.
func readHeap() (allocated, live uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
