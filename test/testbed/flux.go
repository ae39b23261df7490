// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"os"
	"path/filepath"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// FluxTool is the folder of hack/tools that pins the helm-controller of Flux. FluxSourceTool pins the
	// source-controller: with the libraries of both, none of the two would be the program that Flux releases.
	FluxTool, FluxSourceTool = "flux", "flux-source"
	// FluxModule and FluxSourceModule are their modules.
	FluxModule, FluxSourceModule = "github.com/fluxcd/helm-controller", "github.com/fluxcd/source-controller"
)

// StartFlux builds the helm-controller of Flux, and installs its CustomResourceDefinitions and those of the
// source-controller. It starts the helm-controller with the permissions of the administrator. It returns when the
// helm-controller is ready.
//
// Unless the caller starts the source-controller, see StartFluxSource, it serves the charts, and writes the status of
// their sources.
func (m *Management) StartFlux(ctx context.Context, opts ToolOptions) (*process.Process, error) {
	binary, err := opts.Build(ctx, FluxTool, FluxModule)
	if err != nil {
		return nil, err
	}
	controller, err := opts.module(ctx, FluxTool, FluxModule)
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
	kubeconfig, err := m.toolKubeconfig(opts)
	if err != nil {
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
		Env:  []string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + opts.Dir},
	}, "http://"+health+"/readyz")
}

// StartFluxSource builds the source-controller of Flux, and starts it with the permissions of the administrator. Call
// it after StartFlux, which installs its CustomResourceDefinitions. It returns when the source-controller is ready.
func (m *Management) StartFluxSource(ctx context.Context, opts ToolOptions) (*process.Process, error) {
	binary, err := opts.Build(ctx, FluxSourceTool, FluxSourceModule)
	if err != nil {
		return nil, err
	}
	storage := filepath.Join(opts.Dir, "storage")
	if err := os.MkdirAll(storage, 0o700); err != nil {
		return nil, err
	}
	kubeconfig, err := m.toolKubeconfig(opts)
	if err != nil {
		return nil, err
	}
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	health, served := process.Loopback(ports[0]), process.Loopback(ports[1])
	return startTool(ctx, opts, process.Spec{
		Name: "flux-source-controller", Path: binary,
		Args: []string{"--health-addr=" + health, "--metrics-addr=0", "--storage-path=" + storage,
			"--storage-addr=" + served, "--storage-adv-addr=" + served},
		Env: []string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + opts.Dir, "HOME=" + opts.Dir},
	}, "http://"+health+"/readyz")
}

// fluxSource returns the module of the source-controller. The helm-controller is built with the types of the
// source-controller, and its module has the same version.
func (o ToolOptions) fluxSource(ctx context.Context) (goModule, error) {
	api, err := o.module(ctx, FluxTool, FluxSourceModule+"/api")
	if err != nil {
		return goModule{}, err
	}
	return runModule(ctx, o.Dir, FluxSourceModule, "mod", "download", "-json", FluxSourceModule+"@"+api.Version)
}
