// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/cluster"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmop"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmoprelease"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordstorage"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=helmops,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=helmops/status,verbs=patch
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=helmops/finalizers,verbs=update
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=helmopreleases;helmoprevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=addons.cluster.x-k8s.io,resources=helmopreleases/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusterclasses,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io;controlplane.cluster.x-k8s.io,resources=*,verbs=list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets;configmaps;serviceaccounts;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews;selfsubjectaccessreviews,verbs=create

// minIdleOfKinds is the shortest time for which the informer of a kind is kept after the last read of the kind. It is
// for kinds to which Clusters no longer refer.
const minIdleOfKinds = 15 * time.Minute

// Options are the dependencies and settings of the controllers.
type Options struct {
	// Registry resolves and pulls artifacts.
	Registry Registry

	// Images looks up the images of releases.
	Images preflight.Registry

	// Verifier checks signatures.
	Verifier verify.Verifier

	// Charts loads charts from pulled artifacts.
	Charts artifacts.ChartLoader

	// Engine brings releases to their desired state.
	Engine helmoprelease.Engine

	// Records configures the storage of the records of releases outside of their clusters. Default: no such storage.
	Records recordstorage.Options

	// Watcher watches the objects of releases in the workload clusters.
	Watcher helmoprelease.Watcher

	// Clusters connects to the workload clusters.
	Clusters clusterview.Clusters

	// Kubeconfigs reads the Secrets with the kubeconfigs of Clusters. It refuses unsafe kubeconfigs: see SafeKubeconfigs.
	Kubeconfigs client.Reader

	// WatchFilterValue restricts the controllers to objects whose label cluster.x-k8s.io/watch-filter has this value.
	// Empty means no restriction.
	WatchFilterValue string

	// Namespace is the namespace that the manager serves. Empty means all namespaces.
	Namespace string

	// ManagementClusterNamespaces are the namespaces whose HelmOps may install in the management cluster itself. Default:
	// none.
	ManagementClusterNamespaces []string

	// Shard is the shard that the manager serves, see addonsv1.ShardLabel. The caches of the manager hold only objects of
	// this shard: its HelmOps with their releases and revisions, and its Clusters. Empty means the shard of the objects
	// without the label.
	Shard string

	// RuntimeExtension is true if the manager serves the Runtime Extension, see internal/runtimeextension.
	RuntimeExtension bool

	// HelmOpConcurrency is the number of HelmOps that are reconciled at the same time. Default: 5.
	HelmOpConcurrency int

	// ReleaseConcurrency is the number of releases that are reconciled at the same time. Default: 24.
	ReleaseConcurrency int

	// ClusterConcurrency is the number of Helm actions that run in one Cluster at the same time. Default: 4.
	ClusterConcurrency int

	// MinSourceInterval is the shortest time after which a reference is resolved again. It replaces a shorter
	// spec.source.interval. Default: 0, which means no minimum.
	MinSourceInterval time.Duration

	// ResyncPeriod is the time after which a HelmOp or a release is reconciled without an event. The period differs
	// between objects by up to a tenth, so that the passes spread over time. Default: 0, which means never.
	ResyncPeriod time.Duration

	// ValuesCacheBytes is the size of each of two caches: contents of objects that all Clusters share, and contents of
	// objects of single Clusters. OutcomesCacheBytes is the size of the cache of outcomes of renderings. Default: the
	// sizes of the packages.
	ValuesCacheBytes, OutcomesCacheBytes int64

	// Tracer exports traces. Default: no traces are exported.
	Tracer *tracing.Tracer
}

// Registry resolves references and pulls artifacts.
type Registry interface {
	resolution.Registry
	artifacts.Fetcher
}

// SetupWithManager adds the controllers to a manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := watches.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("registering indexes: %w", err)
	}
	if options.HelmOpConcurrency <= 0 {
		options.HelmOpConcurrency = 5
	}
	if options.ReleaseConcurrency <= 0 {
		options.ReleaseConcurrency = 24
	}
	kinds := newKinds(mgr, options)
	if err := mgr.Add(kinds); err != nil {
		return fmt.Errorf("setting up the reader of the objects that Clusters refer to: %w", err)
	}
	var (
		references = references.NewReader(mgr.GetCache(), mgr.GetAPIReader())
		objects    = clusterview.NewReader(kinds, mgr.GetAPIReader())
		renderer   = render.New(references, objects)
		guard      = selection.NewGuard(mgr.GetClient(), options.ManagementClusterNamespaces...)
		reads      = recordreads.New(options.ReleaseConcurrency, options.Clusters)
		budgets    = report.NewEventBudgets(time.Now)
	)
	if options.ValuesCacheBytes > 0 {
		references.WithCaches(options.ValuesCacheBytes)
	}
	if options.OutcomesCacheBytes > 0 {
		renderer.WithCache(options.OutcomesCacheBytes)
	}
	err := helmop.SetupWithManager(ctx, mgr, helmop.Options{
		Registry: options.Registry, Verifier: options.Verifier, References: references, Renderer: renderer, Guard: guard,
		Kinds: kinds, Clusters: options.Clusters, Concurrency: options.HelmOpConcurrency,
		WatchFilter: options.WatchFilterValue, Shard: options.Shard, ResyncPeriod: options.ResyncPeriod,
		MinInterval: options.MinSourceInterval, Tracer: options.Tracer,
	})
	if err != nil {
		return fmt.Errorf("setting up the HelmOp controller: %w", err)
	}
	err = helmoprelease.SetupWithManager(ctx, mgr, helmoprelease.Options{
		Registry: options.Registry, Verifier: options.Verifier, Charts: options.Charts, Engine: options.Engine,
		Images: options.Images, Watcher: options.Watcher,
		Clusters: options.Clusters, Kubeconfigs: options.Kubeconfigs, References: references, Renderer: renderer,
		Guard: guard,
		Reads: reads, Budgets: budgets, Concurrency: options.ReleaseConcurrency,
		ClusterConcurrency: options.ClusterConcurrency,
		Records:            options.Records, WatchFilter: options.WatchFilterValue, Shard: options.Shard,
		ResyncPeriod: options.ResyncPeriod, Tracer: options.Tracer,
	})
	if err != nil {
		return fmt.Errorf("setting up the HelmOpRelease controller: %w", err)
	}
	err = cluster.SetupWithManager(mgr, cluster.Options{
		Objects: objects, Budgets: budgets, Kinds: kinds, Concurrency: options.HelmOpConcurrency,
		RuntimeExtension: options.RuntimeExtension, WatchFilter: options.WatchFilterValue, Shard: options.Shard,
		Forget:      forgetting(options.Engine, options.Watcher, reads),
		ForgetReads: reads.Forget, Link: options.Clusters.State,
	})
	if err != nil {
		return fmt.Errorf("setting up the controller of Clusters: %w", err)
	}
	return metrics.Registry.Register(monitoring.NewStateCollector(mgr.GetClient()))
}

// newKinds returns the reader for the kinds to which Clusters refer. A kind is idle if no HelmOp has read the kind in
// three resync periods. Without a resync period, no kind is idle.
func newKinds(mgr ctrl.Manager, options Options) *kindcache.Kinds {
	idle := max(minIdleOfKinds, 3*options.ResyncPeriod)
	if options.ResyncPeriod == 0 {
		idle = 0
	}
	return kindcache.New(kindcache.Options{
		Reader: mgr.GetClient(), Informers: mgr.GetCache(), Idle: idle,
		Review: kindcache.Reviewer(mgr.GetClient(), mgr.GetRESTMapper(), options.Namespace),
		Own:    []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")},
	})
}

// forgetting returns a function that drops the state of a Cluster that was deleted, was re-created, or moved to another
// shard.
func forgetting(engine helmoprelease.Engine, watcher helmoprelease.Watcher,
	reads *recordreads.Reads,
) func(cluster client.ObjectKey) {
	return func(cluster client.ObjectKey) {
		engine.Forget(cluster.String())
		watcher.Disconnect(cluster.String())
		reads.Forget(cluster)
	}
}
