// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// plain is the plain loop. It has no objects, and the charts are in its memory.
type plain struct {
	Fleet
	process *contestant.Process
}

func newPlain(f Fleet) Peer { return &plain{Fleet: f} }

func (p *plain) Start(ctx context.Context) error {
	targets, err := world.Contestants(p.Clusters)
	if err != nil {
		return err
	}
	p.process, err = contestant.Start(ctx, contestant.Spec{
		Kind: contestant.Plain, Workers: p.Workers, Clusters: targets, Versions: [][]charts.Chart{p.Charts},
		Namespace: p.Namespace("{chart}"),
	})
	return err
}

func (p *plain) PIDs() []int { return []int{p.process.PID()} }

func (p *plain) Versions() string { return "this checkout" }

func (p *plain) User() string { return "" }

func (p *plain) Install(context.Context) error {
	return p.do(contestant.Order{Phase: contestant.Install, LogLevel: InstalledLevel})
}

func (p *plain) Upgrade(context.Context) error {
	return p.do(contestant.Order{Phase: contestant.Upgrade, LogLevel: UpgradedLevel})
}

func (p *plain) Uninstall(context.Context) error {
	return p.do(contestant.Order{Phase: contestant.Uninstall})
}

func (p *plain) do(order contestant.Order) error {
	_, err := p.process.Do(order)
	return err
}

// Explain returns nothing: an action that fails returns an error.
func (p *plain) Explain(context.Context) string { return "" }

func (p *plain) Stop(context.Context) error {
	if p.process == nil {
		return nil
	}
	return p.process.Stop()
}
