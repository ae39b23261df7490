// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world is the environment of the benchmark: a management cluster, a registry, workload API servers that many
// Clusters share, and HelmOp's manager. clusterctl installs HelmOp with exactly the permissions of a release.
//
// The benchmark writes the status and the kubeconfigs of Clusters itself. Cluster API's controllers do not run, so that
// only the manager and the API servers use the machine.
package world

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// starting is the number of workload API servers that start at once.
const starting = 4

// Options configure a World.
type Options struct {
	// Dir is the work folder. Required. The caller removes the folder after Stop.
	Dir string
	// Servers is the number of workload API servers.
	Servers int
	// GCPercent is GOGC of all API servers and of their etcds. Default: the default of apiserver.Options.
	GCPercent int
	// Workers is the number of releases that the manager reconciles at once. Default: the default of the manager.
	Workers int
	// Manager is the path of the manager to run. Default: Start builds the manager.
	Manager string
	// Profiles is the folder for profiles of the manager. Default: no profiles.
	Profiles string
	// Log is called for each step.
	Log func(format string, args ...any)
}

// World holds everything that runs.
type World struct {
	Env     *environment.Environment
	Servers []*apiserver.Server
	Tracker *Tracker

	opts   Options
	token  string
	admins map[*apiserver.Server]client.Client
}

// Start starts a World. On an error, nothing keeps running.
func Start(ctx context.Context, opts Options) (*World, error) {
	w := &World{opts: opts}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, w.Stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

func (w *World) start(ctx context.Context) error {
	var err error
	w.Env, err = environment.Start(ctx, environment.Options{
		Dir: filepath.Join(w.opts.Dir, "env"), NoManager: true, NoCharts: true, Bare: true, ManagerBinary: w.opts.Manager,
		GCPercent: w.opts.GCPercent,
		Progress:  func(step string) { w.opts.Log("%s", step) },
	})
	if err != nil {
		return err
	}
	if err := w.startServers(ctx); err != nil {
		return err
	}
	if w.token, err = DiagnosticsToken(ctx, w.Env.Client); err != nil {
		return err
	}
	w.Tracker, err = newTracker(ctx, w.Env.Management.Server.RESTConfig(), w.opts.Log)
	return err
}

func (w *World) startServers(ctx context.Context) error {
	w.opts.Log("starting %d workload API servers", w.opts.Servers)
	servers := make([]*apiserver.Server, w.opts.Servers)
	err := parallel(w.opts.Servers, starting, func(i int) error {
		var err error
		name := fmt.Sprintf("workload-%d", i)
		servers[i], err = apiserver.Start(ctx, apiserver.Options{
			Name: name, Dir: filepath.Join(w.opts.Dir, name), Binaries: w.Env.Binaries,
			GCPercent: w.opts.GCPercent,
		})
		return err
	})
	for _, server := range servers {
		if server != nil {
			w.Servers = append(w.Servers, server)
		}
	}
	return err
}

// KeepServers stops all workload API servers but the first n.
func (w *World) KeepServers(ctx context.Context, n int) error {
	var errs []error
	for len(w.Servers) > n {
		last := len(w.Servers) - 1
		errs = append(errs, w.Servers[last].Stop(ctx))
		w.Servers = w.Servers[:last]
	}
	return errors.Join(errs...)
}

// DiagnosticsToken creates a ServiceAccount that may read metrics and profiles of managers, and returns a token for it.
func DiagnosticsToken(ctx context.Context, c client.Client) (string, error) {
	const name = "helmop-bench"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics", "/debug/pprof/*"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: name}},
	}
	if err := errors.Join(c.Create(ctx, account), c.Create(ctx, role), c.Create(ctx, binding)); err != nil {
		return "", err
	}
	hours := int64(6 * time.Hour / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
	err := c.SubResource("token").Create(ctx, account, request)
	return request.Status.Token, err
}

// Stop stops everything. Files stay.
func (w *World) Stop(ctx context.Context) error {
	var errs []error
	if w.Tracker != nil {
		w.Tracker.stop()
	}
	if w.Env != nil {
		errs = append(errs, w.Env.Stop(ctx))
	}
	return errors.Join(append(errs, w.KeepServers(ctx, 0))...)
}

// Manager is a running manager.
type Manager struct {
	*environment.Manager
	*measure.Diagnostics
	// Began is the time at which its process was started.
	Began time.Time

	world *World
}

// StartManager starts a manager, which serves one namespace, and returns when it is ready.
func (w *World) StartManager(ctx context.Context, namespace string, args ...string) (*Manager, error) {
	own := []string{
		"--namespace=" + namespace,
		// API servers on a small busy machine may take long to answer, and a manager that loses its lease exits.
		"--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=90s",
	}
	if w.opts.Workers > 0 {
		own = append(own, fmt.Sprintf("--helmoprelease-concurrency=%d", w.opts.Workers))
	}
	args = append(own, args...)
	if w.opts.Profiles != "" {
		args = append(args, "--mutex-profile-fraction=10")
	}
	began := time.Now()
	manager, err := w.Env.StartManager(ctx, args...)
	if err != nil {
		return nil, err
	}
	return &Manager{
		Manager: manager, Diagnostics: measure.NewDiagnostics(manager.DiagnosticsAddress, w.token), Began: began, world: w,
	}, nil
}

// parallel calls do for 0 to n-1, several at once, and returns the errors.
func parallel(n, workers int, do func(i int) error) error {
	queue := make(chan int)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range queue {
				if errs[worker] == nil {
					errs[worker] = do(i)
				}
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	group.Wait()
	return errors.Join(errs...)
}
