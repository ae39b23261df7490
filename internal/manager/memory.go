// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// heapInterval is how often allocations are measured.
	heapInterval = 5 * time.Second

	// burstShare defines a burst of work: at least 1/burstShare of the used memory is allocated within heapInterval. A
	// thousand idle Clusters allocate less than a third of this for probes and checks. Their installations allocate five
	// times as much.
	burstShare = 4

	// minBurst is the smallest number of allocated bytes that counts as a burst. Reading the metrics of a small manager
	// allocates less than this.
	minBurst = 16 << 20

	// burstGarbage is the garbage, in bytes, that may accumulate between two collections during a burst, if it is more
	// than --gc-percent permits and not more than the memory in use. A manager that starts has a small heap that grows
	// fast: collections at each quarter of growth would take a third of its CPU time. The memory for the garbage is not
	// returned completely after the burst, because some objects between the garbage stay.
	burstGarbage = 24 << 20

	// startGarbage is the same until the work after a start is over, and after the election of a standby. The manager
	// reads all releases again, and collections would take two fifths of its CPU time.
	startGarbage = 64 << 20

	// restTicks is the number of intervals without a burst after which the work is over. The memory of the connections of
	// actions is free 20 seconds after the action.
	restTicks = 5

	// laterTicks is the number of further intervals without a burst after which memory is returned again: watches that
	// began during the burst have received their first events by then, and objects that were kept for a minute are
	// garbage.
	laterTicks = 15

	// defaultPercent is the default of --gc-percent. restPercent is the greatest percentage at rest, unless the flag is
	// higher than its default: a user who saves CPU time saves it also at rest.
	defaultPercent, restPercent = 25, 15

	// programTicks is the number of intervals at rest between two returns of the program's pages. Each page that is used
	// makes the kernel map up to 64 KiB around it, so the pages of an idle manager increase again after a return.
	programTicks = 6
)

// memoryReturner returns memory to the system after a burst of work, such as the upgrade of a whole fleet. Go alone
// would keep the memory for minutes: an idle process collects garbage rarely and returns pages slowly. During a burst,
// the garbage of a small heap is collected less often.
type memoryReturner struct {
	// read returns the bytes allocated since the start, and the bytes in use after the last garbage collection.
	read     func() (allocated, live uint64)
	giveBack func()
	// returnProgram returns the pages of the program at rest.
	returnProgram func()
	// setPercent sets the growth of the heap that starts a collection, and returns the former value. percent is the value
	// of --gc-percent.
	setPercent func(int) int
	percent    int
	interval   time.Duration
	// elected is closed when the process becomes the leader. Then it reads all releases.
	elected <-chan struct{}
}

func setupMemory(mgr ctrl.Manager, gcPercent int) error {
	log := mgr.GetLogger()
	return mgr.Add(&memoryReturner{
		read: readHeap, giveBack: func() { giveBack(log) },
		// The pages that are used at rest stay in the working set: a node that is short of memory must not drop them first.
		returnProgram: func() { tryReturnProgram(log, false) },
		setPercent:    debug.SetGCPercent, percent: gcPercent, interval: heapInterval, elected: mgr.Elected(),
	})
}

// giveBack returns the memory that a burst has needed: the free heap, parts of stacks, and the pages of the program. A
// stack that is too large is halved by each garbage collection.
func giveBack(log logr.Logger) {
	runtime.GC()
	debug.FreeOSMemory()
	tryReturnProgram(log, true)
}

// tryReturnProgram returns the pages of the program, and logs an error.
func tryReturnProgram(log logr.Logger, cold bool) {
	if err := returnProgram(cold); err != nil {
		log.V(1).Info("Cannot return the pages of the program to the system", "reason", err.Error())
	}
}

// Start implements manager.Runnable.
func (m *memoryReturner) Start(ctx context.Context) error {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	// The start fills the caches. The first turn sets the percentage, because Run starts with another one.
	b, current, elected := burst{rest: restTicks, later: laterTicks, isStart: true}, 0, m.elected
	for {
		allocated, live := m.read()
		isOver := b.isOver(allocated, live)
		// Each change stops the process for a moment.
		if percent := b.percent(live, m.percent); percent != current {
			m.setPercent(percent)
			current = percent
		}
		switch {
		case isOver:
			m.giveBack()
		case b.isProgramDue():
			m.returnProgram()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			b.rest, b.later, b.isStart, elected = restTicks, laterTicks, true, nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It is false because replicas that are not the leader
// fill their caches too.
func (*memoryReturner) NeedLeaderElection() bool { return false }

// burst tracks a burst of work.
type burst struct {
	// allocated is the number of bytes that the process had allocated in all, from its start to the last check.
	allocated uint64
	// rest is the number of further intervals without a burst after which the burst is over. It is 0 if there was no
	// burst, or if its memory was returned.
	rest int
	// later is the number of further intervals after which memory is returned again; 0 if this is done.
	later int
	// idle is the number of intervals at rest since the last return of the program's pages.
	idle int
	// isStart is true until the work after the start of the process is over.
	isStart bool
}

// isOver returns true twice for each burst: when the burst is over, and laterTicks later. The arguments are the bytes
// allocated since the start, and the bytes in use.
func (b *burst) isOver(allocated, live uint64) bool {
	recent := allocated - b.allocated
	b.allocated = allocated
	switch {
	case recent > max(live/burstShare, minBurst):
		b.rest, b.later = restTicks, laterTicks
		return false
	case b.rest > 0:
		b.rest--
		b.isStart = b.isStart && b.rest > 0
		return b.rest == 0
	case b.later > 0:
		b.later--
		return b.later == 0
	default:
		return false
	}
}

// isProgramDue returns true after each programTicks intervals without a burst, once the burst before them is over. It
// is called once for each interval in which isOver returns false.
func (b *burst) isProgramDue() bool {
	if b.rest > 0 {
		b.idle = 0
		return false
	}
	b.idle++
	if b.idle < programTicks {
		return false
	}
	b.idle = 0
	return true
}

// percent returns the growth of the heap that starts a collection, in percent of the bytes in use. configured is the
// value of --gc-percent.
func (b *burst) percent(live uint64, configured int) int {
	switch {
	case b.rest == 0 && configured <= defaultPercent:
		return min(configured, restPercent)
	case b.rest == 0:
		return configured
	}
	garbage := uint64(burstGarbage)
	if b.isStart {
		garbage = startGarbage
	}
	return max(configured, int(min(100, garbage*100/max(live, 1))))
}

// readHeap reads the metrics of the runtime.
func readHeap() (allocated, live uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
