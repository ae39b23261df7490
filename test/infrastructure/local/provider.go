// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// defaultConcurrency is the number of control planes that may start at the same time. A start mostly waits for
// processes, but needs a core for a second.
const defaultConcurrency = 8

//go:embed config/crd/*.yaml
var crdFiles embed.FS

// CRDs returns the CustomResourceDefinitions of the provider's kinds.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(crdFiles, "config/crd/*.yaml")
	if err != nil {
		return nil, err
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		data, err := crdFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crds[i] = &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crds[i]); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
	}
	return crds, nil
}

// AddToScheme registers the provider's kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(infrav1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme))
}

// Options configure a Provider.
type Options struct {
	// Dir is the work folder: the provider's log and a folder for each Cluster. Required.
	Dir string
	// Binaries are the programs to run. Required.
	Binaries *binaries.Set
	// Versions are programs of other versions of Kubernetes, by version, such as "v1.35.4". Only their kube-apiserver is
	// used. Default: none.
	Versions map[string]*binaries.Set
	// Concurrency is the number of control planes that may start at once. Default: 8.
	Concurrency int
	// Pool has the API servers of control planes that run no controllers and no other version. Default: each Cluster's API
	// server is started and stopped.
	Pool *apiserver.Pool
	// Beside is the provider of another management cluster. Both providers share their control planes, so that Clusters
	// can be moved between them. Default: none.
	Beside *Provider
}

// Provider runs the controllers and the control planes that they start.
type Provider struct {
	opts   Options
	mgr    ctrl.Manager
	client client.Client
	log    *os.File

	cancel context.CancelFunc
	done   chan struct{}
	// runErr is the manager's error, written before done is closed.
	runErr error

	servers *servers
}

// servers are the running control planes by Cluster.
type servers struct {
	mu        sync.Mutex
	byCluster map[types.NamespacedName]*apiserver.Server
	// hosts maps each Cluster that uses another Cluster's API server to the other Cluster.
	hosts map[types.NamespacedName]types.NamespacedName
}

// New returns a Provider for the management cluster at config.
func New(cfg *rest.Config, opts Options) (*Provider, error) {
	if opts.Concurrency <= 0 {
		opts.Concurrency = defaultConcurrency
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		AddToScheme(scheme)); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(opts.Dir, "provider.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "local-provider"
	unique := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  scheme,
		Logger:  fileLogger(log),
		Metrics: metricsserver.Options{BindAddress: "0"},
		// One process may run several management clusters, and so several providers.
		Controller: config.Controller{SkipNameValidation: &unique, MaxConcurrentReconciles: opts.Concurrency},
	})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &Provider{
		opts: opts, mgr: mgr, client: mgr.GetClient(), log: log,
		servers: &servers{
			byCluster: map[types.NamespacedName]*apiserver.Server{}, hosts: map[types.NamespacedName]types.NamespacedName{},
		},
	}
	if opts.Beside != nil {
		p.servers = opts.Beside.servers
	}
	if err := errors.Join(setupCluster(mgr), setupControlPlane(mgr, p)); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return p, nil
}

func fileLogger(file *os.File) logr.Logger {
	return funcr.New(func(prefix, args string) {
		// A failure to write the log must not stop the provider.
		_, _ = fmt.Fprintln(file, prefix, args)
	}, funcr.Options{LogTimestamp: true})
}

// Start runs the controllers in the background until Stop, and returns when their caches are synced.
func (p *Provider) Start(ctx context.Context) error {
	// The controllers keep running after the context of the start ends.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		p.runErr = p.mgr.Start(running)
		close(p.done)
	}()
	select {
	case <-p.mgr.Elected():
	case <-p.done:
		return fmt.Errorf("start the local provider: %w", p.runErr)
	case <-ctx.Done():
		return ctx.Err()
	}
	if !p.mgr.GetCache().WaitForCacheSync(ctx) {
		return errors.New("start the local provider: the caches do not sync")
	}
	return nil
}

// Stop stops the controllers and all control planes, including those of Options.Beside. A second call returns no error.
func (p *Provider) Stop(ctx context.Context) error {
	var err error
	if p.cancel != nil {
		p.cancel()
		<-p.done
		err = p.runErr
	}
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	for _, s := range p.servers.byCluster {
		err = errors.Join(err, p.endServer(ctx, s))
	}
	clear(p.servers.byCluster)
	if closeErr := p.log.Close(); !errors.Is(closeErr, os.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	return err
}

// Server returns the control plane that a Cluster uses, its own or its host's. It returns nil if none runs.
func (p *Provider) Server(cluster types.NamespacedName) *apiserver.Server {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	if host, ok := p.servers.hosts[cluster]; ok {
		cluster = host
	}
	return p.servers.byCluster[cluster]
}

// PIDs returns the process ids of all control planes.
func (p *Provider) PIDs() []int {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	var pids []int
	for _, s := range p.servers.byCluster {
		pids = append(pids, s.PIDs()...)
	}
	return pids
}

// ensureServer returns the Cluster's control plane, and starts it if it does not run. The controller's queue prevents
// two concurrent calls for one Cluster.
func (p *Provider) ensureServer(ctx context.Context, cluster types.NamespacedName,
	spec controlplanev1.LocalControlPlaneSpec,
) (*apiserver.Server, error) {
	if s := p.Server(cluster); s != nil {
		return s, nil
	}
	s, err := p.startServer(ctx, cluster, spec)
	if err != nil {
		return nil, err
	}
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	p.servers.byCluster[cluster] = s
	return s, nil
}

func (p *Provider) startServer(ctx context.Context, cluster types.NamespacedName,
	spec controlplanev1.LocalControlPlaneSpec,
) (*apiserver.Server, error) {
	opts := apiserver.Options{
		Name:        cluster.Name,
		Dir:         p.dir(cluster),
		Binaries:    p.opts.Binaries,
		Controllers: spec.Controllers,
		KwokNodes:   int(spec.KwokNodes),
	}
	other := p.opts.Versions[spec.Version]
	if p.opts.Pool != nil && !opts.Controllers && opts.KwokNodes == 0 && other == nil {
		return p.opts.Pool.Get(ctx, opts, cluster.String())
	}
	if other != nil {
		opts.Binaries = other
	}
	return apiserver.Start(ctx, opts)
}

// useHost records that a Cluster uses the control plane of another Cluster.
func (p *Provider) useHost(cluster, host types.NamespacedName) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	p.servers.hosts[cluster] = host
}

// leaveHost deletes the record of useHost.
func (p *Provider) leaveHost(cluster types.NamespacedName) {
	p.servers.mu.Lock()
	defer p.servers.mu.Unlock()
	delete(p.servers.hosts, cluster)
}

func (p *Provider) dir(cluster types.NamespacedName) string {
	return filepath.Join(p.opts.Dir, cluster.Namespace, cluster.Name)
}

// stopServer stops the Cluster's control plane, or returns it to the pool. Logs stay until the same name is used again.
// The new control plane must not find the old audit log.
func (p *Provider) stopServer(ctx context.Context, cluster types.NamespacedName) error {
	s := p.Server(cluster)
	if s == nil {
		return nil
	}
	if err := p.endServer(ctx, s); err != nil {
		return err
	}
	p.servers.mu.Lock()
	delete(p.servers.byCluster, cluster)
	p.servers.mu.Unlock()
	if p.opts.Pool != nil && p.opts.Pool.Owns(s) {
		return nil
	}
	// The folder may belong to the provider in Options.Beside.
	old := s.Dir() + ".deleted"
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return os.Rename(s.Dir(), old)
}

func (p *Provider) endServer(ctx context.Context, s *apiserver.Server) error {
	if p.opts.Pool != nil {
		return p.opts.Pool.Put(ctx, s)
	}
	return s.Stop(ctx)
}
