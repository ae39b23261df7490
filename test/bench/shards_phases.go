// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// connect creates all Clusters.
func (f *shardedFleet) connect(ctx context.Context) error {
	// Clusters of all shards are created in turns.
	var all []world.Cluster
	for i := range f.shards[len(f.shards)-1].clusters {
		for _, s := range f.shards {
			if i < len(s.clusters) {
				all = append(all, s.clusters[i])
			}
		}
	}
	const phase = "connect"
	spent, err := f.world.MeasureAll(ctx, f.phase(phase), f.managers(), func() error {
		created := 0
		for some := range slices.Chunk(all, creatingAtOnce) {
			if err := f.world.CreateClusters(ctx, some); err != nil {
				return err
			}
			created += len(some)
			f.log("%d of %d Clusters were created", created, f.size)
		}
		return world.Each(f.managers(), func(i int, manager *world.Manager) error {
			return manager.WaitConnected(ctx, len(f.shards[i].clusters))
		})
	})
	if err != nil {
		return err
	}
	f.log("%d Clusters are connected", f.size)
	f.add(phase, "all Clusters created and connected", "s", spent.Wall.Seconds(), growsLinearly)
	f.addSpent(phase, "Cluster", f.size, spent)
	return nil
}

// wait waits until n releases of HelmOps match. It returns the times since begun at which the releases of each shard
// matched, in their order. shardOf has the shards by the names of the HelmOps.
func (f *shardedFleet) wait(ctx context.Context, shardOf map[string]int, n int, begun time.Time,
	matches func(world.Release) bool,
) ([][]time.Duration, error) {
	times := make([][]time.Duration, len(f.shards))
	_, err := f.world.Tracker.Wait(ctx, f.namespace, n, begun, func(r world.Release) bool {
		i, ok := shardOf[r.HelmOp]
		if !ok || !matches(r) {
			return false
		}
		times[i] = append(times[i], time.Since(begun))
		return true
	})
	for i, some := range times {
		if err == nil && len(some) == 0 {
			return nil, fmt.Errorf("the shard %s has no releases", f.shards[i])
		}
	}
	return times, err
}

// lastOf returns the last of the times of each shard.
func lastOf(times [][]time.Duration) []time.Duration {
	last := make([]time.Duration, len(times))
	for i, some := range times {
		last[i] = some[len(some)-1]
	}
	return last
}

// helmOps returns the first HelmOp of each shard, or all HelmOps, and the shards by the names of the HelmOps.
func (f *shardedFleet) helmOps(onlyFirst bool) ([]world.HelmOp, map[string]int) {
	var all []world.HelmOp
	shardOf := map[string]int{}
	for i, s := range f.shards {
		some := s.helmOps
		if onlyFirst {
			some = some[:1]
		}
		for _, helmOp := range some {
			all = append(all, helmOp)
			shardOf[helmOp.Name] = i
		}
	}
	return all, shardOf
}

// act measures an action in all Clusters, until the HelmOps are Ready.
func (f *shardedFleet) act(ctx context.Context, phase string, onlyFirst bool, begin func(world.HelmOp) error,
	matches func(world.Release) bool,
) (*world.Spent, error) {
	helmOps, shardOf := f.helmOps(onlyFirst)
	n := len(helmOps) / len(f.shards) * (f.size + f.late)
	var times [][]time.Duration
	spent, err := f.world.MeasureAll(ctx, f.phase(phase), f.managers(), func() error {
		begun := time.Now()
		err := eachHelmOp(helmOps, begin)
		if err != nil {
			return err
		}
		if times, err = f.wait(ctx, shardOf, n, begun, matches); err != nil {
			return err
		}
		return f.waitReady(ctx, helmOps, shardOf)
	})
	if err != nil {
		return nil, err
	}
	last := lastOf(times)
	f.log("%s of %d releases: the last after %.1f s", phase, n, slices.Max(last).Seconds())
	f.add(phase, "last release", "s", slices.Max(last).Seconds(), growsLinearly)
	f.add(phase, "all HelmOps Ready", "s", spent.Wall.Seconds(), growsLinearly)
	for i, s := range f.shards {
		f.add(phase, fmt.Sprintf("last release of shard %s", s), "s", last[i].Seconds(), notCompared)
	}
	f.addSpent(phase, "release", n, spent)
	f.add(phase, "registry blobs", "", float64(spent.Registry.BlobGets), staysConstant,
		report.Max(float64(len(helmOps))))
	return spent, nil
}

func eachHelmOp(helmOps []world.HelmOp, do func(world.HelmOp) error) error {
	for _, helmOp := range helmOps {
		if err := do(helmOp); err != nil {
			return err
		}
	}
	return nil
}

func (f *shardedFleet) waitReady(ctx context.Context, helmOps []world.HelmOp, shardOf map[string]int) error {
	return eachHelmOp(helmOps, func(h world.HelmOp) error {
		serving := len(f.shards[shardOf[h.Name]].clusters)
		if shardOf[h.Name] == len(f.shards)-1 {
			serving += f.late
		}
		return h.WaitReady(ctx, f.world, serving)
	})
}

func (f *shardedFleet) install(ctx context.Context) error {
	_, err := f.act(ctx, "install", false, func(h world.HelmOp) error { return h.Create(ctx, f.world) }, isReady)
	return err
}

// idle measures fleets without changes.
func (f *shardedFleet) idle(ctx context.Context) error {
	const phase = "idle"
	settled := make([]int64, len(f.shards))
	spent, err := f.world.MeasureAll(ctx, f.phase(phase), f.managers(), func() error {
		// Connections of actions are closed half a minute after the last action.
		if err := pause(ctx, f.bench.idle); err != nil {
			return err
		}
		return world.Each(f.managers(), func(i int, manager *world.Manager) error {
			var err error
			settled[i], err = manager.SettledMemory(ctx, f.bench.idle)
			return err
		})
	})
	if err != nil {
		return err
	}
	share := func(cpu time.Duration) float64 { return 100 * cpu.Seconds() / spent.Wall.Seconds() }
	memory, goroutines := int64(0), 0
	for i, s := range f.shards {
		size, err := s.manager.Size(ctx)
		if err != nil {
			return err
		}
		f.add(phase, fmt.Sprintf("memory of shard %s", s), "MiB", float64(settled[i])/mebi, notCompared)
		f.add(phase, fmt.Sprintf("heap of shard %s", s), "MiB", float64(size.Heap)/mebi, notCompared)
		f.add(phase, fmt.Sprintf("CPU of shard %s, of one core", s), "%", share(spent.Managers[i].CPU), notCompared)
		memory, goroutines = memory+settled[i], goroutines+size.Goroutines
	}
	f.log("idle: all managers have %d MiB", memory/mebi)
	minutes := spent.Wall.Minutes()
	f.add(phase, "memory of all managers", "MiB", float64(memory)/mebi, growsLinearly)
	f.add(phase, "goroutines of all managers", "", float64(goroutines), growsLinearly)
	f.add(phase, "CPU of all managers, of one core", "%", share(spent.Sum().CPU), growsLinearly)
	f.add(phase, "CPU of the management API server, of one core", "%", share(spent.Management.CPU), growsLinearly)
	f.add(phase, "CPU of the workload API servers, of one core", "%", share(spent.Workload.CPU), growsLinearly)
	f.add(phase, "management requests per minute", "", float64(spent.Traffic.Management)/minutes, growsLinearly)
	f.add(phase, "workload requests per release and minute", "",
		float64(spent.Traffic.Workload)/float64(f.size*len(f.charts))/minutes, staysConstant)
	f.add(phase, "health probes per Cluster and minute", "", float64(spent.Traffic.Probes)/float64(f.size)/minutes,
		staysConstant)
	f.add(phase, "registry requests", "", float64(spent.Registry.Total()), notCompared, report.Max(0))
	f.addServers(phase, spent)
	return nil
}

// arrive creates late Clusters in the last shard, one after the other.
func (f *shardedFleet) arrive(ctx context.Context) error {
	last := f.shards[len(f.shards)-1]
	got, err := f.arrivals(ctx, f.clustersOf(last, lateIn(last.group), f.bench.late), len(f.charts))
	if err != nil {
		return err
	}
	f.late = f.bench.late
	f.add("new Cluster", fmt.Sprintf("all %d releases", len(f.charts)), "s", got.all.Seconds(), staysConstant)
	return nil
}

// kill changes the values of all releases. In the middle, it kills the manager of the first shard and starts another
// one.
func (f *shardedFleet) kill(ctx context.Context) error {
	helmOps, shardOf := f.helmOps(false)
	upgraded := func(r world.Release) bool { return isReady(r) && r.Revision >= 2 }
	begun := time.Now()
	err := eachHelmOp(helmOps, func(h world.HelmOp) error { return h.SetLogLevel(ctx, f.world, "debug") })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var times [][]time.Duration
	waited := make(chan error, 1)
	go func() {
		var err error
		times, err = f.wait(ctx, shardOf, (f.size+f.late)*len(f.charts), begun, upgraded)
		waited <- err
	}()
	at, err := f.replaceManager(ctx, begun,
		func(r world.Release) bool { return shardOf[r.HelmOp] == victim && upgraded(r) })
	if err != nil {
		cancel()
		return errors.Join(err, <-waited)
	}
	if err := <-waited; err != nil {
		return err
	}
	f.addKill(at, times)
	return f.waitReady(ctx, helmOps, shardOf)
}

// victim is the index of the shard whose manager is killed.
const victim = 0

// replaceManager kills the manager of a shard when half of the releases of the shard match. Then it starts another
// manager. It returns the time from begun until the kill.
func (f *shardedFleet) replaceManager(ctx context.Context, begun time.Time,
	matches func(world.Release) bool,
) (time.Duration, error) {
	killed := f.shards[victim]
	half := len(killed.clusters) * len(f.charts) / 2
	if _, err := f.world.Tracker.Wait(ctx, f.namespace, half, begun, matches); err != nil {
		return 0, err
	}
	if err := killed.manager.Kill(); err != nil {
		return 0, err
	}
	at := time.Since(begun)
	f.log("the manager of shard %s was killed after %.1f s", killed, at.Seconds())
	return at, f.startManager(ctx, killed)
}

// addKill adds the figures of an upgrade. at is when the manager of a shard was killed, times are the times at which
// the releases of each shard were upgraded.
func (f *shardedFleet) addKill(at time.Duration, times [][]time.Duration) {
	const phase = "values upgrade with a killed manager"
	// The last changes of the killed manager reach the Tracker within a second. The next manager waits much longer for
	// the lease.
	next := at
	for _, moment := range times[victim] {
		if moment > at+time.Second {
			next = moment
			break
		}
	}
	var rest time.Duration
	meanwhile := 0
	for i, some := range times {
		if i == victim {
			continue
		}
		rest = max(rest, some[len(some)-1])
		for _, moment := range some {
			if moment > at && moment < next {
				meanwhile++
			}
		}
	}
	last := times[victim][len(times[victim])-1]
	f.log("%s: the other shards took %.1f s, the shard of the killed manager %.1f s", phase, rest.Seconds(),
		last.Seconds())
	f.add(phase, "killed after", "s", at.Seconds(), notCompared)
	f.add(phase, "last release of the other shards", "s", rest.Seconds(), growsLinearly)
	f.add(phase, "upgrades in other shards from the kill to the next one in its shard", "", float64(meanwhile),
		notCompared)
	f.add(phase, "from the kill to the next release of its shard", "s", (next - at).Seconds(), staysConstant)
	f.add(phase, "from the kill to the last release of its shard", "s", (last - at).Seconds(), growsLinearly)
	f.add(phase, "releases with more than one upgrade", "",
		float64(f.world.Tracker.Count(f.namespace, func(r world.Release) bool { return r.Revision > 2 })), notCompared,
		// Only actions that ran at the time of the kill may be repeated.
		report.Max(float64(f.workers)))
}

// move moves the tag of the first chart.
func (f *shardedFleet) move(ctx context.Context) error {
	const phase = "moved tag"
	helmOps, _ := f.helmOps(true)
	err := eachHelmOp(helmOps, func(h world.HelmOp) error { return h.SetInterval(ctx, f.world, moveInterval) })
	if err != nil {
		return err
	}
	moved, err := charts.Small(f.charts[0].Name, "1.1.0", 0)
	if err != nil {
		return err
	}
	spent, err := f.act(ctx, phase, true, func(h world.HelmOp) error {
		if h.Name != helmOps[0].Name {
			return nil
		}
		_, err := f.world.Push(ctx, moved, movedTag)
		return err
	}, func(r world.Release) bool { return isReady(r) && r.Version == moved.Version })
	if err != nil {
		return err
	}
	f.add(phase, "registry requests", "", float64(spent.Registry.Total()), notCompared,
		report.Max(float64(len(f.shards))*requestsOfMove(spent.Wall)))
	return nil
}
