// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// fluxTool is the folder of hack/tools that pins Flux.
	fluxTool         = "flux"
	fluxModule       = "github.com/fluxcd/helm-controller"
	fluxSourceModule = "github.com/fluxcd/source-controller"
)

// StartFlux builds the helm-controller of Flux, and installs its CustomResourceDefinitions and those of the
// source-controller. It starts the helm-controller with the permissions of the administrator. It returns when the
// helm-controller is ready.
//
// The source-controller does not run: the caller serves the charts, and writes the status of their sources.
func (m *Management) StartFlux(ctx context.Context, opts ToolOptions) (*process.Process, error) {
	binary, err := opts.Build(ctx, fluxTool, fluxModule)
	if err != nil {
		return nil, err
	}
	controller, err := opts.module(ctx, fluxTool, fluxModule)
	if err != nil {
		return nil, err
	}
	source, err := opts.fluxSource(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.installToolCRDs(controller, source); err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	health := process.Loopback(ports[0])
	return startTool(ctx, opts, process.Spec{
		Name: "flux-helm-controller", Path: binary,
		Args: []string{"--health-addr=" + health, "--metrics-addr=0"},
		Env:  []string{"KUBECONFIG=" + m.kubeconfig, "TMPDIR=" + opts.Dir},
	}, "http://"+health+"/readyz")
}

// fluxSource returns the module of the source-controller. The helm-controller is built with the types of the
// source-controller, and its module has the same version.
func (o ToolOptions) fluxSource(ctx context.Context) (goModule, error) {
	api, err := o.module(ctx, fluxTool, fluxSourceModule+"/api")
	if err != nil {
		return goModule{}, err
	}
	return runModule(ctx, o.Dir, fluxSourceModule, "mod", "download", "-json", fluxSourceModule+"@"+api.Version)
}
