// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// Names in config/default.
const (
	// Namespace is where HelmOp is installed.
	Namespace = "helmop-system"
	// ServiceAccount is the ServiceAccount of the manager.
	ServiceAccount = "helmop-manager"
	// Deployment is the Deployment of the manager. Its Pods do not run, because there is no kubelet.
	Deployment = "helmop-controller-manager"
	// User is the user name of the manager at API servers.
	User = "system:serviceaccount:" + Namespace + ":" + ServiceAccount
)

const (
	// tokenTTL is longer than any test run.
	tokenTTL = 6 * time.Hour
	// diagnosticsTimeout is how long a ready manager may take until it serves its metrics.
	diagnosticsTimeout = 3 * time.Minute
)

// Manager is a started manager of HelmOp.
type Manager struct {
	*testbed.Manager

	// HealthAddress serves /healthz and /readyz over HTTP.
	HealthAddress string
	// DiagnosticsAddress serves /metrics over HTTPS.
	DiagnosticsAddress string
}

// StartManager starts a manager with the arguments of the installed Deployment, adapted to a process on this machine.
// Then follow the arguments in Options, and then the given arguments. If a flag occurs twice, the last one applies.
// StartManager returns when the manager is ready and serves its metrics.
func (e *Environment) StartManager(ctx context.Context, args ...string) (*Manager, error) {
	m, err := e.LaunchManager(ctx, args...)
	if err != nil {
		return nil, err
	}
	if err := m.WaitReady(ctx, "http://"+m.HealthAddress+"/readyz"); err != nil {
		return m, err
	}
	return m, m.waitDiagnostics(ctx)
}

// LaunchManager does the same as StartManager, but does not wait. The manager may never become ready.
func (e *Environment) LaunchManager(ctx context.Context, args ...string) (*Manager, error) {
	e.mu.Lock()
	number := len(e.managers)
	e.mu.Unlock()
	dir := e.dir("manager-" + strconv.Itoa(number))
	m := &Manager{}
	deployed, err := e.deployed(ctx)
	if err != nil {
		return nil, err
	}
	adapted, err := m.adaptedArgs(dir)
	if err != nil {
		return nil, err
	}
	if e.opts.SyncPeriod > 0 {
		adapted = append(adapted, "--sync-period="+e.opts.SyncPeriod.String())
	}
	kubeconfig, err := e.Management.ServiceAccountKubeconfig(ctx, Namespace, ServiceAccount, tokenTTL)
	if err != nil {
		return nil, err
	}
	all := append(append(append(deployed, adapted...), e.opts.ManagerArgs...), args...)
	m.Manager, err = testbed.StartManager(testbed.ManagerOptions{
		Binary: e.opts.ManagerBinary, Dir: dir, Kubeconfig: kubeconfig, Args: all,
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.managers = append(e.managers, m)
	e.mu.Unlock()
	return m, nil
}

// waitDiagnostics waits until the manager serves its metrics. The manager is ready earlier: creating the certificate
// for the metrics takes seconds on a busy machine.
func (m *Manager) waitDiagnostics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diagnosticsTimeout)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	return m.WaitHealthy(ctx, func(ctx context.Context) error {
		connection, err := dialer.DialContext(ctx, "tcp", m.DiagnosticsAddress)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// deployed returns the arguments of the manager in the installed Deployment.
func (e *Environment) deployed(ctx context.Context) ([]string, error) {
	deployment := &appsv1.Deployment{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: Deployment}, deployment); err != nil {
		return nil, fmt.Errorf("read the arguments of the manager: %w", err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name != "manager" {
			continue
		}
		return given(container), nil
	}
	return nil, errors.New("read the arguments of the manager: its Deployment has no container named manager")
}

// given returns the arguments of a container, expanded as a kubelet does.
func given(container corev1.Container) []string {
	args := slices.Clone(container.Args)
	for _, variable := range container.Env {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "$("+variable.Name+")", variable.Value)
		}
	}
	return args
}

// adaptedArgs returns the arguments that must differ outside of a Pod: addresses, folders, and the namespace of the
// lease.
func (m *Manager) adaptedArgs(dir string) ([]string, error) {
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	m.HealthAddress, m.DiagnosticsAddress = process.Loopback(ports[0]), process.Loopback(ports[1])
	artifacts := filepath.Join(dir, "artifacts")
	return []string{
		"--health-addr=" + m.HealthAddress,
		"--diagnostics-address=" + m.DiagnosticsAddress,
		"--artifact-dir=" + artifacts,
		// Tests move tags, and must not wait for half a minute.
		"--min-source-interval=1s",
		// Tests must not wait long for a chart that never ends rendering. Other charts take a hundredth of this time. After
		// one second, a renderer has the lowest priority, and would wait for minutes while the machine is full.
		"--render-cpu=1s",
		"--allow-local-addresses",
		"--leader-elect-namespace=" + Namespace,
		// A busy machine must not end a manager, because no kubelet restarts it.
		"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s",
	}, os.MkdirAll(artifacts, 0o700)
}
