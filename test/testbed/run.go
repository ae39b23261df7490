// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// Output is the output of a command.
type Output struct {
	Stdout, Stderr string
}

// Run runs a program to its end, with env added to the environment. If the program fails, the error contains the output
// to stderr.
func Run(ctx context.Context, path string, env []string, args ...string) (Output, error) {
	return run(ctx, "", path, env, args...)
}

func run(ctx context.Context, dir, path string, env []string, args ...string) (Output, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String()}
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err,
			strings.TrimSpace(out.Stderr))
	}
	return out, nil
}

// Kubectl runs kubectl with a kubeconfig file, without the user's own configuration.
func Kubectl(ctx context.Context, set *binaries.Set, kubeconfig string, args ...string) (Output, error) {
	env := []string{"KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + filepath.Join(filepath.Dir(kubeconfig), "kube-cache"),
		"KUBERC=off"}
	return Run(ctx, set.Path(binaries.Kubectl), env, args...)
}

// BuildManager builds HelmOp's manager from the repository at root into dir, and returns the path of the program.
//
// The program has no version: to find it, Go would run `git status`, which changes the folder .git. Go repeats tests that
// list the repository after such a change.
func BuildManager(ctx context.Context, root, dir string) (string, error) {
	path := filepath.Join(dir, "helmop-manager")
	_, err := run(ctx, root, "go", []string{"CGO_ENABLED=0"}, "build", "-buildvcs=false", "-trimpath",
		"-ldflags", "-s -w", "-o", path, ".")
	return path, err
}

// ManagerOptions configure HelmOp's manager.
type ManagerOptions struct {
	// Binary is the path of the manager, such as BuildManager's result. Required.
	Binary string
	// Dir is the work folder, for the kubeconfig and the log. Required. Each Manager needs its own folder.
	Dir string
	// Kubeconfig is the manager's access to the management cluster. Required.
	Kubeconfig []byte
	// Args are the flags. The environment has the path of the kubeconfig.
	Args []string
}

// Manager is HelmOp's manager as a process. Kill, Stop, Wait, Done, LogFile and PID are the methods of process.Process.
type Manager struct {
	*process.Process
}

// StartManager starts HelmOp's manager and returns at once.
func StartManager(opts ManagerOptions) (*Manager, error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(opts.Dir, "manager.kubeconfig")
	if err := os.WriteFile(kubeconfig, opts.Kubeconfig, 0o600); err != nil {
		return nil, err
	}
	p, err := process.Start(process.Spec{
		Name:    "helmop-manager",
		Path:    opts.Binary,
		Args:    opts.Args,
		Env:     []string{"KUBECONFIG=" + kubeconfig},
		LogFile: filepath.Join(opts.Dir, "manager.log"),
	})
	if err != nil {
		return nil, err
	}
	return &Manager{Process: p}, nil
}

// WaitReady waits until the manager answers url, the full address of its readiness probe, with status 200.
func (m *Manager) WaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return m.WaitHealthy(ctx, func(ctx context.Context) error { return probe(ctx, url) })
}
