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
	// renderShare is the part of the container's limit, 1/renderShare, that all render processes together may use.
	renderShare = 2
	// defaultMemory is the manager's own memory if no limit is known, in bytes.
	defaultMemory = 1 << 30
	// underWayShare is the part of the manager's own memory, 1/underWayShare, that data being read may use. A thousand
	// idle Clusters with five releases each use 379 MiB.
	underWayShare = 2
)

// memoryPlan divides the memory of the container.
type memoryPlan struct {
	// heap is the memory limit of the Go runtime, in bytes; 0 if no limit is known.
	heap int64
	// underWay is the memory that responses, events and artifacts together may use while they are read, in bytes.
	underWay int64
	// renderers is the number of processes that render charts for one tenant at a time. Another tenant can use one more. 0
	// means one for each processor.
	renderers int
}

// memoryLimit returns the value of the flag in bytes. Without the flag, it returns the value of the environment, and 0
// without both.
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

// planMemory divides a container's limit. renderer is the limit of one render process. Both are in bytes; a limit of 0
// is unknown.
func planMemory(limit, renderer int64) memoryPlan {
	if limit <= 0 {
		return memoryPlan{underWay: defaultMemory / underWayShare}
	}
	// A small container has no room for two renderers at their limit. The manager keeps half of the memory anyway.
	processes := max(2, min(limit/renderShare/renderer, int64(runtime.GOMAXPROCS(0))+1))
	own := max(limit-processes*renderer, limit/renderShare)
	// A tenth is reserved for memory that the runtime does not count: the binary, and the kernel's socket buffers.
	return memoryPlan{heap: own / 10 * 9, underWay: own / underWayShare, renderers: int(processes) - 1}
}

// apply sets the limit of the Go runtime, unless the environment sets it.
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
