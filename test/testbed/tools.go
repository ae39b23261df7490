// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// ToolOptions configure programs of other projects that run together with HelmOp: StartCAAPH, StartFlux,
// StartFluxSource, StartSveltos, StartFleet and StartOperator.
type ToolOptions struct {
	// Root is the repository's root folder. Required.
	Root string
	// Dir is the work folder. Required.
	Dir string
	// Args are further flags of the program, and Env further variables. Default: none. StartFleet ignores them.
	Args, Env []string
	// User is the user of the program at the management cluster, with the permissions of the administrator. Default: the
	// administrator. StartFleet and StartOperator ignore it.
	User string
}

// administrators is the group of users with all permissions.
const administrators = "system:masters"

// toolEnv is the environment of the go command for the modules of tools.
var toolEnv = []string{"CGO_ENABLED=0", "GOWORK=off"}

// folder returns the folder whose go.mod pins a tool. Each tool has its own module, so that the test bed can be built
// without the tools.
func (o ToolOptions) folder(name string) string { return filepath.Join(o.Root, "hack", "tools", name) }

// Build builds a package of a tool from the module that the tool's folder in hack/tools pins, and returns the path of
// the program.
func (o ToolOptions) Build(ctx context.Context, name, pkg string) (binary string, err error) {
	binary = filepath.Join(o.Dir, name)
	return binary, o.buildAll(ctx, name, binary, pkg)
}

// buildAll builds packages of a tool. If there are several, output is a folder, with a separator at its end.
func (o ToolOptions) buildAll(ctx context.Context, name, output string, packages ...string) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", output}, packages...)
	_, err := run(ctx, o.folder(name), "go", toolEnv, args...)
	return err
}

// goModule is a module as the go command describes it.
type goModule struct{ Path, Version, Dir string }

// module returns one of the modules from which a tool is built.
func (o ToolOptions) module(ctx context.Context, name, path string) (goModule, error) {
	return runModule(ctx, o.folder(name), path, "list", "-m", "-json", path)
}

// downloaded returns a module that the folder of a tool pins. It is downloaded if it is not in Go's cache.
func (o ToolOptions) downloaded(ctx context.Context, name, path string) (goModule, error) {
	return runModule(ctx, o.folder(name), path, "mod", "download", "-json", path)
}

// runModule runs the go command, which describes a module.
func runModule(ctx context.Context, dir, path string, args ...string) (module goModule, err error) {
	out, err := run(ctx, dir, "go", toolEnv, args...)
	if err != nil {
		return module, err
	}
	if err := json.Unmarshal([]byte(out.Stdout), &module); err != nil {
		return module, fmt.Errorf("read the folder of the module %s: %w", path, err)
	}
	return module, nil
}

// Version returns the version of a module from which a tool is built.
func (o ToolOptions) Version(ctx context.Context, name, path string) (string, error) {
	module, err := o.module(ctx, name, path)
	return module.Version, err
}

// toolKubeconfig returns the file by which a tool accesses the management cluster.
func (m *Management) toolKubeconfig(opts ToolOptions) (string, error) {
	if opts.User == "" {
		return m.kubeconfig, nil
	}
	data, err := m.Server.UserKubeconfig(opts.User, administrators)
	if err != nil {
		return "", err
	}
	file := filepath.Join(opts.Dir, "management.kubeconfig")
	return file, os.WriteFile(file, data, 0o600)
}

// installTool builds a package of a tool, and installs the CustomResourceDefinitions of modules from which the tool is
// built. It returns the path of the program, and the modules.
func (m *Management) installTool(ctx context.Context, opts ToolOptions, name, pkg string, paths ...string) (
	binary string, modules []goModule, err error,
) {
	if binary, err = opts.Build(ctx, name, pkg); err != nil {
		return "", nil, err
	}
	for _, path := range paths {
		module, err := opts.module(ctx, name, path)
		if err != nil {
			return "", nil, err
		}
		modules = append(modules, module)
	}
	return binary, modules, m.installToolCRDs(modules...)
}

// installToolCRDs installs the CustomResourceDefinitions of modules, which controller-gen has written.
func (m *Management) installToolCRDs(modules ...goModule) error {
	folders := make([]string, 0, len(modules))
	for _, module := range modules {
		folders = append(folders, filepath.Join(module.Dir, "config", "crd", "bases"))
	}
	return m.installCRDsOf(folders...)
}

// installCRDsOf installs the CustomResourceDefinitions in the files of folders.
func (m *Management) installCRDsOf(folders ...string) error {
	_, err := envtest.InstallCRDs(m.Server.RESTConfig(), envtest.CRDInstallOptions{
		Paths: folders, MaxTime: crdTimeout, PollInterval: 50 * time.Millisecond,
	})
	return err
}

// startTool starts a tool, and waits until the address answers.
func startTool(ctx context.Context, opts ToolOptions, spec process.Spec, ready string) (*process.Process, error) {
	spec.Args, spec.Env = append(spec.Args, opts.Args...), append(spec.Env, opts.Env...)
	spec.LogFile = filepath.Join(opts.Dir, "manager.log")
	p, err := process.Start(spec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.WaitHealthy(ctx, func(ctx context.Context) error { return probe(ctx, ready) }); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}
