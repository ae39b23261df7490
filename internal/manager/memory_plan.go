// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

const (
	// renderShare limits the render processes: together they may use 1/renderShare of the container's memory limit.
	renderShare = 2
	// defaultMemory is the assumed memory of the manager if no limit is known, in bytes.
	defaultMemory = 1 << 30
	// underWayShare limits the data that is being read: it may use 1/underWayShare of the manager's own memory. For
	// comparison: a thousand idle Clusters with five releases each use 379 MiB.
	underWayShare = 2
)

// memoryPlan divides the memory of the container.
type memoryPlan struct {
	// heap is the memory limit of the Go runtime, in bytes; 0 if no limit is known.
	heap int64
	// underWay is the memory for all responses, events and artifacts while they are read, in bytes.
	underWay int64
	// renderers is the number of processes that render charts for one tenant at the same time. Another tenant can use one
	// additional process. 0 means one for each processor.
	renderers int
}

// memoryLimit returns the value of the flag in bytes. Without the flag, it returns the value of the environment
// variable. Without both, it returns 0.
func memoryLimit(flag int64, environment string) (int64, error) {
	if flag != 0 || environment == "" {
		return flag, nil
	}
	limit, err := strconv.ParseInt(environment, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("environment variable MEMORY_LIMIT: %q is not a number of bytes", environment)
	}
	return limit, nil
}

// planMemory divides a container's limit. renderer is the limit of one render process. Both are in bytes. 0 means that
// the limit is not known.
func planMemory(limit, renderer int64) memoryPlan {
	if limit <= 0 {
		return memoryPlan{underWay: defaultMemory / underWayShare}
	}
	// A small container has no memory for two renderers at their limit. So the manager always keeps half of the memory.
	processes := max(2, min(limit/renderShare/renderer, int64(runtime.GOMAXPROCS(0))+1))
	own := max(limit-processes*renderer, limit/renderShare)
	// A tenth is reserved for memory that the Go runtime does not count: the binary, and the socket buffers of the kernel.
	return memoryPlan{heap: own / 10 * 9, underWay: own / underWayShare, renderers: int(processes) - 1}
}

// apply sets the memory limit of the Go runtime, unless the environment sets it.
func (p memoryPlan) apply(environment string) {
	if p.heap > 0 && environment == "" {
		debug.SetMemoryLimit(p.heap)
	}
}

// observeBudget registers metrics of the memory budget.
func observeBudget(budget *bytebudget.Budget) error {
	for _, metric := range []struct {
		name, help string
		value      func() int64
	}{
		{"helmop_memory_under_way_bytes", "Estimated memory in bytes of the responses, events and artifacts that are " +
			"being read.", budget.InUse},
		{"helmop_memory_under_way_limit_bytes", "Limit of helmop_memory_under_way_bytes.", budget.Total},
		{"helmop_memory_under_way_waiting", "Number of responses, events and artifacts that wait for memory before they " +
			"are read.", budget.Waiting},
	} {
		gauge := prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: metric.name, Help: metric.help},
			func() float64 { return float64(metric.value()) },
		)
		if err := metrics.Registry.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}
