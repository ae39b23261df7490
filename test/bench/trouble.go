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
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// troubledGroup is the group of Clusters whose API servers hang or refuse connections.
const troubledGroup = "troubled"

// surroundings describe the troubled Clusters that run together with the healthy Clusters.
type surroundings struct {
	name, namespace string
	mode            world.Mode
}

var (
	alone   = surroundings{name: "alone", namespace: "alone"}
	hanging = surroundings{name: "beside hanging", namespace: "beside", mode: world.Hang}
	refused = surroundings{name: "beside refusing", namespace: "beside", mode: world.Refuse}
)

// troubles compares healthy Clusters alone and together with troubled Clusters.
type troubles struct {
	*bench
	charts []charts.Chart
	relays []*world.Relay
	// install and upgrade are the durations of each round, by surroundings.
	install, upgrade map[surroundings][]time.Duration
	// costs are the costs of the last round, by phase.
	costs map[string]map[surroundings]world.Cost
}

// trouble starts new managers that install and upgrade HelmOps while other Clusters hang, refuse connections, or do not
// exist. The other Clusters are troubled from the start. In between, they answer long enough to get the releases, too.
func trouble(ctx context.Context, b *bench) error {
	versions, err := b.largeCharts(ctx, b.troubleCharts)
	if err != nil {
		return err
	}
	t := &troubles{
		bench: b, charts: versions[0],
		install: map[surroundings][]time.Duration{}, upgrade: map[surroundings][]time.Duration{},
		costs: map[string]map[surroundings]world.Cost{},
	}
	defer func() {
		for _, relay := range t.relays {
			_ = relay.Stop()
		}
	}()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		order := []surroundings{alone, hanging, refused}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, where := range order {
			if err := t.round(ctx, round, where); err != nil {
				return fmt.Errorf("round %d, %s: %w", round, where.name, err)
			}
		}
	}
	for _, where := range []surroundings{hanging, refused} {
		for phase, took := range map[string]map[surroundings][]time.Duration{"install": t.install,
			"values upgrade": t.upgrade} {
			b.report.Add("trouble", phase, fmt.Sprintf("%d well %s %d", b.servers, where.name, b.troubled), "s",
				median(took[where]).Seconds(),
				report.Against("alone", median(took[alone]).Seconds()), report.MaxRatio(1.15))
		}
	}
	for phase, costs := range t.costs {
		for _, where := range []surroundings{alone, hanging, refused} {
			t.addCosts("trouble "+where.name, phase, costs[where])
		}
	}
	return nil
}

// addCosts adds the costs of a phase of the last round, for each release of healthy Clusters.
func (t *troubles) addCosts(scenario, phase string, cost world.Cost) {
	n := float64(t.servers * len(t.charts))
	plain := t.costs[phase][alone]
	t.report.Add(scenario, phase, "CPU per release", "ms", 1000*cost.CPU.Seconds()/n,
		report.Against(alone.name, 1000*plain.CPU.Seconds()/n))
	t.report.Add(scenario, phase, "workload requests per release", "", float64(cost.Traffic.Workload)/n,
		report.Against(alone.name, float64(plain.Traffic.Workload)/n))
	t.report.Add(scenario, phase, "peak memory", "MiB", float64(cost.Peak)/mebi,
		report.Against(alone.name, float64(plain.Peak)/mebi))
	t.addManagement(scenario, phase, cost, n)
	t.addRegistry(scenario, phase, cost, float64(len(t.charts)))
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func (t *troubles) prepare(ctx context.Context) error {
	for _, server := range t.world.Servers {
		relay, err := world.NewRelay(process.Loopback(server.Port()))
		if err != nil {
			return err
		}
		t.relays = append(t.relays, relay)
	}
	troubled := t.world.Group(hanging.namespace, troubledGroup, t.troubled)
	for i := range troubled {
		troubled[i].Relay = t.relays[i%len(t.relays)]
	}
	for namespace, clusters := range map[string][]world.Cluster{
		alone.namespace:   t.world.Group(alone.namespace, healthyGroup, t.servers),
		hanging.namespace: append(t.world.Group(hanging.namespace, healthyGroup, t.servers), troubled...),
	} {
		if err := t.world.CreateNamespace(ctx, namespace); err != nil {
			return err
		}
		if err := t.world.CreateClusters(ctx, clusters); err != nil {
			return err
		}
	}
	return nil
}

func (t *troubles) set(mode world.Mode) error {
	var errs []error
	for _, relay := range t.relays {
		errs = append(errs, relay.Set(mode))
	}
	return errors.Join(errs...)
}

// round makes one round of measurements.
func (t *troubles) round(ctx context.Context, round int, where surroundings) error {
	if err := t.set(where.mode); err != nil {
		return err
	}
	manager, err := t.world.StartManager(ctx, where.namespace)
	if err != nil {
		return err
	}
	defer func() { _ = manager.Stop(context.WithoutCancel(ctx)) }()
	if err := manager.WaitConnected(ctx, t.servers); err != nil {
		return err
	}
	var helmOps []world.HelmOp
	for _, chart := range t.charts {
		helmOps = append(helmOps, world.HelmOp{
			Namespace: where.namespace, Name: fmt.Sprintf("%s-%d-%d", chart.Name, round, where.mode),
			Groups: []string{healthyGroup, troubledGroup}, Chart: chart.Name, Tag: chart.Version,
			ReleaseNamespace: fmt.Sprintf("trouble-%d-%d-{cluster}-{chart}", round, where.mode), Orphan: true,
		})
	}
	timed := func(phase string, revision int64, begin func(world.HelmOp) error) (took time.Duration, err error) {
		cost, err := manager.Measure(ctx, "trouble "+where.name+" "+phase, func() error {
			took, err = t.timed(ctx, where, helmOps, revision, begin)
			return err
		})
		if t.costs[phase] == nil {
			t.costs[phase] = map[surroundings]world.Cost{}
		}
		t.costs[phase][where] = cost
		return took, err
	}
	install, err := timed("install", 1, func(h world.HelmOp) error { return h.Create(ctx, t.world) })
	if err != nil {
		return err
	}
	if err := t.recover(ctx, manager, where); err != nil {
		return err
	}
	upgrade, err := timed("upgrade", 2, func(h world.HelmOp) error { return h.SetLogLevel(ctx, t.world, "debug") })
	if err != nil {
		return err
	}
	t.log("round %d, %s: installed in %.2f s, upgraded in %.2f s", round, where.name, install.Seconds(), upgrade.Seconds())
	t.install[where], t.upgrade[where] = append(t.install[where], install), append(t.upgrade[where], upgrade)
	for _, helmOp := range helmOps {
		if err := helmOp.Delete(ctx, t.world); err != nil {
			return err
		}
	}
	return t.world.Tracker.WaitGone(ctx, where.namespace, func(world.Release) bool { return true })
}

// timed returns the time until all healthy Clusters have a revision.
func (t *troubles) timed(ctx context.Context, where surroundings, helmOps []world.HelmOp, revision int64,
	begin func(world.HelmOp) error,
) (time.Duration, error) {
	begun := time.Now()
	for _, helmOp := range helmOps {
		if err := begin(helmOp); err != nil {
			return 0, err
		}
	}
	times, err := t.world.Tracker.Wait(ctx, where.namespace, t.servers*len(t.charts), begun, func(r world.Release) bool {
		return r.Deployed && r.Revision == revision && !isTroubled(r)
	})
	return times.Last, err
}

func isTroubled(r world.Release) bool {
	return len(r.Cluster) > len(troubledGroup) && r.Cluster[:len(troubledGroup)] == troubledGroup
}

// recover makes the troubled Clusters answer and get the release, and waits until the manager is idle. Then it makes
// them troubled again.
func (t *troubles) recover(ctx context.Context, manager *world.Manager, where surroundings) error {
	clusters := t.servers
	if where != alone {
		clusters += t.troubled
		if err := t.set(world.Pass); err != nil {
			return err
		}
	}
	n := clusters * len(t.charts)
	_, err := t.world.Tracker.Wait(ctx, where.namespace, n, time.Now(), func(r world.Release) bool { return r.Deployed })
	if err != nil {
		return err
	}
	return errors.Join(manager.WaitRecognized(ctx, clusters, n), t.set(where.mode))
}
