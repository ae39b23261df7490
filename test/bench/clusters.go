// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

const (
	// plainLoop is the name of the baseline in reports.
	plainLoop = "plain loop"

	// plainClusters is the largest number of Clusters for the plain loop in a phase, which would otherwise take most of
	// the time. With five charts there are twice as many releases as workers, so that no worker is idle at the end
	// while others work. With fewer Clusters than workers, several workers would be in each cluster at once and share
	// its discovery. With as many Clusters as workers, this does not happen.
	plainClusters = 8

	// healthyGroup is the group of Clusters whose API servers answer.
	healthyGroup = "healthy"

	// resync is the sync period of the manager in measurements of idleness. It is so short that a minute has several
	// periods.
	resync = 10 * time.Second

	// listedKinds is the number of kinds of the chart that are not watched: ServiceAccount, Secret, ConfigMap,
	// ClusterRole, ClusterRoleBinding.
	listedKinds = 5

	// smallRead is the largest number of bytes of Helm's records that a check of an unchanged release may read: their
	// metadata, without content.
	smallRead = 3000

	mebi = 1 << 20
)

// clusters compares the manager with the plain loop, in each phase, on the same API servers.
func clusters(ctx context.Context, b *bench) error {
	c := &comparison{bench: b, scenario: "clusters", namespace: "clusters",
		clusters: b.world.Group("clusters", healthyGroup, b.servers)}
	var err error
	if c.versions, err = b.largeCharts(ctx, b.charts); err != nil {
		return err
	}
	if err := b.world.CreateNamespace(ctx, c.namespace); err != nil {
		return err
	}
	if err := b.world.CreateClusters(ctx, c.clusters); err != nil {
		return err
	}
	if err := c.startPlain(ctx); err != nil {
		return err
	}
	defer func() { _ = c.plain.Stop() }()
	defer func() {
		if c.manager != nil {
			_ = c.manager.Stop(context.WithoutCancel(ctx))
		}
	}()
	if err := c.startManager(ctx); err != nil {
		return err
	}
	return c.run(ctx)
}

// startManager starts a manager, in place of the running one, and waits until it has nothing to do.
func (c *comparison) startManager(ctx context.Context, args ...string) error {
	if c.manager != nil {
		if err := c.manager.Stop(ctx); err != nil {
			return err
		}
	}
	var err error
	if c.manager, err = c.world.StartManager(ctx, c.namespace, args...); err != nil {
		return err
	}
	return c.manager.WaitRecognized(ctx, len(c.clusters),
		c.world.Tracker.Count(c.namespace, func(world.Release) bool { return true }))
}

// largeCharts makes and pushes two versions of some charts.
func (b *bench) largeCharts(ctx context.Context, n int) ([][]charts.Chart, error) {
	versions := make([][]charts.Chart, 2)
	for v := range versions {
		for i := range n {
			chart, err := charts.Large(fmt.Sprintf("addon-%d", i), fmt.Sprintf("1.%d.0", v), uint64(i+1))
			if err != nil {
				return nil, err
			}
			if _, err := b.world.Push(ctx, chart, chart.Version); err != nil {
				return nil, err
			}
			versions[v] = append(versions[v], chart)
		}
	}
	return versions, nil
}

// comparison compares the manager with the plain loop.
type comparison struct {
	*bench
	scenario, namespace string
	clusters            []world.Cluster
	versions            [][]charts.Chart

	plain   *contestant.Process
	manager *world.Manager
	helmOps []world.HelmOp
}

func (c *comparison) startPlain(ctx context.Context) error {
	targets, err := world.Contestants(c.clusters[:min(plainClusters, len(c.clusters))])
	if err != nil {
		return err
	}
	c.plain, err = contestant.Start(ctx, contestant.Spec{
		Kind: contestant.Plain, Workers: c.workers, Clusters: targets, Versions: c.versions, Namespace: "plain-{chart}",
	})
	return err
}

func (c *comparison) run(ctx context.Context) error {
	for _, chart := range c.versions[0] {
		c.helmOps = append(c.helmOps, world.HelmOp{
			Namespace: c.namespace, Name: chart.Name, Groups: []string{healthyGroup}, Chart: chart.Name, Tag: chart.Version,
			ReleaseNamespace: "helmop-{chart}",
		})
	}
	all := func(do func(world.HelmOp) error) func() error {
		return func() error {
			var errs []error
			for _, helmOp := range c.helmOps {
				errs = append(errs, do(helmOp))
			}
			return errors.Join(errs...)
		}
	}
	next := c.versions[1][0].Version
	if err := c.phase(ctx, contestant.Order{Phase: contestant.Install, LogLevel: "info"}, "install",
		all(func(h world.HelmOp) error { return h.Create(ctx, c.world) }),
		func(r world.Release) bool { return r.Deployed && r.Revision == 1 }); err != nil {
		return err
	}
	if err := c.idlePhase(ctx); err != nil {
		return err
	}
	if err := c.phase(ctx, contestant.Order{Phase: contestant.Upgrade, LogLevel: "debug"}, "values upgrade",
		all(func(h world.HelmOp) error { return h.SetLogLevel(ctx, c.world, "debug") }),
		func(r world.Release) bool { return r.Deployed && r.Revision == 2 }); err != nil {
		return err
	}
	if err := c.phase(ctx, contestant.Order{Phase: contestant.Upgrade, Version: 1, LogLevel: "debug"}, "chart upgrade",
		all(func(h world.HelmOp) error { return h.SetTag(ctx, c.world, next) }),
		func(r world.Release) bool { return r.Deployed && r.Revision == 3 && r.Version == next }); err != nil {
		return err
	}
	return c.phase(ctx, contestant.Order{Phase: contestant.Uninstall, Version: 1}, "uninstall",
		all(func(h world.HelmOp) error { return h.Delete(ctx, c.world) }), nil)
}

func (c *comparison) releases() int { return len(c.clusters) * len(c.versions[0]) }

// baseline is the cost of a phase for the plain loop.
type baseline struct {
	contestant.Outcome
	requests int
	peak     int64
}

func (c *comparison) baseline(ctx context.Context, order contestant.Order) (baseline, error) {
	mark, err := c.world.Mark()
	if err != nil {
		return baseline{}, err
	}
	peak := measure.FollowPeak(c.plain.PID())
	outcome, err := c.plain.Do(order)
	taken := baseline{Outcome: outcome, peak: peak.Stop()}
	if err != nil {
		return taken, fmt.Errorf("%s by the %s: %w", order.Phase, plainLoop, err)
	}
	traffic, err := c.world.Traffic(mark)
	taken.requests = traffic.Contestant
	if c.manager == nil {
		// The engine of the plain loop has the same user agent as the manager.
		taken.requests += traffic.Workload
	}
	return taken, err
}

// phase runs a phase first with the plain loop and then with the manager. It waits until all releases are in the
// desired state, or deleted. The wall time ends at this point. The cost also includes later work of the manager, such
// as checks of its own changes.
func (c *comparison) phase(ctx context.Context, order contestant.Order, name string, begin func() error,
	matches func(world.Release) bool,
) error {
	plain, err := c.baseline(ctx, order)
	if err != nil {
		return err
	}
	c.log("%s of %d releases by the %s: %.1f s", name, plain.Releases, plainLoop, plain.Wall.Seconds())
	var times world.Times
	var wall time.Duration
	cost, err := c.manager.Measure(ctx, c.scenario+" "+name, func() error {
		begun := time.Now()
		err := begin()
		switch {
		case err != nil:
		case matches == nil:
			err = c.world.Tracker.WaitGone(ctx, c.namespace, func(world.Release) bool { return true })
		default:
			times, err = c.world.Tracker.Wait(ctx, c.namespace, c.releases(), begun, matches)
		}
		wall = time.Since(begun)
		return errors.Join(err, c.manager.WaitCalm(ctx))
	})
	if err != nil {
		return err
	}
	cost.Wall = wall
	c.log("%s of %d releases by HelmOp: %.1f s", name, c.releases(), cost.Wall.Seconds())
	c.add(name, cost, plain, order.Phase != contestant.Uninstall)
	if matches != nil {
		c.report.Add(c.scenario, name, "first release", "s", times.First.Seconds())
	}
	return nil
}

// add adds the figures of a phase.
func (c *comparison) add(phase string, cost world.Cost, plain baseline, targets bool) {
	n, m := float64(c.releases()), float64(plain.Releases)
	within := func(limit float64) report.Option {
		if targets {
			return report.MaxRatio(limit)
		}
		return func(*report.Figure) {}
	}
	c.report.Add(c.scenario, phase, "wall", "s", cost.Wall.Seconds(), report.Against(plainLoop, plain.Wall.Seconds()*n/m),
		within(0.9))
	c.report.Add(c.scenario, phase, "CPU per release", "ms", 1000*cost.CPU.Seconds()/n,
		report.Against(plainLoop, 1000*plain.CPU.Seconds()/m), within(0.5))
	c.report.Add(c.scenario, phase, "workload requests per release", "", float64(cost.Traffic.Workload)/n,
		report.Against(plainLoop, float64(plain.requests)/m), within(0.8))
	c.report.Add(c.scenario, phase, "peak memory", "MiB", float64(cost.Peak)/mebi,
		report.Against(plainLoop, float64(plain.peak)/mebi))
	c.addManagement(c.scenario, phase, cost, n)
	c.addRegistry(c.scenario, phase, cost, float64(len(c.versions[0])))
}

func (b *bench) addManagement(scenario, phase string, cost world.Cost, n float64) {
	writes := 0
	for _, count := range cost.Traffic.Writes {
		writes += count
	}
	b.report.Add(scenario, phase, "management requests per release", "", float64(cost.Traffic.Management)/n)
	b.report.Add(scenario, phase, "of them writes", "", float64(writes)/n)
}

// addRegistry adds the requests to the registry, for each chart.
func (b *bench) addRegistry(scenario, phase string, cost world.Cost, charts float64) {
	r := cost.Registry
	b.report.Add(scenario, phase, "registry manifests per chart", "", float64(r.ManifestGets+r.ManifestHeads)/charts)
	b.report.Add(scenario, phase, "registry blobs per chart", "", float64(r.BlobGets)/charts, report.Max(1))
	b.report.Add(scenario, phase, "registry bytes per chart", "kB", float64(r.Bytes)/1000/charts)
}

// idlePhase measures a manager that has been started, and has checked all releases, while nothing changes.
func (c *comparison) idlePhase(ctx context.Context) error {
	if err := c.startManager(ctx, "--sync-period="+resync.String()); err != nil {
		return err
	}
	plain, err := c.baseline(ctx, contestant.Order{Phase: contestant.Check, LogLevel: "info"})
	if err != nil {
		return err
	}
	before, read, err := c.checks(ctx)
	if err != nil {
		return err
	}
	cost, err := c.manager.Measure(ctx, c.scenario+" idle", func() error { return pause(ctx, c.idle) })
	if err != nil {
		return err
	}
	after, readAfter, err := c.checks(ctx)
	if err != nil {
		return err
	}
	size, err := c.manager.Size(ctx)
	if err != nil {
		return err
	}
	// Only the resync causes checks of a release. Its period is up to a tenth shorter than the flag, or longer.
	passes := max(1, after-before)
	periods := float64(c.releases()) * cost.Wall.Seconds() / resync.Seconds()
	add := func(name, unit string, value float64, options ...report.Option) {
		c.report.Add(c.scenario, "idle", name, unit, value, options...)
	}
	add("registry requests", "", float64(cost.Registry.Total()), report.Max(0))
	add("looks at each release per sync period", "", passes/periods, report.Max(1.12))
	add("workload requests per release and resync", "",
		float64(cost.Traffic.Workload-cost.Traffic.Watches-cost.Traffic.KindLists)/passes,
		report.Against(plainLoop, float64(plain.requests)/float64(plain.Releases)), report.Max(1))
	add("lists of kinds per cluster and resync", "",
		float64(cost.Traffic.KindLists)/float64(len(c.clusters))/(cost.Wall.Seconds()/resync.Seconds()),
		report.Max(1.12*listedKinds))
	add("bytes of Helm's records per release and resync", "", (readAfter-read)/passes, report.Max(smallRead))
	add("watches renewed per cluster and minute", "",
		float64(cost.Traffic.Watches)/float64(len(c.clusters))/c.idle.Minutes())
	add("CPU per release and resync", "ms", 1000*cost.CPU.Seconds()/passes,
		report.Against(plainLoop, 1000*plain.CPU.Seconds()/float64(plain.Releases)))
	add("management requests per release and resync", "", float64(cost.Traffic.Management)/passes)
	add("health probes per cluster and minute", "", float64(cost.Traffic.Probes)/float64(len(c.clusters))/c.idle.Minutes())
	add("steady memory", "MiB", float64(size.Memory)/mebi)
	add("of it heap in use", "MiB", float64(size.Heap)/mebi)
	return c.startManager(ctx)
}

// checks returns how many reconciliations of releases the manager has finished, and how many bytes of Helm's records
// the workload API servers have sent.
func (c *comparison) checks(ctx context.Context) (passes, read float64, err error) {
	metrics, err := c.manager.Metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	read, err = c.world.RecordBytes(ctx)
	return metrics.Sum("controller_runtime_reconcile_total", `controller="helmoprelease"`), read, err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
