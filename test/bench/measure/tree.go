// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what processes use: the CPU time since their start, and their resident memory in bytes. Memory that
// processes share counts for each of them.
type Usage struct {
	CPU    time.Duration
	Memory int64
}

// Add returns the sum of two usages.
func (u Usage) Add(other Usage) Usage {
	return Usage{CPU: u.CPU + other.CPU, Memory: u.Memory + other.Memory}
}

// Trees returns the usage of processes and of all their descendants. The CPU time includes descendants that have ended.
func Trees(pids ...int) (Usage, error) {
	var total Usage
	for _, pid := range pids {
		used, err := tree(pid)
		if err != nil {
			return total, err
		}
		total = total.Add(used)
	}
	return total, nil
}

func tree(pid int) (Usage, error) {
	started, err := children(pid)
	if err != nil {
		return Usage{}, err
	}
	var total Usage
	if total.CPU, err = cpu(pid, 4); err != nil {
		return total, err
	}
	if total.Memory, err = Memory(pid); err != nil {
		return total, err
	}
	for _, child := range started {
		used, err := tree(child)
		// A child that has just ended has no memory. Its CPU time is in the next measurement of its parent.
		if err != nil && !hasEnded(child, err) {
			return total, err
		}
		total = total.Add(used)
	}
	return total, nil
}

// hasEnded reports whether an error means that a process has ended. The status of a process that its parent has not
// waited for yet has no memory.
func hasEnded(pid int, err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(data), "\nState:\tZ")
}

// children returns the processes that the threads of a process have started and that have not ended.
func children(pid int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // The thread has ended.
		}
		for _, field := range strings.Fields(string(data)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, child)
		}
	}
	return all, nil
}
