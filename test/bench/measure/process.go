// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package measure measures processes: their CPU time and memory, their metrics and their profiles. It reads /proc, so
// that it works on Linux only.
package measure

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// ticksPerSecond is the unit of CPU times in /proc, the same on all supported systems.
	ticksPerSecond = 100

	// memoryInterval is the time between two samples of the memory of a process.
	memoryInterval = 100 * time.Millisecond
)

// CPU returns the CPU time that a process has used since its start.
func CPU(pid int) (time.Duration, error) { return cpu(pid, 2) }

// cpu adds up the first n CPU times in the status of a process: 2 are the times of the process, 4 include the times of
// its children that have ended.
func cpu(pid, n int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain any character.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read: %q", pid, data)
	}
	total := int64(0)
	for _, field := range fields[11 : 11+n] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		total += ticks
	}
	return time.Duration(total) * time.Second / ticksPerSecond, nil
}

// Memory returns the resident memory of a process in bytes.
func Memory(pid int) (int64, error) { return status(pid, "VmRSS:") }

// Files returns the part of Memory that consists of pages of files, such as the program itself, which can be read
// again.
func Files(pid int) (int64, error) { return status(pid, "RssFile:") }

// status returns a size in the status of a process, in bytes.
func status(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", pid, name)
}

// Peak samples the memory of processes.
type Peak struct {
	stop func()
	done sync.WaitGroup
	peak int64
}

// FollowPeak samples the memory of a process until Stop, or until the process ends.
func FollowPeak(pid int) *Peak {
	return followPeak(func() (int64, error) { return Memory(pid) })
}

// FollowTreesPeak samples the memory of processes and of all their descendants until Stop, or until one of the
// processes ends.
func FollowTreesPeak(pids ...int) *Peak {
	return followPeak(func() (int64, error) {
		used, err := Trees(pids...)
		return used.Memory, err
	})
}

func followPeak(memory func() (int64, error)) *Peak {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Peak{stop: cancel}
	p.done.Go(func() {
		ticker := time.NewTicker(memoryInterval)
		defer ticker.Stop()
		for {
			bytes, err := memory()
			if err != nil {
				return
			}
			p.peak = max(p.peak, bytes)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return p
}

// Stop returns the largest sample.
func (p *Peak) Stop() int64 {
	p.stop()
	p.done.Wait()
	return p.peak
}
