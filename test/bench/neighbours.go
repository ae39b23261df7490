// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// servedNamespace is the namespace of the tenant whose releases are measured.
	servedNamespace = "served"

	// maxSlower is the target: how many times longer a release may take if there is a hostile tenant.
	maxSlower = 2
)

// neighbours compares the releases of a tenant alone and together with a hostile tenant.
type neighbours struct {
	*bench
	chart   charts.Chart
	other   *hostileTenant
	manager *world.Manager
	// served is the number of releases that were measured.
	served int
}

// servedTimes are the durations of some releases. cpu is the CPU time that the manager used for each of them, from the
// installation to the uninstallation, and for the hostile tenant meanwhile.
type servedTimes struct {
	install, upgrade []time.Duration
	cpu              time.Duration
}

// neighbour starts a manager that serves two tenants. For each kind of hostility, releases of one tenant are installed
// and upgraded one after the other: first alone, then together with the other tenant. All Clusters share an API server.
func neighbour(ctx context.Context, b *bench) (err error) {
	kinds, err := regexp.Compile(b.settings.hostile)
	if err != nil {
		return err
	}
	n := &neighbours{bench: b}
	if n.chart, err = charts.Large("addon-0", "1.0.0", 1); err != nil {
		return err
	}
	if _, err = b.world.Push(ctx, n.chart, n.chart.Version); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "helmop-neighbours-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := n.createServed(ctx); err != nil {
		return err
	}
	n.other, err = startHostileTenant(ctx, b, filepath.Join(dir, "registry"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.other.stop(context.WithoutCancel(ctx))) }()
	// The manager serves all namespaces.
	if n.manager, err = b.world.StartManager(ctx, ""); err != nil {
		return err
	}
	defer func() { _ = n.manager.Stop(context.WithoutCancel(ctx)) }()
	// The first release pulls the chart, and discovers the APIs of the cluster.
	if _, err := n.serve(ctx, 1); err != nil {
		return err
	}
	for _, kind := range hostilities() {
		if !kinds.MatchString(kind.name) {
			continue
		}
		if err := n.compare(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

func (n *neighbours) createServed(ctx context.Context) error {
	if err := n.world.CreateNamespace(ctx, servedNamespace); err != nil {
		return err
	}
	return n.world.CreateClusters(ctx, n.world.Group(servedNamespace, healthyGroup, 1))
}

// compare measures releases alone and together with one kind of hostility.
func (n *neighbours) compare(ctx context.Context, kind hostility) error {
	alone, err := n.measure(ctx, "alone, before "+kind.name)
	if err != nil {
		return err
	}
	if err := n.other.begin(ctx, kind); err != nil {
		return err
	}
	beside, err := n.measure(ctx, "beside "+kind.name)
	if err = errors.Join(err, n.other.end(ctx)); err != nil {
		return err
	}
	add := func(phase string, alone, beside []time.Duration) {
		n.report.Add("neighbours", phase, "beside "+kind.name, "s", median(beside).Seconds(),
			report.Against("alone", median(alone).Seconds()), report.MaxRatio(maxSlower))
	}
	add("install", alone.install, beside.install)
	add("upgrade", alone.upgrade, beside.upgrade)
	n.report.Add("neighbours", "manager CPU per release", "beside "+kind.name, "s", beside.cpu.Seconds(),
		report.Against("alone", alone.cpu.Seconds()))
	n.log("beside %s: installed in %s instead of %s, upgraded in %s instead of %s", kind.name, median(beside.install),
		median(alone.install), median(beside.upgrade), median(alone.upgrade))
	return nil
}

// measure serves the releases of one phase, and measures the manager meanwhile.
func (n *neighbours) measure(ctx context.Context, phase string) (times servedTimes, err error) {
	cost, err := n.manager.Measure(ctx, phase, func() error {
		times, err = n.serve(ctx, n.releases)
		return err
	})
	times.cpu = cost.CPU / time.Duration(n.releases)
	return times, err
}

// serve installs, upgrades and uninstalls some releases, one after the other.
func (n *neighbours) serve(ctx context.Context, releases int) (times servedTimes, err error) {
	for range releases {
		n.served++
		name := fmt.Sprintf("served-%d", n.served)
		helmOp := world.HelmOp{
			Namespace: servedNamespace, Name: name, Groups: []string{healthyGroup}, Chart: n.chart.Name,
			Tag: n.chart.Version, ReleaseNamespace: name,
		}
		install, err := n.until(ctx, 1, func() error { return helmOp.Create(ctx, n.world) })
		if err != nil {
			return times, err
		}
		upgrade, err := n.until(ctx, 2, func() error { return helmOp.SetLogLevel(ctx, n.world, "debug") })
		if err != nil {
			return times, err
		}
		times.install, times.upgrade = append(times.install, install), append(times.upgrade, upgrade)
		if err := helmOp.Delete(ctx, n.world); err != nil {
			return times, err
		}
		if err := n.world.Tracker.WaitGone(ctx, servedNamespace, anyRelease); err != nil {
			return times, err
		}
	}
	return times, nil
}

func anyRelease(world.Release) bool { return true }

// until returns the time from a change until the release has a revision.
func (n *neighbours) until(ctx context.Context, revision int64, change func() error) (time.Duration, error) {
	begun := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	times, err := n.world.Tracker.Wait(ctx, servedNamespace, 1, begun, func(r world.Release) bool {
		return r.Deployed && r.Revision == revision
	})
	return times.Last.Round(time.Millisecond), err
}

// relayTo returns a relay to the API server of a Cluster.
func relayTo(cluster world.Cluster) (*world.Relay, error) {
	return world.NewRelay(process.Loopback(cluster.Server.Port()))
}
