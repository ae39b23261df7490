// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// crdTimeout is how long an API server may take until it serves new CustomResourceDefinitions.
const crdTimeout = 3 * time.Minute

// managementControllers are the controllers that Cluster API and clusterctl need. They collect garbage by owner
// references, delete namespaces, create ServiceAccounts, and aggregate ClusterRoles.
var managementControllers = []string{"garbage-collector-controller", "namespace-controller",
	"serviceaccount-controller", "clusterrole-aggregation-controller"}

// ManagementOptions describe a Management.
type ManagementOptions struct {
	// Dir is the work folder for the logs, keys and data of all processes. Required. The caller removes the folder after
	// Stop.
	Dir string
	// Binaries are the programs to run. Required.
	Binaries *binaries.Set
	// Versions holds the programs of other versions of Kubernetes for workload clusters, by version, see local.Options.
	// Default: none.
	Versions map[string]*binaries.Set
	// Pool contains the API servers of workload clusters, see local.Options. Default: each cluster has its own.
	Pool *apiserver.Pool
	// Concurrency is the number of workload clusters that may start at once. Default: 8.
	Concurrency int
	// Controllers are additional controllers to run, for example "deployment-controller", see
	// apiserver.Options.OnlyControllers. Default: none.
	Controllers []string
	// Objects exist from the start and include Cluster API's kinds and HelmOp. They are taken from the API server of
	// another Management, after InstallHelmOp. Default: none.
	Objects apiserver.Objects
	// APIServerArgs are further flags of kube-apiserver. Default: none.
	APIServerArgs []string
	// GCPercent is GOGC of the API server and of etcd, see apiserver.Options.
	GCPercent int
	// Beside is another management cluster. Clusters can be moved from it to this one and back. Default: none.
	Beside *Management
	// Bare runs neither Cluster API's core manager nor the local provider. The caller then writes the status of Clusters,
	// and no other program affects the measurements. Default: both run.
	Bare bool
}

// Management is a management cluster: an API server, Cluster API's core manager and the local provider.
type Management struct {
	// Server is the management cluster's API server.
	Server *apiserver.Server
	// Provider runs the workload clusters. Nil with Bare.
	Provider *local.Provider
	// Client has the cluster administrator's rights. Its scheme has Kubernetes' own kinds, CustomResourceDefinitions,
	// Cluster API's kinds and the local provider's kinds.
	Client client.Client

	opts       ManagementOptions
	watcher    client.WithWatch
	kubeconfig string
	core       *process.Process
}

// StartManagement starts a management cluster and returns when Clusters can be created. On an error, nothing keeps
// running.
func StartManagement(ctx context.Context, opts ManagementOptions) (*Management, error) {
	m := &Management{opts: opts}
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the management cluster: %w", err), m.Stop(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *Management) start(ctx context.Context) error {
	var err error
	m.Server, err = apiserver.Start(ctx, apiserver.Options{
		Name: "management", Dir: m.file("management"), Binaries: m.opts.Binaries,
		Controllers: true, OnlyControllers: slices.Concat(managementControllers, m.opts.Controllers),
		Objects: m.opts.Objects, Args: m.opts.APIServerArgs, GCPercent: m.opts.GCPercent,
	})
	if err != nil {
		return err
	}
	if err := m.writeKubeconfig(); err != nil {
		return err
	}
	m.watcher, err = client.NewWithWatch(m.Server.RESTConfig(), client.Options{Scheme: NewScheme()})
	if err != nil {
		return err
	}
	m.Client = m.watcher
	if m.opts.Objects == nil {
		if err := m.installCRDs(); err != nil {
			return err
		}
	}
	if m.opts.Bare {
		return nil
	}
	if err := m.startCore(ctx); err != nil {
		return err
	}
	opts := local.Options{
		Dir: m.file("workload"), Binaries: m.opts.Binaries, Versions: m.opts.Versions, Concurrency: m.opts.Concurrency,
		Pool: m.opts.Pool,
	}
	if m.opts.Beside != nil {
		opts.Beside = m.opts.Beside.Provider
	}
	m.Provider, err = local.New(m.Server.RESTConfig(), opts)
	if err != nil {
		return err
	}
	return m.Provider.Start(ctx)
}

// NewScheme returns a scheme with Kubernetes' own kinds, CustomResourceDefinitions, Cluster API's kinds and the local
// provider's kinds.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, runtimev1.AddToScheme,
		local.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			// Two types with the same kind are a mistake in this package, independent of the input.
			panic(err)
		}
	}
	return scheme
}

func (m *Management) file(name string) string { return filepath.Join(m.opts.Dir, name) }

func (m *Management) writeKubeconfig() error {
	data, err := m.Server.Kubeconfig()
	if err != nil {
		return err
	}
	m.kubeconfig = m.file("management.kubeconfig")
	return os.WriteFile(m.kubeconfig, data, 0o600)
}

// KubeconfigFile returns the path of the cluster administrator's kubeconfig.
func (m *Management) KubeconfigFile() string { return m.kubeconfig }

// installCRDs installs the CRDs of Cluster API and the local provider, and reduced CRDs of cert-manager.
func (m *Management) installCRDs() error {
	core, err := m.coreCRDs()
	if err != nil {
		return err
	}
	provider, err := local.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range provider {
		// clusterctl sets this label on CRDs that it installs. "clusterctl move" moves no objects of other CRDs.
		crd.Labels["clusterctl.cluster.x-k8s.io"] = ""
		crd.Labels[clusterv1.ProviderNameLabel] = "infrastructure-local"
	}
	crds := slices.Concat(core, provider, certManagerCRDs(), workerCRDs())
	_, err = envtest.InstallCRDs(m.Server.RESTConfig(), envtest.CRDInstallOptions{
		CRDs: crds, MaxTime: crdTimeout, PollInterval: 50 * time.Millisecond,
	})
	return err
}

// coreCRDs reads Cluster API's CustomResourceDefinitions and adds the label that its release manifests have.
func (m *Management) coreCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(m.opts.Binaries.CoreCRDs, "*.yaml"))
	if err != nil {
		return nil, err
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crds[i] = &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crds[i]); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		if crds[i].Labels == nil {
			crds[i].Labels = map[string]string{}
		}
		crds[i].Labels[clusterv1.ProviderNameLabel] = coreProvider
		crds[i].Labels[clusterv1.GroupVersion.String()] = clusterv1.GroupVersion.Version
	}
	return crds, nil
}

// Stop stops the workload clusters, the core manager and the API server. A second call returns no error.
func (m *Management) Stop(ctx context.Context) error {
	var err error
	if m.Provider != nil {
		err = m.Provider.Stop(ctx)
	}
	if m.core != nil {
		err = errors.Join(err, m.core.Unexpected(), m.core.Kill())
	}
	if m.Server != nil {
		err = errors.Join(err, m.Server.Stop(ctx))
	}
	return err
}

// PIDs returns the process ids of all running processes.
func (m *Management) PIDs() []int {
	var pids []int
	if m.Server != nil {
		pids = append(pids, m.Server.PIDs()...)
	}
	if m.core != nil && m.core.Running() {
		pids = append(pids, m.core.PID())
	}
	if m.Provider != nil {
		pids = append(pids, m.Provider.PIDs()...)
	}
	return pids
}
