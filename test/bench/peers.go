// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/peers"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// stallTimeout is how long a tool may take for the next release.
	stallTimeout = 2 * time.Minute
	// recordPoll is the precision of the times of tools.
	recordPoll = 20 * time.Millisecond

	// A tool is calm when it has used little CPU in some periods in a row: calmShare of a core in each of calmPeriods.
	// calmTimeout limits the wait: some tools repeat their work all the time.
	calmPeriod, calmPeriods, calmShare = time.Second, 3, 0.05
	calmTimeout                        = time.Minute
)

// comparePeers measures several tools, one after the other, in one world. A tool that cannot be built or started, or
// that does not finish, is reported, and the others are still measured.
func comparePeers(ctx context.Context, b *bench) (err error) {
	own := *b
	own.workers = b.peerConcurrency
	stop, err := own.startWorld(ctx, b.servers, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return err
	}
	versions, err := own.largeCharts(ctx, b.charts)
	if err != nil {
		return err
	}
	records, err := peers.FollowRecords(ctx, own.world.Servers)
	if err != nil {
		return err
	}
	defer records.Stop()
	var failed []error
	for name := range strings.SplitSeq(b.peers, ",") {
		run := &peerRun{bench: &own, records: records, charts: versions[0], name: name}
		if err := run.measure(ctx, root, cmp.Or(b.peerConcurrency, b.workers)); err != nil {
			b.log("%s: %v", name, err)
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// peerRun is the measurement of one tool.
type peerRun struct {
	*bench
	name    string
	records *peers.Records
	charts  []charts.Chart
	fleet   peers.Fleet
	peer    peers.Peer
}

func (r *peerRun) measure(ctx context.Context, root string, workers int) (err error) {
	dir, err := os.MkdirTemp("", "helmop-bench-"+r.name+"-")
	if err != nil {
		return err
	}
	if r.keep {
		r.log("logs of %s are in %s", r.name, dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	r.fleet = peers.Fleet{
		World: r.world, Root: root, Dir: dir, Name: r.name, Clusters: r.world.Group(r.name, r.name, r.servers),
		Charts: r.charts, Workers: workers, Concurrency: r.peerConcurrency,
	}
	if r.peer, err = peers.New(r.fleet); err != nil {
		return err
	}
	if err := r.world.CreateNamespace(ctx, r.name); err != nil {
		return err
	}
	if err := r.world.CreateClusters(ctx, r.fleet.Clusters); err != nil {
		return err
	}
	// The programs of the next tools must not reconcile these Clusters.
	defer func() { err = errors.Join(err, r.world.DeleteClusters(context.WithoutCancel(ctx), r.name)) }()
	defer func() { err = errors.Join(err, r.peer.Stop(context.WithoutCancel(ctx))) }()
	r.log("%s: building and starting", r.name)
	if err := r.peer.Start(ctx); err != nil {
		return err
	}
	r.report.About[r.name] = r.peer.Versions()
	return r.phases(ctx)
}

func (r *peerRun) phases(ctx context.Context) error {
	if err := r.calm(ctx); err != nil {
		return err
	}
	deployed := func(revision int) func() int {
		return func() int { return r.releases() - r.records.Deployed(&r.fleet, revision) }
	}
	if err := r.phase(ctx, "install", r.peer.Install, deployed(1)); err != nil {
		return err
	}
	if err := peers.Check(ctx, &r.fleet, peers.InstalledLevel); err != nil {
		return err
	}
	if err := r.idlePhase(ctx); err != nil {
		return err
	}
	if err := r.phase(ctx, "values upgrade", r.peer.Upgrade, deployed(2)); err != nil {
		return err
	}
	if err := peers.Check(ctx, &r.fleet, peers.UpgradedLevel); err != nil {
		return err
	}
	return r.phase(ctx, "uninstall", r.peer.Uninstall, func() int { return r.records.Left(&r.fleet) })
}

func (r *peerRun) releases() int { return len(r.fleet.Clusters) * len(r.charts) }

// peerCost is the cost of a phase for a tool.
type peerCost struct {
	// finished is the time until the last release was in the desired state. wall is the time of the whole phase.
	finished, wall time.Duration
	// used has the CPU time of the phase, and the memory at its end.
	used                 measure.Usage
	peak                 int64
	management, workload int
	registry             registry.Counts
}

// cost measures the programs of the tool while do runs, and until they are calm.
func (r *peerRun) cost(ctx context.Context, do func() error) (peerCost, error) {
	var cost peerCost
	r.world.Env.Registry.ResetCounts()
	mark, err := r.world.Mark()
	if err != nil {
		return cost, err
	}
	before, err := measure.Trees(r.peer.PIDs()...)
	if err != nil {
		return cost, err
	}
	peak := measure.FollowTreesPeak(r.peer.PIDs()...)
	defer peak.Stop()
	begun := time.Now()
	if err := do(); err != nil {
		return cost, err
	}
	cost.finished = time.Since(begun)
	if err := r.calm(ctx); err != nil {
		return cost, err
	}
	cost.wall = time.Since(begun)
	if cost.used, err = measure.Trees(r.peer.PIDs()...); err != nil {
		return cost, err
	}
	cost.used.CPU -= before.CPU
	cost.peak, cost.registry = peak.Stop(), r.world.Env.Registry.Counts()
	cost.management, cost.workload, err = r.world.Requests(mark, r.peer.User(), r.fleet.Clusters)
	return cost, err
}

// phase measures a phase until no release is missing. The time ends at this point. The cost also includes later work.
func (r *peerRun) phase(ctx context.Context, name string, begin func(context.Context) error, missing func() int) error {
	cost, err := r.cost(ctx, func() error {
		if err := begin(ctx); err != nil {
			return err
		}
		return r.wait(ctx, missing)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.log("%s: %s of %d releases: %.1f s", r.name, name, r.releases(), cost.finished.Seconds())
	n := float64(r.releases())
	r.add(name, "time", "s", cost.finished.Seconds())
	r.add(name, "CPU per release", "ms", 1000*cost.used.CPU.Seconds()/n)
	r.add(name, "peak memory", "MiB", float64(cost.peak)/mebi)
	r.add(name, "requests per release to workload clusters", "", float64(cost.workload)/n)
	if r.peer.User() != "" {
		r.add(name, "requests per release to the management cluster", "", float64(cost.management)/n)
		r.add(name, "requests to the registry", "", float64(cost.registry.Total()))
		r.add(name, "pulled blobs", "", float64(cost.registry.BlobGets))
	}
	return nil
}

// idlePhase measures a tool that has nothing to do.
func (r *peerRun) idlePhase(ctx context.Context) error {
	cost, err := r.cost(ctx, func() error { return pause(ctx, r.idle) })
	if err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	r.add("idle", "CPU of one core", "%", 100*cost.used.CPU.Seconds()/cost.wall.Seconds())
	r.add("idle", "memory", "MiB", float64(cost.used.Memory)/mebi)
	r.add("idle", "requests per Cluster and minute to workload clusters", "",
		float64(cost.workload)/float64(len(r.fleet.Clusters))/cost.wall.Minutes())
	if r.peer.User() != "" {
		r.add("idle", "requests per minute to the management cluster", "", float64(cost.management)/cost.wall.Minutes())
		r.add("idle", "requests to the registry", "", float64(cost.registry.Total()))
	}
	return nil
}

// add adds a figure of the tool, with its ratio to HelmOp's.
func (r *peerRun) add(phase, name, unit string, value float64) {
	options := []report.Option{report.Of(peers.Titles[r.name])}
	for i := range r.report.Figures {
		f := &r.report.Figures[i]
		if f.Of == peers.Titles[peers.HelmOp] && f.Phase == phase && f.Name == name {
			options = append(options, report.Against(f.Of, f.Value))
		}
	}
	r.report.Add("peers", phase, name, unit, value, options...)
}

// wait waits until nothing is missing.
func (r *peerRun) wait(ctx context.Context, missing func() int) error {
	ticker := time.NewTicker(recordPoll)
	defer ticker.Stop()
	least, progress := missing(), time.Now()
	for least > 0 {
		if time.Since(progress) > stallTimeout {
			return fmt.Errorf("%d of %d are missing, and nothing has changed for %s: %s", least, r.releases(), stallTimeout,
				r.peer.Explain(ctx))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if now := missing(); now < least {
			least, progress = now, time.Now()
		}
	}
	return nil
}

// calm waits until the programs of the tool use little CPU.
func (r *peerRun) calm(ctx context.Context) error {
	before, err := measure.Trees(r.peer.PIDs()...)
	if err != nil {
		return err
	}
	limit := time.Duration(calmShare * float64(calmPeriod))
	for begun, quiet := time.Now(), 0; quiet < calmPeriods; {
		if time.Since(begun) > calmTimeout {
			r.log("%s is not calm after %s", r.name, calmTimeout)
			return nil
		}
		if err := pause(ctx, calmPeriod); err != nil {
			return err
		}
		after, err := measure.Trees(r.peer.PIDs()...)
		if err != nil {
			return err
		}
		if quiet++; after.CPU-before.CPU > limit {
			quiet = 0
		}
		before = after
	}
	return nil
}
