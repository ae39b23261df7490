// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles is the maximum number of open files of a child: its pipes, and the files of the runtime and the time zones.
	maxFiles = 32
	// shortCPU is the CPU time of a request after which the child gets a lower priority than the manager and the other
	// children. It is in whole seconds.
	shortCPU = time.Second
	// childNice is added to the nice value of the manager for all its children: the manager gets three times the CPU time
	// of a child if it needs it. slower is added for a long request. This request then gets a tenth of the CPU time of
	// another child. maxNice is the largest value. The system call returns values relative to leastNice.
	childNice, slower, maxNice, leastNice = 5, 10, 19, 20
	// heapGrain is the number of bytes of address space by which the runtime grows its heap.
	heapGrain = 64 << 20
)

// confine sets the limits that apply to the whole lifetime of the child.
func (c *child) confine() error {
	addNice(childNice)
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	var size, rest uint64
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(status), &size, &rest); err != nil {
		return err
	}
	// The Go runtime reserves address space at its start. The limit is added to this space.
	space := size*uint64(os.Getpagesize()) + memoryFactor*uint64(c.limits.Memory) //nolint:gosec // Both are positive.
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_AS: space, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: maxFiles,
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	c.base = inUse()
	// With this limit, the runtime collects garbage more often before the address space is used up.
	debug.SetMemoryLimit(c.base + max(c.limits.Memory-heapGrain, c.limits.Memory/2))
	over := make(chan os.Signal, 1)
	signal.Notify(over, unix.SIGXCPU)
	go func() {
		for range over {
			if cpuTime() >= time.Duration(c.allowed.Load()) || c.continueSlowly() != nil {
				c.exceeded(LimitCPU)
			}
		}
	}()
	return nil
}

// allowCPU limits the CPU time to the time of a short request. If a request reaches this limit, it continues with a
// lower priority.
func (c *child) allowCPU() error {
	used := cpuTime()
	c.allowed.Store(int64(used + c.limits.CPU))
	return limitCPU(used + min(shortCPU, c.limits.CPU))
}

// continueSlowly lowers the priority of the child, and raises the limit of CPU time to the limit of a whole request.
func (c *child) continueSlowly() error {
	if !c.isSlow.Swap(true) {
		addNice(slower)
	}
	return limitCPU(time.Duration(c.allowed.Load()))
}

// addNice lowers the priority of the child. The group of the child contains all its threads. If the system refuses the
// priority, the work continues with the old one.
func addNice(more int) {
	if priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, 0, min(leastNice-priority+more, maxNice))
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var usage unix.Rusage
	// Getrusage fails only for an invalid argument.
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// limitCPU limits the CPU time of the process. The kernel counts whole seconds.
func limitCPU(total time.Duration) error {
	var current unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &current); err != nil {
		return err
	}
	seconds := uint64((total + time.Second - 1) / time.Second) //nolint:gosec // It is positive.
	current.Cur = min(seconds, current.Max)
	return unix.Setrlimit(unix.RLIMIT_CPU, &current)
}

// exceedsKept reports whether the child keeps so much memory that too little is left for the next request.
func (c *child) exceedsKept() bool { return inUse()-c.base > c.limits.Memory/2 }

// inUse returns the memory that the runtime has mapped, in bytes. The runtime never returns address space.
func inUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()) //nolint:gosec // It is far below.
}
