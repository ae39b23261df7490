// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// engineOrders are the phases of the scenario engine.
var engineOrders = []struct {
	name   string
	order  contestant.Order
	limits bool
}{
	{"install", contestant.Order{Phase: contestant.Install, LogLevel: "info"}, true},
	{"values upgrade", contestant.Order{Phase: contestant.Upgrade, LogLevel: "debug"}, true},
	{"in sync", contestant.Order{Phase: contestant.Check, LogLevel: "debug"}, false},
	{"uninstall", contestant.Order{Phase: contestant.Uninstall, LogLevel: "debug"}, false},
}

// engine compares HelmOp's release engine with the plain loop, without the manager. The two alternate in the order.
func engine(ctx context.Context, b *bench) error {
	versions, err := b.largeCharts(ctx, b.charts)
	if err != nil {
		return err
	}
	targets, err := world.Contestants(b.world.Group("none", healthyGroup, b.servers))
	if err != nil {
		return err
	}
	totals := map[string][]baseline{contestant.Plain: make([]baseline, len(engineOrders)),
		contestant.Engine: make([]baseline, len(engineOrders))}
	for round := range b.rounds {
		order := []string{contestant.Plain, contestant.Engine}
		if round%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, kind := range order {
			spec := contestant.Spec{
				Kind: kind, Workers: b.workers, Clusters: targets, Versions: versions,
				Namespace: fmt.Sprintf("engine-%s-%d-{chart}", kind, round),
			}
			if err := b.engineRound(ctx, spec, totals[kind]); err != nil {
				return err
			}
		}
	}
	for i, phase := range engineOrders {
		mine, plain := totals[contestant.Engine][i], totals[contestant.Plain][i]
		n := float64(plain.Releases)
		within := func(limit float64) report.Option {
			if phase.limits {
				return report.MaxRatio(limit)
			}
			return func(*report.Figure) {}
		}
		b.report.Add("engine", phase.name, "wall per release", "ms", 1000*mine.Wall.Seconds()/n,
			report.Against(plainLoop, 1000*plain.Wall.Seconds()/n))
		b.report.Add("engine", phase.name, "CPU per release", "ms", 1000*mine.CPU.Seconds()/n,
			report.Against(plainLoop, 1000*plain.CPU.Seconds()/n), within(0.5))
		b.report.Add("engine", phase.name, "workload requests per release", "", float64(mine.requests)/n,
			report.Against(plainLoop, float64(plain.requests)/n), within(0.8))
	}
	return nil
}

// engineRound carries out each phase once with a contestant, and adds the costs to the totals.
func (b *bench) engineRound(ctx context.Context, spec contestant.Spec, totals []baseline) error {
	process, err := contestant.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { _ = process.Stop() }()
	c := &comparison{bench: b, plain: process}
	for i, phase := range engineOrders {
		took, err := c.baseline(ctx, phase.order)
		if err != nil {
			return err
		}
		b.log("%s: %s of %d releases: %.1f s", spec.Kind, phase.name, took.Releases, took.Wall.Seconds())
		totals[i].Releases += took.Releases
		totals[i].Wall += took.Wall
		totals[i].CPU += took.CPU
		totals[i].requests += took.requests
	}
	return nil
}
