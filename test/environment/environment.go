// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment brings up everything that HelmOp works with, for the demo and for tests: a management cluster
// with Cluster API, a registry with charts, and the product as its users get it, installed by clusterctl and running as
// its own ServiceAccount with exactly the permissions that it ships with.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// Options describe an Environment.
type Options struct {
	// Dir is the work folder. Required; the caller removes it after Stop.
	Dir string

	// Progress is told of each step before it begins. Default: nobody is.
	Progress func(step string)

	// ManagerBinary is the manager to run. Default: it is built.
	ManagerBinary string

	// Managers is the number of managers to start. Default: 1.
	Managers int

	// NoManager starts none; StartManager can do so later.
	NoManager bool

	// NoInstall leaves HelmOp away; it goes with NoManager.
	NoInstall bool

	// Controllers are further controllers of Kubernetes to run, see testbed.ManagementOptions.
	Controllers []string

	// ManagerArgs are added to the arguments that the Deployment gives to the manager; the last of a flag counts.
	ManagerArgs []string

	// SyncPeriod of the managers. Default: what the Deployment says.
	SyncPeriod time.Duration

	// Config is the folder of the repository that the components are built from. Default: config/default.
	Config string

	// Variables are those of the components, for clusterctl. Default: none, so that each has its default.
	Variables map[string]string

	// NoCharts pushes none of the test charts.
	NoCharts bool

	// Pool has the API servers of workload clusters, see testbed.ManagementOptions.
	Pool *apiserver.Pool

	// Keep remembers what clusterctl installed, for environments that are Like this one.
	Keep bool

	// Like is an environment with Keep and the same Config, Variables and Controllers. What clusterctl installed there is
	// copied into etcd, which takes less than half of the CPU time. Default: clusterctl installs HelmOp.
	Like *Environment

	// Beside is another environment, to and from which Clusters can be moved. Its registry is this one's. Default: none.
	Beside *Environment

	// Bare leaves Cluster API's controllers and its local provider away, see testbed.ManagementOptions.
	Bare bool

	// Programs of the test bed to prepare. Default: all.
	Programs []string

	// Output receives what the build of the binaries of the test bed says. Default: os.Stderr.
	Output io.Writer
}

const (
	// servedTimeout bounds how long an API server takes until it lists the kinds of HelmOp, servedPoll is how often it is
	// asked.
	servedTimeout = 2 * time.Minute
	servedPoll    = 100 * time.Millisecond
)

// Environment is all that runs.
type Environment struct {
	// Management is the management cluster.
	Management *testbed.Management
	// Registry holds the test charts.
	Registry *registry.Registry
	// Client reads and writes the management cluster as its administrator; it knows the types of HelmOp and of
	// Cluster API.
	Client client.Client
	// Binaries are the programs of the test bed.
	Binaries *binaries.Set
	// Components is the file that clusterctl installed HelmOp from.
	Components string

	opts Options
	root string
	// installed is what the management cluster holds when HelmOp is installed and no manager has run.
	installed apiserver.Objects

	mu       sync.Mutex
	managers []*Manager
}

// Start brings up an Environment. On an error nothing is left running.
func Start(ctx context.Context, opts Options) (*Environment, error) {
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	if opts.Output == nil {
		opts.Output = os.Stderr
	}
	if opts.Managers == 0 {
		opts.Managers = 1
	}
	if opts.Config == "" {
		opts.Config = filepath.Join("config", "default")
	}
	e := &Environment{opts: opts}
	if err := e.start(ctx); err != nil {
		// The context may be what failed; stopping must happen all the same.
		return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func (e *Environment) start(ctx context.Context) error {
	management := "etcd, kube-apiserver, Cluster API's core manager, the local provider"
	if e.opts.Bare {
		management = "etcd, kube-apiserver"
	}
	for _, step := range []struct {
		say  string
		do   func(context.Context) error
		skip bool
	}{
		{say: "preparing the programs of the test bed", do: e.ensureBinaries},
		{say: "starting the management cluster: " + management, do: e.startManagement},
		{say: "starting the registry, with TLS and credentials, and pushing charts", do: e.startRegistry},
		{say: "installing HelmOp by clusterctl init --addon helmop", do: e.install, skip: e.opts.NoInstall},
		{say: "keeping what is installed, for copies", do: e.keep, skip: !e.opts.Keep},
		{say: "building the manager", do: e.buildManager, skip: e.opts.ManagerBinary != ""},
		{say: "starting the manager as its own ServiceAccount", do: e.startManagers, skip: e.opts.NoManager},
	} {
		if step.skip {
			continue
		}
		e.opts.Progress(step.say)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.say, err)
		}
	}
	return nil
}

func (e *Environment) ensureBinaries(ctx context.Context) error {
	var err error
	if e.root, err = binaries.RepositoryRoot(); err != nil {
		return err
	}
	e.Binaries, err = binaries.Ensure(ctx,
		binaries.Options{Root: e.root, Programs: e.opts.Programs, Progress: e.opts.Output})
	return err
}

func (e *Environment) startManagement(ctx context.Context) error {
	var err error
	opts := testbed.ManagementOptions{Dir: e.dir("management"), Binaries: e.Binaries, Bare: e.opts.Bare,
		Controllers: e.opts.Controllers, Pool: e.opts.Pool}
	if e.opts.Beside != nil {
		opts.Beside = e.opts.Beside.Management
	}
	if e.opts.Like != nil {
		opts.Objects = e.opts.Like.installed
	}
	e.Management, err = testbed.StartManagement(ctx, opts)
	if err != nil {
		return err
	}
	scheme := testbed.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		return err
	}
	e.Client, err = client.New(e.Management.Server.RESTConfig(), client.Options{Scheme: scheme})
	return err
}

func (e *Environment) startRegistry(ctx context.Context) error {
	if e.opts.Beside != nil {
		e.Registry = e.opts.Beside.Registry
		return nil
	}
	var err error
	if e.Registry, err = registry.Start(ctx, registry.Options{Dir: e.dir("registry"), Binaries: e.Binaries}); err != nil {
		return err
	}
	if e.opts.NoCharts {
		return nil
	}
	return e.pushCharts(ctx)
}

func (e *Environment) install(ctx context.Context) error {
	from := e
	if e.opts.Like != nil {
		from = e.opts.Like
		e.Components = from.Components
	} else {
		var err error
		if e.Components, err = WriteReleaseManifests(ctx, e.Binaries, filepath.Join(e.root, e.opts.Config), e.root,
			e.dir("repository")); err != nil {
			return err
		}
	}
	_, err := e.Management.InstallHelmOp(ctx, testbed.InstallOptions{
		Repository: from.dir("repository"), Version: Version, Variables: e.opts.Variables,
	})
	if err != nil {
		return err
	}
	return e.waitServed(ctx)
}

// waitServed returns when the API server lists the kinds of HelmOp. A manager that starts before ends with an error. An
// API server that begins with a copy of installed objects needs seconds for that on a busy machine.
func (e *Environment) waitServed(ctx context.Context) error {
	discoverer, err := discovery.NewDiscoveryClientForConfig(e.Management.Server.RESTConfig())
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, servedPoll, servedTimeout, true, func(context.Context) (bool, error) {
		var list *metav1.APIResourceList
		list, last = discoverer.ServerResourcesForGroupVersion(addonsv1.GroupVersion.String())
		served := map[string]bool{}
		for i := 0; last == nil && i < len(list.APIResources); i++ {
			served[list.APIResources[i].Name] = true
		}
		return served["helmops"] && served["helmopreleases"] && served["helmoprevisions"], nil
	})
	return errors.Join(err, last)
}

// keep remembers what is installed, for copies.
func (e *Environment) keep(ctx context.Context) error {
	var err error
	e.installed, err = e.Management.Server.Objects(ctx)
	return err
}

func (e *Environment) buildManager(ctx context.Context) error {
	var err error
	e.opts.ManagerBinary, err = testbed.BuildManager(ctx, e.root, e.dir("bin"))
	return err
}

func (e *Environment) startManagers(ctx context.Context) error {
	for range e.opts.Managers {
		if _, err := e.StartManager(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Managers returns all managers that were started, the oldest first; some may have ended since.
func (e *Environment) Managers() []*Manager {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.managers)
}

// Stop ends everything; files stay. Stopping twice is no error.
func (e *Environment) Stop(ctx context.Context) error {
	var errs []error
	for _, manager := range e.Managers() {
		// Nothing that a manager does can matter any more.
		errs = append(errs, manager.Kill())
	}
	if e.Registry != nil && e.opts.Beside == nil {
		errs = append(errs, e.Registry.Stop(ctx))
	}
	if e.Management != nil {
		errs = append(errs, e.Management.Stop(ctx))
	}
	return errors.Join(errs...)
}

// dir returns a folder in the work folder.
func (e *Environment) dir(name string) string { return filepath.Join(e.opts.Dir, name) }
