// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager reads the flags of the manager, creates the parts of HelmOp and starts them: caches, clients,
// controllers, metrics and the page. It makes no decisions about releases. The command calls [Options.AddFlags],
// [Options.Validate] and [Run].
package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/compact"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/cloud"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	payloadregistry "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordstorage"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/runtimeextension"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sources"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// Run runs the manager until ctx ends or it fails.
func Run(ctx context.Context, options *Options) error {
	klog.Background().Info("Starting", "version", version.String())
	goruntime.SetMutexProfileFraction(options.mutexProfileFraction)
	// Collections are rare until memoryReturner runs: it starts after the caches have the objects of the whole fleet.
	debug.SetGCPercent(max(100, options.gcPercent))
	limit, err := memoryLimit(options.memoryLimit, os.Getenv("MEMORY_LIMIT"))
	if err != nil {
		return err
	}
	goLimit := os.Getenv("GOMEMLIMIT")
	memory := planMemory(limit, options.rendering.memory.Value(), goMemoryLimit(goLimit))
	memory.apply(goLimit)
	memory.warn(klog.Background(), limit)
	mgr, lease, err := newManager(options)
	if err != nil {
		return err
	}
	if err := setupHealth(mgr); err != nil {
		return fmt.Errorf("setting up the health checks: %w", err)
	}
	if err := setupControllers(ctx, mgr, options, memory); err != nil {
		return err
	}
	if err := setupExtension(ctx, mgr, options); err != nil {
		return fmt.Errorf("setting up the Runtime Extension: %w", err)
	}
	if err := setupShards(mgr, options); err != nil {
		return fmt.Errorf("setting up the shards: %w", err)
	}
	if err := setupPage(mgr, options); err != nil {
		return fmt.Errorf("setting up the page: %w", err)
	}
	if err := setupMemory(mgr, options.gcPercent); err != nil {
		return fmt.Errorf("setting up the return of memory: %w", err)
	}
	return start(ctx, mgr, lease)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, addonsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newManager returns the manager, and its lease; the lease is nil without leader election.
func newManager(options *Options) (ctrl.Manager, *leaderLease, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, nil, err
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig of the management cluster: %w", err)
	}
	restConfig.QPS, restConfig.Burst = options.kubeAPIQPS, options.kubeAPIBurst
	restConfig.UserAgent = "helmop-manager/" + version.Version
	if err := monitoring.ObserveManagementCluster(restConfig); err != nil {
		return nil, nil, err
	}
	_, metricsOptions, err := flags.GetManagerOptions(options.diagnostics)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the diagnostics flags: %w", err)
	}
	restored := &restoreCheck{namespace: options.namespace}
	cached := cacheOptions(options)
	cached.NewInformer = restored.newInformer
	lease, lock, err := newLeaderLease(restConfig, options)
	if err != nil {
		return nil, nil, fmt.Errorf("setting up leader election: %w", err)
	}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:           scheme,
		LeaderElection:   options.leaderElect,
		LeaderElectionID: apiutil.ShardLease(options.shard),
		LeaseDuration:    &options.leaderElectLeaseDuration,
		RenewDeadline:    &options.leaderElectRenewDeadline,
		RetryPeriod:      &options.leaderElectRetryPeriod,

		LeaderElectionResourceLockInterface: lease,
		// The manager releases the lease on exit, because no work is running then. The next leader can start at once.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &options.gracefulShutdownTimeout,
		HealthProbeBindAddress:        options.healthAddr,
		Metrics:                       *metricsOptions,
		MapperProvider:                newSteadyMapper,
		Cache:                         cached,
		Client: client.Options{Cache: &client.CacheOptions{
			Unstructured: true,
			// The cache holds the metadata of all Secrets and ConfigMaps. HelmOp reads the content only of objects that HelmOps
			// refer to.
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
	})
	if err != nil {
		return nil, nil, err
	}
	// client-go still uses the old API of Events for leases.
	lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(lock.Identity()) //nolint:staticcheck // see above
	restored.live, restored.elected = mgr.GetAPIReader(), mgr.Elected()
	return mgr, lease, mgr.Add(restored)
}

func cacheOptions(options *Options) cache.Options {
	result := cache.Options{
		SyncPeriod:       &options.syncPeriod,
		DefaultTransform: slim(cache.TransformStripManagedFields()),
		ByObject:         map[client.Object]cache.ByObject{},
	}
	for _, kind := range []string{apiutil.KindSecret, apiutil.KindConfigMap} {
		result.ByObject[apiutil.PartialOf(kind)] = cache.ByObject{Transform: slim(onlyVersion)}
	}
	for _, obj := range []client.Object{
		&addonsv1.HelmOp{}, &addonsv1.HelmOpRelease{}, &addonsv1.HelmOpRevision{}, &clusterv1.Cluster{},
	} {
		result.ByObject[obj] = cache.ByObject{Label: apiutil.ShardSelector(options.shard)}
	}
	if options.namespace != "" {
		result.DefaultNamespaces = map[string]cache.Config{options.namespace: {}}
	}
	return result
}

// onlyVersion removes everything from the metadata of a Secret or ConfigMap except its version, and whether clusterctl
// move moves it. After kubectl apply, an annotation has the content of the object. Users choose the size of labels,
// owners and finalizers, too.
func onlyVersion(obj any) (any, error) {
	object, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	kept := &metav1.PartialObjectMetadata{TypeMeta: object.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
	}}
	if inventory.MovesWithClusters(object) {
		// One reason is enough for the readers of the cache.
		kept.Labels = map[string]string{clusterctlv1.ClusterctlMoveLabel: ""}
	}
	return kept, nil
}

// slim returns a transform that does the same as another one, and makes objects smaller without changing them.
func slim(transform toolscache.TransformFunc) toolscache.TransformFunc {
	pool := compact.New()
	return func(obj any) (any, error) {
		obj, err := transform(obj)
		if err == nil {
			pool.Compact(obj)
		}
		return obj, err
	}
}

func setupHealth(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	// Later, the cache gets kinds of other providers. If one of these kinds cannot be read, the manager must stay ready.
	var synced atomic.Bool
	return mgr.AddReadyzCheck("informers", func(req *http.Request) error {
		if synced.Load() {
			return nil
		}
		if !mgr.GetCache().WaitForCacheSync(req.Context()) {
			return fmt.Errorf("the caches of the management cluster are not synced yet")
		}
		synced.Store(true)
		return nil
	})
}

func setupControllers(ctx context.Context, mgr ctrl.Manager, options *Options, memory memoryPlan) error {
	budget := bytebudget.New(memory.underWay)
	engine := memory.engine(budget)
	if err := observeBudgets(budget, engine.Actions); err != nil {
		return fmt.Errorf("setting up the metrics of memory: %w", err)
	}
	sources, verifier, err := setupSources(options, memory, budget, mgr.GetLogger())
	if err != nil {
		return err
	}
	renderers := options.rendering.pool(memory.renderers, budget)
	charts := bundle.NewBoundedLoader(bundle.Limits{CacheBytes: memory.charts}, renderers, budget)
	kubeconfigs, clusters, err := setupClusters(ctx, mgr, options)
	if err != nil {
		return fmt.Errorf("setting up the connections to the workload clusters: %w", err)
	}
	watcher := objectwatch.New(objectwatch.Options{Log: mgr.GetLogger().WithName("objects"), Bytes: budget})
	if err := mgr.Add(watcher); err != nil {
		return fmt.Errorf("setting up the watches of objects: %w", err)
	}
	// The passes over paused releases end before they would begin watches with the new kubeconfig.
	clusters.OnReplace(func(cluster client.ObjectKey) { watcher.Disconnect(cluster.String()) })
	helm := helmclient.NewBounded(renderers, engine)
	helm.OnRestore(func(cluster string) {
		mgr.GetLogger().Info("The cluster was restored from a backup: reading its objects again", "cluster", cluster)
		watcher.Reconnect(cluster)
	})
	tracer, err := setupTracing(ctx, mgr, options)
	if err != nil {
		return err
	}
	return controllers.SetupWithManager(ctx, mgr, controllers.Options{
		Registry:         sources,
		Images:           sources.Registries(),
		Verifier:         verifier,
		Charts:           charts,
		Engine:           helm,
		Records:          recordStorage(&options.records, sources.Registries()),
		Watcher:          watcher,
		Clusters:         clusters,
		Kubeconfigs:      kubeconfigs,
		WatchFilterValue: options.watchFilter,
		Namespace:        options.namespace,
		Shard:            options.shard,

		ManagementClusterNamespaces: options.managementCluster,
		RuntimeExtension:            options.extensionPort != 0,

		HelmOpConcurrency:  options.helmOpConcurrency,
		ReleaseConcurrency: options.releaseConcurrency,
		ClusterConcurrency: options.clusterConcurrency,
		ResyncPeriod:       options.syncPeriod,
		MinSourceInterval:  options.registry.minInterval,
		ValuesCacheBytes:   memory.values,
		OutcomesCacheBytes: memory.outcomes,
		Tracer:             tracer,
	})
}

// setupExtension serves the Runtime Extension, if it is enabled.
func setupExtension(ctx context.Context, mgr ctrl.Manager, options *Options) error {
	if options.extensionPort == 0 {
		return nil
	}
	return runtimeextension.SetupWithManager(ctx, mgr, runtimeextension.Options{
		Port: options.extensionPort, CertDir: options.extensionCertDir, Namespace: options.namespace,
		ClientCA: options.extensionCA, WatchFilter: options.watchFilter, Shard: options.shard,
	})
}

// setupTracing returns the exporter of traces; nil if traces are not exported.
func setupTracing(ctx context.Context, mgr ctrl.Manager, options *Options) (*tracing.Tracer, error) {
	tracingOptions := options.tracing
	tracingOptions.Version, tracingOptions.Log = version.Version, mgr.GetLogger().WithName("tracing")
	tracer, err := tracing.New(ctx, tracingOptions)
	if err != nil || tracer == nil {
		return nil, err
	}
	return tracer, mgr.Add(tracer)
}

// setupSources opens the artifact store. It creates the client for registries and chart repositories, and the verifier
// of signatures.
func setupSources(
	options *Options,
	memory memoryPlan,
	budget *bytebudget.Budget,
	log logr.Logger,
) (*sources.Client, *verification.Verifier, error) {
	flags := &options.registry
	registry, err := oci.New(oci.Options{
		Dir:               filepath.Join(options.artifactDir, "artifacts"),
		MaxBytes:          options.artifactMaxBytes,
		Timeout:           flags.timeout,
		UserAgent:         "helmop/" + version.Version,
		Observer:          monitoring.RegistryObserver(log.WithName("registries")),
		CredentialsFile:   flags.credentialsFile,
		CAFile:            flags.caFile,
		RegistriesFile:    flags.registriesFile,
		TokenHosts:        flags.tokenHosts,
		RequestsPerSecond: flags.requestsPerSecond,
		MaxRequests:       flags.maxRequests,
		CloudLogin:        cloud.New(cloud.Options{}),
		Bytes:             budget,
		RefuseLocal:       !options.allowLocal,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("setting up the registry client and the artifact store: %w", err)
	}
	client := sources.NewBounded(registry, memory.indexes, memory.reading)
	verifier, err := verification.New(verification.Options{
		Registry:   registry,
		Provenance: client,
		Dir:        filepath.Join(options.artifactDir, "sigstore"),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("setting up the verification of signatures: %w", err)
	}
	return client, verifier, nil
}

// recordStorage configures where records are stored outside of the workload clusters.
func recordStorage(options *recordOptions, registry *oci.Client) recordstorage.Options {
	return recordstorage.Options{
		Registries: payloadregistry.New(registry),
		URL:        options.url,
		FormerURLs: options.formerURLs,
		Access: func(context.Context) (oci.Access, error) {
			access := oci.Access{Insecure: options.insecure, Trusted: true}
			config, err := os.ReadFile(options.credentialsFile)
			if errors.Is(err, fs.ErrNotExist) || options.credentialsFile == "" {
				return access, nil
			}
			access.DockerConfigs = [][]byte{config}
			return access, err
		},
	}
}

// setupClusters creates the links to the Clusters, and the cache of their kubeconfigs. Only Secrets that belong to
// Clusters are cached with their content.
func setupClusters(ctx context.Context, mgr ctrl.Manager, options *Options) (client.Reader, *clusterlink.Links, error) {
	ofCluster, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		return nil, nil, err
	}
	secretOptions := cacheOptions(options)
	secretOptions.Scheme, secretOptions.Mapper = mgr.GetScheme(), mgr.GetRESTMapper()
	secretOptions.ByObject = map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Label: labels.NewSelector().Add(*ofCluster), Transform: slim(clusterlink.SlimSecret)},
	}
	secrets, err := cache.New(mgr.GetConfig(), secretOptions)
	if err != nil {
		return nil, nil, err
	}
	if err := mgr.Add(secrets); err != nil {
		return nil, nil, err
	}
	kubeconfigs := clusterview.SafeKubeconfigs(secrets)
	linkOptions := clusterlink.Options{
		Clusters: mgr.GetCache(), Kubeconfigs: kubeconfigs, UserAgent: "helmop-manager/" + version.Version,
		RefuseLocal: !options.allowLocal,
	}
	if len(options.managementCluster) > 0 {
		if linkOptions.Management, err = withoutFiles(mgr.GetConfig()); err != nil {
			return nil, nil, fmt.Errorf("connecting to the management cluster: %w", err)
		}
	}
	links := clusterlink.New(linkOptions)
	informer, err := secrets.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, err
	}
	if _, err := informer.AddEventHandler(links.KubeconfigHandler()); err != nil {
		return nil, nil, err
	}
	return kubeconfigs, links, links.SetupWithManager(mgr)
}
