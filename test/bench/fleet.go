// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

const (
	// plainShare is the number of Clusters in which the plain loop installs for comparison. With all Clusters of the
	// fleet, the benchmark would take much longer.
	plainShare = 50

	// memoryTarget is the largest memory, in MiB, of a manager with memoryClusters Clusters.
	memoryTarget, memoryClusters = 300, 1000

	// movedTag is the tag of the first chart, which is moved. moveInterval is the source interval at this time.
	movedTag     = "stable"
	moveInterval = 5 * time.Second

	// leavingGroup is the group of the Clusters that are unselected at the end. It has a quarter of all Clusters.
	leavingGroup = "leaving"

	// restInterval is the source interval at other times, so long that the manager sends no requests to the registry.
	restInterval = time.Hour
)

// bigFleet is a run of the scenario fleet.
type bigFleet struct {
	*bench
	namespace string
	clusters  []world.Cluster
	// leaving is the number of Clusters in leavingGroup.
	leaving int
	charts  []charts.Chart
	helmOps []world.HelmOp
	manager *world.Manager

	// empty is the manager's size before there were Clusters. alone is the time that the only Cluster took.
	empty world.Size
	alone arrival
}

// fleet measures one manager with very many Clusters.
func fleet(ctx context.Context, b *bench) error {
	f := &bigFleet{bench: b, namespace: "fleet"}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if err := f.single(ctx); err != nil {
		return err
	}
	if err := b.world.CreateNamespace(ctx, f.namespace); err != nil {
		return err
	}
	f.leaving = b.fleet / 4
	f.clusters = confined(append(b.world.Group(f.namespace, healthyGroup, b.fleet-f.leaving),
		b.world.Group(f.namespace, leavingGroup, f.leaving)...))
	f.helmOps = f.helmOpsOf(f.namespace)
	defer func() {
		if f.manager != nil {
			_ = f.manager.Stop(context.WithoutCancel(ctx))
		}
	}()
	for _, step := range []func(context.Context) error{
		f.connect, f.installOne, f.installRest, f.arrive, f.restart, f.upgrade, f.move, f.uninstall,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *bigFleet) prepare(ctx context.Context) error {
	if err := f.world.KeepServers(ctx, f.fleetServers); err != nil {
		return err
	}
	if err := f.world.AllowConfined(ctx); err != nil {
		return err
	}
	var err error
	f.charts, err = f.smallCharts(ctx, f.fleetCharts)
	return err
}

// smallCharts makes and pushes some charts.
func (b *bench) smallCharts(ctx context.Context, n int) ([]charts.Chart, error) {
	var all []charts.Chart
	for i := range n {
		chart, err := charts.Small(fmt.Sprintf("small-%d", i), "1.0.0", uint64(i))
		if err != nil {
			return nil, err
		}
		if _, err := b.world.Push(ctx, chart, movedTag); err != nil {
			return nil, err
		}
		all = append(all, chart)
	}
	return all, nil
}

// confined restricts each Cluster to its own namespace.
func confined(clusters []world.Cluster) []world.Cluster {
	for i := range clusters {
		clusters[i].Confined = "helmop-" + clusters[i].Name
	}
	return clusters
}

func (f *bigFleet) helmOpsOf(namespace string) []world.HelmOp {
	var all []world.HelmOp
	for _, chart := range f.charts {
		all = append(all, world.HelmOp{
			Namespace: namespace, Name: chart.Name,
			Groups: []string{healthyGroup, leavingGroup, lateIn(namespace)}, Chart: chart.Name,
			Tag:              movedTag,
			ReleaseNamespace: "helmop-{cluster}", Interval: restInterval,
		})
	}
	return all
}

func (f *bigFleet) connect(ctx context.Context) error {
	var err error
	if f.manager, err = f.world.StartManager(ctx, f.namespace); err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	if f.empty, err = f.manager.Size(ctx); err != nil {
		return err
	}
	cost, err := f.manager.Measure(ctx, "fleet connect", func() error {
		if err := f.world.CreateClusters(ctx, f.clusters); err != nil {
			return err
		}
		f.log("%d Clusters were created", len(f.clusters))
		return f.manager.WaitConnected(ctx, len(f.clusters))
	})
	if err != nil {
		return err
	}
	f.report.Add("fleet", "connect", fmt.Sprintf("%d Clusters created and connected", len(f.clusters)), "s",
		cost.Wall.Seconds())
	f.report.Add("fleet", "connect", "CPU per Cluster", "ms", 1000*cost.CPU.Seconds()/float64(len(f.clusters)))
	f.report.Add("fleet", "connect", "workload requests per Cluster", "",
		float64(cost.Traffic.Workload)/float64(len(f.clusters)))
	return f.addSize(ctx, "connect", 0)
}

// addSize adds the figures of the manager's current size, and of its settled memory if settled is not 0.
func (f *bigFleet) addSize(ctx context.Context, phase string, settled int64) error {
	size, err := f.manager.Size(ctx)
	if err != nil {
		return err
	}
	n := float64(len(f.clusters))
	add := func(name string, bytes int64, options ...report.Option) {
		f.report.Add("fleet", phase, name, "MiB", float64(bytes)/mebi, options...)
		f.report.Add("fleet", phase, name+" per Cluster", "kB", float64(bytes-f.empty.Memory)/1000/n)
	}
	if settled == 0 {
		add("memory right after it", size.Memory)
	} else {
		var limit []report.Option
		if len(f.clusters) <= memoryClusters {
			limit = append(limit, report.Max(memoryTarget))
		}
		add("memory, settled", settled, limit...)
		size.Memory = settled
	}
	f.report.Add("fleet", phase, "of it the program", "MiB", float64(size.Files)/mebi)
	f.report.Add("fleet", phase, "of it heap in use", "MiB", float64(size.Heap)/mebi)
	f.report.Add("fleet", phase, "heap per Cluster", "kB", float64(size.Heap-f.empty.Heap)/1000/n)
	f.report.Add("fleet", phase, "goroutines per Cluster", "", float64(size.Goroutines-f.empty.Goroutines)/n)
	f.log("%s: %d Clusters connected, %d MiB, %d MiB of it heap in use, %d goroutines", phase, size.Connections,
		size.Memory/mebi, size.Heap/mebi, size.Goroutines)
	return nil
}

// acted is the cost of an action in all Clusters, and the time at which its last release was in the desired state.
type acted struct {
	world.Cost
	releases int
	last     time.Duration
}

// act measures the manager until n releases of some HelmOps are in the desired state, and the HelmOps are Ready.
func (f *bigFleet) act(ctx context.Context, phase string, helmOps []world.HelmOp, n int, begin func(world.HelmOp) error,
	matches func(world.Release) bool,
) (acted, error) {
	names := map[string]bool{}
	for _, helmOp := range helmOps {
		names[helmOp.Name] = true
	}
	var times world.Times
	cost, err := f.manager.Measure(ctx, "fleet "+phase, func() error {
		begun := time.Now()
		for _, helmOp := range helmOps {
			if err := begin(helmOp); err != nil {
				return err
			}
		}
		var err error
		times, err = f.world.Tracker.Wait(ctx, f.namespace, n, begun,
			func(r world.Release) bool { return names[r.HelmOp] && matches(r) })
		if err != nil {
			return err
		}
		for _, helmOp := range helmOps {
			if err := helmOp.WaitReady(ctx, f.world, f.serving()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return acted{}, err
	}
	f.log("%s of %d releases: the first after %.1f s, the last after %.1f s", phase, n, times.First.Seconds(),
		times.Last.Seconds())
	f.report.Add("fleet", phase, "first release", "s", times.First.Seconds())
	f.report.Add("fleet", phase, "last release", "s", times.Last.Seconds())
	f.report.Add("fleet", phase, "all HelmOps Ready", "s", cost.Wall.Seconds())
	f.report.Add("fleet", phase, "HelmOp status writes per HelmOp", "",
		float64(cost.Traffic.Writes["helmops"])/float64(len(helmOps)), report.Max(50))
	f.report.Add("fleet", phase, "peak memory", "MiB", float64(cost.Peak)/mebi)
	f.addManagement("fleet", phase, cost, float64(n))
	f.addRegistry("fleet", phase, cost, float64(len(helmOps)))
	return acted{Cost: cost, releases: n, last: times.Last}, nil
}

// serving returns the number of Clusters that each HelmOp serves.
func (f *bigFleet) serving() int {
	return f.world.Tracker.Count(f.namespace, func(r world.Release) bool { return r.HelmOp == f.helmOps[0].Name })
}

// addCost adds the figures for each release, with the plain loop's as the baseline if it did the same.
func (f *bigFleet) addCost(phase string, cost acted, plain *baseline) {
	n := cost.releases
	var cpu, requests []report.Option
	if plain != nil {
		m := float64(plain.Releases)
		cpu = append(cpu, report.Against(plainLoop, 1000*plain.CPU.Seconds()/m))
		requests = append(requests, report.Against(plainLoop, float64(plain.requests)/m))
		f.report.Add("fleet", phase, "wall per release", "ms", 1000*cost.last.Seconds()/float64(n),
			report.Against(plainLoop, 1000*plain.Wall.Seconds()/m))
	}
	f.report.Add("fleet", phase, "CPU per release", "ms", 1000*cost.CPU.Seconds()/float64(n), cpu...)
	f.report.Add("fleet", phase, "workload requests per release", "", float64(cost.Traffic.Workload)/float64(n),
		requests...)
}

// plain installs the first chart in some of the Clusters by the plain loop.
func (f *bigFleet) plain(ctx context.Context) (baseline, error) {
	some := f.clusters[:min(plainShare, len(f.clusters))]
	targets, err := world.Contestants(some)
	if err != nil {
		return baseline{}, err
	}
	// The plain loop's charts have other names, because the namespaces are the same.
	chart, err := charts.Small("plain-0", "1.0.0", 0)
	if err != nil {
		return baseline{}, err
	}
	process, err := contestant.Start(ctx, contestant.Spec{
		Kind: contestant.Plain, Workers: f.workers, Clusters: targets, Versions: [][]charts.Chart{{chart}},
		Namespace: "helmop-{cluster}",
	})
	if err != nil {
		return baseline{}, err
	}
	defer func() { _ = process.Stop() }()
	c := &comparison{bench: f.bench, plain: process, manager: f.manager}
	return c.baseline(ctx, contestant.Order{Phase: contestant.Install, LogLevel: "info"})
}

func (f *bigFleet) installOne(ctx context.Context) error {
	plain, err := f.plain(ctx)
	if err != nil {
		return err
	}
	f.log("the plain loop installed %d releases in %.1f s", plain.Releases, plain.Wall.Seconds())
	cost, err := f.act(ctx, "install × 1", f.helmOps[:1], len(f.clusters),
		func(h world.HelmOp) error { return h.Create(ctx, f.world) }, isReady)
	if err != nil {
		return err
	}
	f.addCost("install × 1", cost, &plain)
	return f.idle(ctx, "idle × 1")
}

func isReady(r world.Release) bool { return r.Ready && r.Deployed }

func (f *bigFleet) installRest(ctx context.Context) error {
	rest := f.helmOps[1:]
	if len(rest) == 0 {
		return nil
	}
	phase := fmt.Sprintf("install × %d", len(rest))
	cost, err := f.act(ctx, phase, rest, len(rest)*len(f.clusters),
		func(h world.HelmOp) error { return h.Create(ctx, f.world) }, isReady)
	if err != nil {
		return err
	}
	f.addCost(phase, cost, nil)
	return f.idle(ctx, fmt.Sprintf("idle × %d", len(f.helmOps)))
}

func (f *bigFleet) releases() int { return len(f.helmOps) * f.serving() }

// idle measures the requests and the size of the manager while nothing changes and its memory settles.
func (f *bigFleet) idle(ctx context.Context, phase string) error {
	var settled int64
	cost, err := f.manager.Measure(ctx, "fleet "+phase, func() error {
		// Half a minute after the last action, the connections are closed and memory is returned. BENCH=quick waits for less.
		if err := pause(ctx, f.bench.idle); err != nil {
			return err
		}
		var err error
		settled, err = f.manager.SettledMemory(ctx, f.bench.idle)
		return err
	})
	if err != nil {
		return err
	}
	minutes := cost.Wall.Minutes()
	f.report.Add("fleet", phase, "CPU of one core", "%", 100*cost.CPU.Seconds()/cost.Wall.Seconds())
	f.report.Add("fleet", phase, "workload requests per release and minute", "",
		float64(cost.Traffic.Workload)/float64(f.releases())/minutes)
	f.report.Add("fleet", phase, "health probes per Cluster and minute", "",
		float64(cost.Traffic.Probes)/float64(len(f.clusters))/minutes)
	f.report.Add("fleet", phase, "management requests per minute", "", float64(cost.Traffic.Management)/minutes)
	f.report.Add("fleet", phase, "registry requests", "", float64(cost.Registry.Total()), report.Max(0))
	return f.addSize(ctx, phase, settled)
}

// restart stops the manager and starts another one.
func (f *bigFleet) restart(ctx context.Context) error {
	begun := time.Now()
	if err := f.manager.Stop(ctx); err != nil {
		return err
	}
	f.report.Add("fleet", "restart", "until it ended", "s", time.Since(begun).Seconds())
	f.world.Env.Registry.ResetCounts()
	read, err := f.world.RecordBytes(ctx)
	if err != nil {
		return err
	}
	mark, err := f.world.Mark()
	if err != nil {
		return err
	}
	if f.manager, err = f.world.StartManager(ctx, f.namespace); err != nil {
		return err
	}
	clusters, releases := len(f.clusters)+f.late, f.releases()
	cost, err := f.manager.MeasureLife(ctx, "fleet restart", mark,
		func() error { return f.manager.WaitRecognized(ctx, clusters, releases) })
	if err != nil {
		return err
	}
	readAfter, err := f.world.RecordBytes(ctx)
	if err != nil {
		return err
	}
	traffic := cost.Traffic
	f.log("restart: %d releases recognised after %.1f s", releases, cost.Wall.Seconds())
	add := func(name, unit string, value float64, options ...report.Option) {
		f.report.Add("fleet", "restart", name, unit, value, options...)
	}
	add(fmt.Sprintf("until %d releases were recognised", releases), "s", cost.Wall.Seconds(), report.Max(60))
	add("changes in workload clusters", "", float64(traffic.Changes), report.Max(0))
	add("payloads read", "", float64(traffic.Payloads), report.Max(0))
	add("bytes of Helm's records per release", "", (readAfter-read)/float64(releases), report.Max(smallRead))
	// Each Cluster has one namespace with all of its releases.
	add("Clusters whose records were not listed", "", float64(clusters-traffic.Places), report.Max(0))
	add("workload requests per release", "", float64(traffic.Workload)/float64(releases))
	add("of them watches", "", float64(traffic.Watches)/float64(releases))
	add("management writes", "", float64(sum(traffic.Writes)))
	add("registry blobs", "", float64(cost.Registry.BlobGets))
	add("CPU per release", "ms", 1000*cost.CPU.Seconds()/float64(releases))
	add("peak memory", "MiB", float64(cost.Peak)/mebi)
	return f.addSize(ctx, "restart", 0)
}

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// upgrade changes the values of the first chart for a quarter of the Clusters. The new revision is also assigned to all
// others, which report it. The figures for each release include this cost, and are no measure of an upgrade alone.
func (f *bigFleet) upgrade(ctx context.Context) error {
	phase := fmt.Sprintf("values upgrade of %d", f.leaving)
	cost, err := f.act(ctx, phase, f.helmOps[:1], f.leaving,
		func(h world.HelmOp) error { return h.SetLogLevel(ctx, f.world, world.LevelFor(leavingGroup, "debug")) },
		func(r world.Release) bool { return isReady(r) && r.Revision == 2 })
	if err != nil {
		return err
	}
	f.addCost(phase, cost, nil)
	return nil
}

// move moves the tag of the first chart.
func (f *bigFleet) move(ctx context.Context) error {
	first := f.helmOps[0]
	if err := first.SetInterval(ctx, f.world, moveInterval); err != nil {
		return err
	}
	moved, err := charts.Small(first.Chart, "1.1.0", 0)
	if err != nil {
		return err
	}
	cost, err := f.act(ctx, "moved tag", f.helmOps[:1], f.serving(), func(world.HelmOp) error {
		_, err := f.world.Push(ctx, moved, movedTag)
		return err
	}, func(r world.Release) bool { return isReady(r) && r.Version == moved.Version })
	if err != nil {
		return err
	}
	f.addCost("moved tag", cost, nil)
	f.report.Add("fleet", "moved tag", "registry requests", "", float64(cost.Registry.Total()),
		report.Max(requestsOfMove(cost.Wall)))
	return nil
}

// requestsOfMove is the largest permitted number of requests of one manager to the registry while a tag moves.
func requestsOfMove(wall time.Duration) float64 {
	const pull = 2 // The manifest and the chart.
	return math.Ceil(wall.Seconds()/moveInterval.Seconds()) + pull
}

// uninstall unselects a quarter of the Clusters from a HelmOp. More Clusters would only take more time.
func (f *bigFleet) uninstall(ctx context.Context) error {
	last := f.helmOps[len(f.helmOps)-1]
	phase := fmt.Sprintf("uninstall of %d", f.leaving)
	cost, err := f.manager.Measure(ctx, "fleet uninstall", func() error {
		return errors.Join(last.Select(ctx, f.world, healthyGroup, lateIn(f.namespace)),
			f.world.Tracker.WaitGone(ctx, f.namespace, func(r world.Release) bool {
				return r.HelmOp == last.Name && strings.HasPrefix(r.Cluster, leavingGroup)
			}))
	})
	if err != nil {
		return err
	}
	f.report.Add("fleet", phase, "wall", "s", cost.Wall.Seconds())
	f.addCost(phase, acted{Cost: cost, releases: f.leaving, last: cost.Wall}, nil)
	f.addManagement("fleet", phase, cost, float64(f.leaving))
	return nil
}
