// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// lateIn returns the group of the Clusters that are created late in a namespace.
func lateIn(namespace string) string { return "late-" + namespace }

// arrival is the time from the initialization of a new Cluster's control plane to its first and its last release.
type arrival struct{ first, all time.Duration }

// arrivals creates Clusters one after the other and returns the medians. Each Cluster gets a number of releases.
func (b *bench) arrivals(ctx context.Context, clusters []world.Cluster, releases int) (arrival, error) {
	var first, all []time.Duration
	for i, cluster := range clusters {
		if err := b.world.PrepareCluster(ctx, cluster); err != nil {
			return arrival{}, err
		}
		// Wait until the reactions to the creation of the Cluster have ended.
		if err := pause(ctx, time.Second); err != nil {
			return arrival{}, err
		}
		begun, err := b.world.InitializeCluster(ctx, cluster)
		if err != nil {
			return arrival{}, err
		}
		times, err := b.world.Tracker.Wait(ctx, cluster.Namespace, releases, begun, func(r world.Release) bool {
			return r.Cluster == cluster.Name && r.Deployed
		})
		if err != nil {
			return arrival{}, err
		}
		b.log("late Cluster %d in %s: first release after %.2f s, all %d after %.2f s", i, cluster.Namespace,
			times.First.Seconds(), releases, times.Last.Seconds())
		first, all = append(first, times.First), append(all, times.Last)
	}
	return arrival{first: median(first), all: median(all)}, nil
}

// lateClusters returns the late Clusters of a namespace.
func (f *bigFleet) lateClusters(namespace string) []world.Cluster {
	return confined(f.world.Group(namespace, lateIn(namespace), f.late))
}

// single measures the time that the only Cluster takes.
func (f *bigFleet) single(ctx context.Context) error {
	const namespace = "single"
	if err := f.world.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	manager, err := f.world.StartManager(ctx, namespace)
	if err != nil {
		return err
	}
	defer func() { _ = manager.Stop(context.WithoutCancel(ctx)) }()
	for _, helmOp := range f.helmOpsOf(namespace) {
		if err := helmOp.Create(ctx, f.world); err != nil {
			return err
		}
	}
	f.alone, err = f.arrivals(ctx, f.lateClusters(namespace), len(f.charts))
	return err
}

func (f *bigFleet) arrive(ctx context.Context) error {
	got, err := f.arrivals(ctx, f.lateClusters(f.namespace), len(f.charts))
	if err != nil {
		return err
	}
	f.report.Add("fleet", "new Cluster", "first release", "s", got.first.Seconds(),
		report.Against("alone", f.alone.first.Seconds()), report.MaxRatio(3))
	f.report.Add("fleet", "new Cluster", fmt.Sprintf("all %d releases", len(f.charts)), "s", got.all.Seconds(),
		report.Against("alone", f.alone.all.Seconds()), report.MaxRatio(3))
	return nil
}
