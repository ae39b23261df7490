// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

const (
	// linearGrowth is the largest permitted growth of a total figure, divided by the growth of the fleet. A figure that
	// grows like the fleet has 1. The rest is for the speed of the machine, which changes between two fleets.
	linearGrowth = 1.25

	// usualCollection is GOGC of the API servers, as outside of tests. With the test bed's default, the management API
	// server takes 4 GB with 3,000 Clusters, and the machine has no memory for 10,000.
	usualCollection = 100

	// creatingAtOnce is the number of Clusters between two progress reports of their creation.
	creatingAtOnce = 500
)

// shardedFleet is a run of the scenario shards with one size.
type shardedFleet struct {
	*bench
	namespace string
	// size is the number of Clusters, without the late ones. late is the number of late Clusters that exist.
	size, late int
	charts     []charts.Chart
	shards     []*shard

	// figures are the figures of this size, and before those of the previous size. smaller is the previous size, or 0.
	figures, before map[string]float64
	smaller         int
}

// shard is a part of the fleet with a manager.
type shard struct {
	// name is the value of the label; it is empty for objects without the label. group is the group of the Clusters.
	name, group string
	clusters    []world.Cluster
	helmOps     []world.HelmOp
	manager     *world.Manager
}

// String returns the name of the shard in figures.
func (s *shard) String() string {
	if s.name == "" {
		return "no label"
	}
	return s.name
}

// shards measures fleets of several sizes. Each fleet has its own API servers and managers.
func shards(ctx context.Context, b *bench) error {
	var sizes []int
	for text := range strings.SplitSeq(b.fleetSizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < b.shards {
			return fmt.Errorf("-fleet-sizes: %q is not a number of at least %d", text, b.shards)
		}
		sizes = append(sizes, size)
	}
	outer := b.world
	defer func() { b.world = outer }()
	var before map[string]float64
	for i, size := range sizes {
		f := &shardedFleet{bench: b, namespace: "shards", size: size, figures: map[string]float64{}, before: before}
		if i > 0 {
			f.smaller = sizes[i-1]
		}
		if err := f.run(ctx); err != nil {
			return fmt.Errorf("%d Clusters: %w", size, err)
		}
		before = f.figures
	}
	return nil
}

// run measures one fleet.
func (f *shardedFleet) run(ctx context.Context) (err error) {
	f.log("%d Clusters with %d charts in %d shards, on %d API servers", f.size, f.shardCharts, f.bench.shards,
		f.shardServers)
	stop, err := f.startWorld(ctx, f.shardServers, usualCollection)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, step := range []func(context.Context) error{
		f.prepare, f.start, f.connect, f.install, f.idle, f.arrive, f.kill, f.move,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepare creates everything but the Clusters, the HelmOps and the managers.
func (f *shardedFleet) prepare(ctx context.Context) error {
	if err := errors.Join(f.world.AllowConfined(ctx), f.world.CreateNamespace(ctx, f.namespace)); err != nil {
		return err
	}
	var err error
	if f.charts, err = f.smallCharts(ctx, f.shardCharts); err != nil {
		return err
	}
	n := f.bench.shards
	for i := range n {
		s := &shard{group: fmt.Sprintf("part-%d", i)}
		if i > 0 {
			s.name = fmt.Sprintf("shard-%d", i)
		}
		s.clusters = f.clustersOf(s, s.group, f.size*(i+1)/n-f.size*i/n)
		for _, chart := range f.charts {
			s.helmOps = append(s.helmOps, world.HelmOp{
				Namespace: f.namespace, Name: chart.Name + "-" + s.group, Shard: s.name,
				Groups: []string{s.group, lateIn(s.group)}, Chart: chart.Name, Tag: movedTag,
				ReleaseNamespace: "helmop-{cluster}", Interval: restInterval,
			})
		}
		f.shards = append(f.shards, s)
	}
	return nil
}

// clustersOf returns Clusters of a shard.
func (f *shardedFleet) clustersOf(s *shard, group string, n int) []world.Cluster {
	clusters := confined(f.world.Group(f.namespace, group, n))
	for i := range clusters {
		clusters[i].Shard = s.name
	}
	return clusters
}

// start starts the managers one after the other.
func (f *shardedFleet) start(ctx context.Context) error {
	for _, s := range f.shards {
		if err := f.startManager(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// startManager starts the manager of a shard and returns when it is ready.
func (f *shardedFleet) startManager(ctx context.Context, s *shard) error {
	args := []string{
		fmt.Sprintf("--memory-limit=%d", f.shardMemory),
		"--leader-elect-lease-duration=" + f.shardLease.String(),
		"--leader-elect-renew-deadline=" + (f.shardLease * 2 / 3).String(),
	}
	if s.name != "" {
		args = append(args, "--shard="+s.name)
	}
	var err error
	s.manager, err = f.world.StartManager(ctx, f.namespace, args...)
	return err
}

func (f *shardedFleet) managers() []*world.Manager {
	var all []*world.Manager
	for _, s := range f.shards {
		all = append(all, s.manager)
	}
	return all
}

// growth says how a figure may grow with the fleet.
type growth int

const (
	// growsLinearly is for figures that may grow like the fleet. A target limits their growth.
	growsLinearly growth = iota
	// staysConstant is for figures that are compared with the same figure of the previous fleet, without a target.
	staysConstant
	// notCompared is for all other figures.
	notCompared
)

// add adds a figure and compares it with the figure of the previous fleet.
func (f *shardedFleet) add(phase, name, unit string, value float64, how growth, options ...report.Option) {
	key := phase + ": " + name
	f.figures[key] = value
	if before := f.before[key]; before > 0 && how != notCompared {
		switch how {
		case growsLinearly:
			linear := before * float64(f.size) / float64(f.smaller)
			options = append(options, report.Against(fmt.Sprintf("if linear from %d", f.smaller), linear),
				report.MaxRatio(linearGrowth))
		default:
			options = append(options, report.Against(fmt.Sprintf("with %d", f.smaller), before))
		}
	}
	f.report.Add("shards", f.phase(phase), name, unit, value, options...)
}

// phase returns the name of a phase in reports and files.
func (f *shardedFleet) phase(name string) string { return fmt.Sprintf("%d Clusters, %s", f.size, name) }

// addSpent adds the figures of a phase that reconciled n objects.
func (f *shardedFleet) addSpent(phase, each string, n int, spent *world.Spent) {
	per := func(value float64) float64 { return value / float64(n) }
	managers := spent.Sum()
	f.add(phase, "CPU of all managers", "s", managers.CPU.Seconds(), growsLinearly)
	f.add(phase, "CPU of all managers per "+each, "ms", per(1000*managers.CPU.Seconds()), staysConstant)
	f.add(phase, "CPU of the management API server", "s", spent.Management.CPU.Seconds(), growsLinearly)
	f.add(phase, "CPU of the workload API servers", "s", spent.Workload.CPU.Seconds(), growsLinearly)
	f.add(phase, "CPU of the benchmark", "s", spent.Bench.CPU.Seconds(), notCompared)
	f.add(phase, "management requests", "", float64(spent.Traffic.Management), growsLinearly)
	f.add(phase, "management requests per "+each, "", per(float64(spent.Traffic.Management)), staysConstant)
	f.add(phase, "of them writes per "+each, "", per(float64(sum(spent.Traffic.Writes))), staysConstant)
	f.add(phase, "management requests per second", "", float64(spent.Traffic.Management)/spent.Wall.Seconds(),
		staysConstant)
	f.add(phase, "workload requests per "+each, "", per(float64(spent.Traffic.Workload)), staysConstant)
	peak := int64(0)
	for i, s := range f.shards {
		f.add(phase, fmt.Sprintf("CPU of shard %s", s), "s", spent.Managers[i].CPU.Seconds(), notCompared)
		f.add(phase, fmt.Sprintf("peak memory of shard %s", s), "MiB", float64(spent.Peaks[i])/mebi, notCompared)
		peak += spent.Peaks[i]
	}
	f.add(phase, "peak memory of all managers", "MiB", float64(peak)/mebi, growsLinearly)
	f.addServers(phase, spent)
}

// addServers adds the memory of everything that is not HelmOp.
func (f *shardedFleet) addServers(phase string, spent *world.Spent) {
	f.add(phase, "memory of the management API server", "MiB", float64(spent.Management.Memory)/mebi, growsLinearly)
	f.add(phase, "memory of the workload API servers", "MiB", float64(spent.Workload.Memory)/mebi, growsLinearly)
	f.add(phase, "memory of the benchmark", "MiB", float64(spent.Bench.Memory)/mebi, notCompared)
}
