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
	// renderShare is the part of the container's limit that the processes that render charts may take together: a half.
	renderShare = 2
	// defaultMemory is what the manager itself has where no limit is known.
	defaultMemory = 1 << 30
	// underWayShare is the part of the manager's own memory that everything under way may take: a half. A thousand Clusters with five
	// releases each take 379 MiB at rest.
	underWayShare = 2
)

// memoryPlan divides the memory of the container.
type memoryPlan struct {
	// heap is what the Go runtime keeps the process below, in bytes; 0 if no limit is known.
	heap int64
	// underWay is what answers, events and artifacts may take together while they are read, in bytes.
	underWay int64
	// renderers is how many processes render charts for one tenant at a time; another tenant has one more. 0 is one for each processor.
	renderers int
}

// memoryLimit is what the flag says or else the environment, in bytes; 0 if neither does.
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

// planMemory divides a container's limit in bytes, 0 if it is not known, given what one process that renders charts may take.
func planMemory(limit, renderer int64) memoryPlan {
	if limit <= 0 {
		return memoryPlan{underWay: defaultMemory / underWayShare}
	}
	// A small container cannot have two renderers at their limit; half of it is the manager's all the same.
	processes := max(2, min(limit/renderShare/renderer, int64(runtime.GOMAXPROCS(0))+1))
	own := max(limit-processes*renderer, limit/renderShare)
	// A tenth is for what the runtime does not count: the program itself, and the kernel's buffers of its connections.
	return memoryPlan{heap: own / 10 * 9, underWay: own / underWayShare, renderers: int(processes) - 1}
}

// apply sets the limit of the Go runtime, unless the environment sets it.
func (p memoryPlan) apply(environment string) {
	if p.heap > 0 && environment == "" {
		debug.SetMemoryLimit(p.heap)
	}
}

// observeBudget makes metrics of what is under way.
func observeBudget(budget *bytebudget.Budget) error {
	for _, metric := range []struct {
		name, help string
		value      func() int64
	}{
		{"helmop_memory_under_way_bytes", "Memory that answers, events and artifacts take while they are read, by estimate.", budget.InUse},
		{"helmop_memory_under_way_limit_bytes", "What helmop_memory_under_way_bytes may be.", budget.Total},
		{"helmop_memory_under_way_waiting", "Answers, events and artifacts that wait for memory before they are read.", budget.Waiting},
	} {
		gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metric.name, Help: metric.help}, func() float64 { return float64(metric.value()) })
		if err := metrics.Registry.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}
