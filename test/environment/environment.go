// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment starts the environment of HelmOp, for the demo and for tests: a management cluster with Cluster
// API, a registry with charts, and HelmOp. HelmOp is installed as by its users: by clusterctl, running as its own
// ServiceAccount with exactly the permissions of a release.
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

// Options configure an Environment.
type Options struct {
	// Dir is the work folder. Required. The caller removes the folder after Stop.
	Dir string

	// Progress is called before each step. Default: no calls.
	Progress func(step string)

	// ManagerBinary is the path of the manager to run. Default: Start builds the manager.
	ManagerBinary string

	// Managers is the number of managers to start. Default: 1.
	Managers int

	// NoManager starts no manager. StartManager can start managers later.
	NoManager bool

	// NoInstall does not install HelmOp. It requires NoManager.
	NoInstall bool

	// Controllers are additional controllers of Kubernetes to run, see testbed.ManagementOptions.
	Controllers []string

	// APIServerArgs are additional flags of the management cluster's API server, see testbed.ManagementOptions.
	APIServerArgs []string

	// GCPercent is GOGC of the management cluster's API server and etcd, see testbed.ManagementOptions.
	GCPercent int

	// ManagerArgs are added to the arguments that the Deployment gives to the manager. If a flag occurs twice, the last
	// one counts.
	ManagerArgs []string

	// SyncPeriod is the sync period of the managers. Default: the sync period in the Deployment.
	SyncPeriod time.Duration

	// Config is the folder of the repository from which the components are built. Default: config/default.
	Config string

	// Variables are the variables of the components, for clusterctl. Default: none, so that each variable has its default.
	Variables map[string]string

	// NoCharts pushes none of the test charts.
	NoCharts bool

	// Pool contains the API servers of workload clusters, see testbed.ManagementOptions.
	Pool *apiserver.Pool

	// Keep keeps a copy of the installed objects, for environments that have this one as Like.
	Keep bool

	// Like is an environment with Keep and the same Config and Variables. Start copies its installed objects into etcd,
	// which takes less than half of the CPU time. Default: clusterctl installs HelmOp.
	Like *Environment

	// Beside is another environment. This environment uses its registry. Clusters can be moved between the two. Default:
	// none.
	Beside *Environment

	// Bare starts neither Cluster API's controllers nor the local provider, see testbed.ManagementOptions.
	Bare bool

	// Programs are the programs of the test bed to prepare. Default: all.
	Programs []string

	// Output receives the output of the build of the test bed's programs. Default: os.Stderr.
	Output io.Writer
}

const (
	// servedTimeout is how long an API server may take until it lists the kinds of HelmOp. servedPoll is the time between
	// two requests for the list.
	servedTimeout = 3 * time.Minute
	servedPoll    = 100 * time.Millisecond
)

// Environment holds everything that runs.
type Environment struct {
	// Management is the management cluster.
	Management *testbed.Management
	// Registry holds the test charts.
	Registry *registry.Registry
	// Client has the administrator's rights in the management cluster. Its scheme has the types of HelmOp and of Cluster
	// API.
	Client client.Client
	// Binaries are the programs of the test bed.
	Binaries *binaries.Set
	// Components is the file from which clusterctl installed HelmOp.
	Components string

	opts Options
	root string
	// installed are the objects of the management cluster after the installation of HelmOp, before a manager has run.
	installed apiserver.Objects

	mu       sync.Mutex
	managers []*Manager
}

// Start starts an Environment. On an error, nothing keeps running.
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
		// The context may be the cause of the failure; everything must be stopped in any case.
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
		name string
		do   func(context.Context) error
		skip bool
	}{
		{name: "preparing the programs of the test bed", do: e.ensureBinaries},
		{name: "starting the management cluster: " + management, do: e.startManagement},
		{name: "starting the registry, with TLS and credentials, and pushing charts", do: e.startRegistry},
		{name: "installing HelmOp by clusterctl init --addon helmop", do: e.install, skip: e.opts.NoInstall},
		{name: "keeping the installed objects, for copies", do: e.keep, skip: !e.opts.Keep},
		{name: "building the manager", do: e.buildManager, skip: e.opts.ManagerBinary != ""},
		{name: "starting the manager as its own ServiceAccount", do: e.startManagers, skip: e.opts.NoManager},
	} {
		if step.skip {
			continue
		}
		e.opts.Progress(step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
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
		Controllers: e.opts.Controllers, Pool: e.opts.Pool, APIServerArgs: e.opts.APIServerArgs,
		GCPercent: e.opts.GCPercent}
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
		if e.Components, err = WriteReleaseManifests(ctx, e.Binaries, e.root, e.opts.Config, e.dir("repository"),
			Version); err != nil {
			return err
		}
	}
	return e.InstallFrom(ctx, from.dir("repository"), Version)
}

// InstallFrom runs clusterctl init for a version in a folder that WriteReleaseManifests wrote. Start does this for the
// version of this checkout; with NoInstall, a test can install others.
func (e *Environment) InstallFrom(ctx context.Context, repository, version string) error {
	_, err := e.Management.InstallHelmOp(ctx, testbed.InstallOptions{
		Repository: repository, Version: version, Variables: e.opts.Variables,
	})
	if err != nil {
		return err
	}
	return e.waitServed(ctx)
}

// UseManager sets the program that StartManager starts.
func (e *Environment) UseManager(binary string) { e.opts.ManagerBinary = binary }

// Root is the folder of this checkout.
func (e *Environment) Root() string { return e.root }

// waitServed waits until the API server lists the kinds of HelmOp. A manager that starts before exits with an error. An
// API server that starts with a copy of installed objects needs seconds to serve the kinds on a busy machine.
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

// keep stores the installed objects, for copies.
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

// Managers returns all managers that were started, the oldest first. Some of them may have ended.
func (e *Environment) Managers() []*Manager {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.managers)
}

// Stop stops everything. Files stay. A second call returns no error.
func (e *Environment) Stop(ctx context.Context) error {
	var errs []error
	for _, manager := range e.Managers() {
		// From here on, the actions of managers no longer matter.
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
