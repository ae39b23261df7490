// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
)

const (
	// renderShare limits the render processes: together they may use 1/renderShare of the container's memory limit.
	renderShare = 2
	// defaultMemory is the assumed memory of the manager itself if no limit is known, in bytes.
	defaultMemory = 5 << 29
	// heapParts and heapTenths divide the memory of the manager itself: the heap gets heapTenths of heapParts. The rest
	// is for memory that the Go runtime does not count: the binary, and the socket buffers of the kernel.
	heapParts, heapTenths = 10, 9
	// objectsShare reserves at least 1/objectsShare of the heap for the objects of the fleet, the running actions and
	// the garbage between two collections. For comparison: a thousand idle Clusters with five releases each use about a
	// quarter of the heap in a container of 2 GiB.
	objectsShare = 5
	// fixedCaches is the size of the caches whose size is not planned, in bytes: kept failures of renderers, digests of
	// the archives in chart repositories, tokens for registries, and observed records.
	fixedCaches = 10 << 20
	// clusterBytes is less than the memory of a Cluster with one release, see docs/scale.md. So the manager keeps the
	// connections to all Clusters, as long as the Clusters themselves fit into the heap.
	clusterBytes = 128 << 10
	mebibyte     = 1 << 20
)

// share is a part of the heap: a number of thousandths, within bounds in MiB. A most of 0 is no upper bound: a larger
// cache makes collections of garbage slower, but a budget that is not used costs nothing.
type share struct{ thousandths, least, most int64 }

// These are the shares of the heap. Together with fixedCaches, they leave at least 1/objectsShare of the heap, as long
// as no lower bound applies.
var (
	// underWayShare is for responses, events and artifacts while they are read. One tenant has a quarter for one host, and
	// a half for all hosts.
	underWayShare = share{240, 48, 0}
	// actionsShare is for the records, charts and manifests of actions on large releases.
	actionsShare = share{230, 32, 0}
	// chartsShare is for the cache of parsed charts, and piecesShare for the cache of packed charts.
	chartsShare, piecesShare = share{70, 12, 512}, share{32, 8, 256}
	// manifestsShare, versionsShare and crdsShare are for the caches of manifests, versions of objects and parsed CRDs.
	manifestsShare, versionsShare, crdsShare = share{28, 4, 128}, share{15, 2, 64}, share{15, 2, 64}
	// indexesShare is for the cache of the indexes of chart repositories, and readingShare for indexes while they are
	// read.
	indexesShare, readingShare = share{27, 4, 128}, share{59, 8, 256}
	// valuesShare is for each of two caches: contents of Secrets and ConfigMaps that all Clusters share, and contents of
	// those of single Clusters. outcomesShare is for the cache of outcomes of renderings: with 2 GiB, for 30,000 of them.
	valuesShare, outcomesShare = share{5, 1, 64}, share{12, 3, 128}
)

// of returns the share of a heap, in bytes.
func (s share) of(heap int64) int64 {
	size := max(heap/1000*s.thousandths, s.least*mebibyte)
	if s.most > 0 {
		size = min(size, s.most*mebibyte)
	}
	return size
}

// memoryPlan divides the memory of the container. All sizes are in bytes.
type memoryPlan struct {
	// heap is the memory for the heap: the memory limit of the Go runtime; 0 if no limit is known.
	heap int64
	// renderers is the number of processes that render charts for one tenant at the same time. Another tenant can use
	// one additional process. 0 means one for each processor.
	renderers int
	// underWay is the budget for all responses, events and artifacts while they are read. actions is the budget for
	// actions on large releases.
	underWay, actions int64
	// charts, pieces, manifests, versions, crds, indexes and outcomes are the sizes of the caches. values is the size of
	// each of two caches.
	charts, pieces, manifests, versions, crds, indexes, values, outcomes int64
	// reading is the budget for indexes of chart repositories while they are read.
	reading int64
	// clusters is the maximum number of workload clusters whose connections are kept.
	clusters int
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

// planMemory divides a container's limit. renderer is the limit of one render process. goLimit is the memory limit of
// the Go runtime that the environment sets. 0 means that a limit is not known.
func planMemory(limit, renderer, goLimit int64) memoryPlan {
	if limit <= 0 {
		return divideHeap(0, goLimit)
	}
	// A small container has no memory for two renderers at their limit. So the manager always keeps half of the memory.
	processes := max(2, min(limit/renderShare/renderer, int64(runtime.GOMAXPROCS(0))+1))
	own := max(limit-processes*renderer, limit/renderShare)
	plan := divideHeap(own/heapParts*heapTenths, goLimit)
	plan.renderers = int(processes) - 1
	return plan
}

// divideHeap divides the heap. 0 means that a limit is not known.
func divideHeap(heap, goLimit int64) memoryPlan {
	if goLimit > 0 && goLimit < math.MaxInt64 && (heap == 0 || goLimit < heap) {
		heap = goLimit
	}
	divided := heap
	if heap == 0 {
		divided = defaultMemory / heapParts * heapTenths
	}
	return memoryPlan{
		heap: heap, underWay: underWayShare.of(divided), actions: actionsShare.of(divided),
		charts: chartsShare.of(divided), pieces: piecesShare.of(divided),
		manifests: manifestsShare.of(divided), versions: versionsShare.of(divided), crds: crdsShare.of(divided),
		indexes: indexesShare.of(divided), reading: readingShare.of(divided),
		values: valuesShare.of(divided), outcomes: outcomesShare.of(divided),
		clusters: max(1, int(divided/clusterBytes)),
	}
}

// shares returns the sum of all budgets and caches.
func (p memoryPlan) shares() int64 {
	return p.underWay + p.actions + p.charts + p.pieces + p.manifests + p.versions + p.crds + p.indexes +
		p.reading + 2*p.values + p.outcomes + fixedCaches
}

// fits reports whether all shares and the reserve for objects fit into the heap.
func (p memoryPlan) fits() bool { return p.heap == 0 || p.heap-p.shares() >= p.heap/objectsShare }

// missing returns how much larger the limit of the container must be, so that the plan fits.
func (p memoryPlan) missing() int64 {
	heap := p.heap
	for !divideHeap(heap, 0).fits() {
		heap += mebibyte
	}
	return (heap - p.heap) / heapTenths * heapParts * renderShare
}

// warn logs what to do if the limit of the container is too small. The manager still starts: a small fleet may need
// less than the reserve.
func (p memoryPlan) warn(log logr.Logger, limit int64) {
	if p.fits() {
		return
	}
	log.Error(nil, "The memory limit is too small: the budgets and caches of the manager at their smallest sizes leave "+
		"too little memory for the objects of a fleet. Raise HELMOP_MEMORY_LIMIT or --memory-limit, and GOMEMLIMIT if it "+
		"is set", "limitMiB", limit/mebibyte, "neededMiB", (limit+p.missing())/mebibyte+1)
}

// engine returns the memory of the Helm engine. budget is the budget for responses.
func (p memoryPlan) engine(budget *bytebudget.Budget) helmclient.Memory {
	return helmclient.Memory{
		Memory: connections.Memory{
			Responses: budget, Actions: actionmemory.NewBudget(p.actions), Pieces: p.pieces, Clusters: p.clusters,
		},
		Manifests: p.manifests, Versions: p.versions, CRDs: p.crds,
	}
}

// goMemoryLimit returns the memory limit of the Go runtime that the environment sets, in bytes; 0 if it sets none.
func goMemoryLimit(environment string) int64 {
	if environment == "" {
		return 0
	}
	return debug.SetMemoryLimit(-1)
}

// apply sets the memory limit of the Go runtime, unless the environment sets it.
func (p memoryPlan) apply(environment string) {
	if p.heap > 0 && environment == "" {
		debug.SetMemoryLimit(p.heap)
	}
}

// observeBudgets registers metrics of the memory budgets.
func observeBudgets(budget *bytebudget.Budget, actions *actionmemory.Budget) error {
	for _, metric := range []struct {
		name, help string
		value      func() int64
	}{
		{"helmop_memory_under_way_bytes", "Estimated memory in bytes of the responses, events and artifacts that are " +
			"being read.", budget.InUse},
		{"helmop_memory_under_way_limit_bytes", "Limit of helmop_memory_under_way_bytes.", budget.Total},
		{"helmop_memory_under_way_waiting", "Number of responses, events and artifacts that wait for memory before they " +
			"are read.", budget.Waiting},
		{"helmop_memory_actions_bytes", "Estimated memory in bytes of the actions on large releases.", actions.Used},
		{"helmop_memory_actions_limit_bytes", "Limit of helmop_memory_actions_bytes.", actions.Total},
		{"helmop_memory_actions_waiting", "Number of actions on large releases that wait for memory.",
			func() int64 { return int64(actions.Waiting()) }},
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
