// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// helmOp is HelmOp's manager, with a HelmOp for each chart.
type helmOp struct {
	Fleet
	manager *world.Manager
	objects []world.HelmOp
}

func newHelmOp(f Fleet) Peer {
	h := &helmOp{Fleet: f}
	for _, chart := range f.Charts {
		h.objects = append(h.objects, world.HelmOp{
			Namespace: f.Name, Name: chart.Name, Groups: []string{f.Name}, Chart: chart.Name, Tag: chart.Version,
			ReleaseNamespace: f.Namespace(chart.Name),
		})
	}
	return h
}

func (h *helmOp) Start(ctx context.Context) error {
	var err error
	h.manager, err = h.World.StartManager(ctx, h.Name, h.concurrency("--helmoprelease-concurrency")...)
	return err
}

func (h *helmOp) PIDs() []int { return []int{h.manager.PID()} }

func (h *helmOp) Versions() string { return "this checkout" }

func (h *helmOp) User() string { return environment.User }

func (h *helmOp) each(do func(world.HelmOp) error) error {
	var errs []error
	for _, object := range h.objects {
		errs = append(errs, do(object))
	}
	return errors.Join(errs...)
}

// Install creates the HelmOps. Their first log level is InstalledLevel.
func (h *helmOp) Install(ctx context.Context) error {
	return h.each(func(o world.HelmOp) error { return o.Create(ctx, h.World) })
}

func (h *helmOp) Upgrade(ctx context.Context) error {
	return h.each(func(o world.HelmOp) error { return o.SetLogLevel(ctx, h.World, UpgradedLevel) })
}

func (h *helmOp) Uninstall(ctx context.Context) error {
	return h.each(func(o world.HelmOp) error { return o.Delete(ctx, h.World) })
}

// Explain returns nothing: the status of the HelmOps is in the logs of the manager.
func (h *helmOp) Explain(context.Context) string { return "" }

func (h *helmOp) Stop(ctx context.Context) error {
	if h.manager == nil {
		return nil
	}
	return h.manager.Stop(ctx)
}
