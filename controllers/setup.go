// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/cluster"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmop"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmoprelease"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
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
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets;configmaps;serviceaccounts;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews;selfsubjectaccessreviews,verbs=create

// minIdleOfKinds is how long the informer of a kind lasts at least that Clusters referred to, and that is not read any more.
const minIdleOfKinds = 15 * time.Minute

// Options are what the controllers work with.
type Options struct {
	// Registry resolves and pulls artifacts.
	Registry Registry

	// Verifier checks signatures.
	Verifier verify.Verifier

	// Charts makes charts of pulled artifacts.
	Charts helmoprelease.ChartLoader

	// Engine brings releases to what is wanted.
	Engine helmoprelease.Engine

	// Records tells where the records of releases are kept outside of their clusters. Default: nowhere.
	Records helmoprelease.RecordStorage

	// Watcher follows the objects of releases in the workload clusters.
	Watcher helmoprelease.Watcher

	// Clusters are the ways to the workload clusters.
	Clusters clusterview.Clusters

	// Kubeconfigs reads the Secrets with the kubeconfigs of Clusters and refuses those that must not be used, see
	// SafeKubeconfigs.
	Kubeconfigs client.Reader

	// WatchFilterValue restricts the controllers to objects whose label cluster.x-k8s.io/watch-filter has this value.
	// Empty is no restriction.
	WatchFilterValue string

	// Namespace is the one that the manager works on. Empty are all.
	Namespace string

	// ManagementClusterNamespaces are those whose HelmOps may install in the management cluster itself. Default: none.
	ManagementClusterNamespaces []string

	// Shard is what the manager serves, see addonsv1.ShardLabel. The caches of the manager hold nothing else of HelmOps, their releases
	// and revisions, and of Clusters. Empty are the objects without the label.
	Shard string

	// HelmOpConcurrency is the number of HelmOps that are worked on at the same time. Default: 5.
	HelmOpConcurrency int

	// ReleaseConcurrency is the number of releases that are worked on at the same time. Default: 24.
	ReleaseConcurrency int

	// ClusterConcurrency is the number of Helm actions that run in one Cluster at the same time. Default: 4.
	ClusterConcurrency int

	// MinSourceInterval is the shortest time after which a reference is resolved again, in place of a shorter spec.source.interval.
	// Default: 0, which is no minimum.
	MinSourceInterval time.Duration

	// ResyncPeriod is how often a HelmOp and a release are looked at though nothing happened, give or take a tenth: each has a period
	// of its own, so that they spread. Default: 0, which is never.
	ResyncPeriod time.Duration
}

// Registry resolves references and pulls artifacts.
type Registry interface {
	helmop.Resolver
	helmoprelease.Fetcher
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
	references := references.NewReader(mgr.GetCache(), mgr.GetAPIReader())
	kinds := newKinds(mgr, options)
	if err := mgr.Add(kinds); err != nil {
		return fmt.Errorf("setting up the reader of what Clusters refer to: %w", err)
	}
	objects := clusterview.NewReader(kinds)
	common := &sharedParts{
		kinds:      kinds,
		references: references,
		objects:    objects,
		renderer:   render.New(references, objects),
		guard:      selection.NewGuard(mgr.GetClient(), options.ManagementClusterNamespaces...),
		reads:      recordreads.New(options.ReleaseConcurrency),
		budgets:    report.NewEventBudgets(time.Now),
	}
	if err := setupHelmOps(ctx, mgr, options, common); err != nil {
		return fmt.Errorf("setting up the HelmOp controller: %w", err)
	}
	if err := setupReleases(ctx, mgr, options, common); err != nil {
		return fmt.Errorf("setting up the HelmOpRelease controller: %w", err)
	}
	if err := setupClusters(mgr, options, common); err != nil {
		return fmt.Errorf("setting up the controller of Clusters: %w", err)
	}
	return metrics.Registry.Register(monitoring.NewStateCollector(mgr.GetClient()))
}

// sharedParts are what the controllers have in common.
type sharedParts struct {
	kinds      *kindcache.Kinds
	references *references.Reader
	objects    *clusterview.Reader
	renderer   *render.Renderer
	guard      *selection.Guard
	reads      *recordreads.Reads
	budgets    *report.EventBudgets
}

// newKinds reads the kinds that Clusters refer to. A kind counts as idle if no HelmOp that is looked at regularly has read it.
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

// watcher has a controller follow the kinds that it reads, but for objects that are paused.
func (p *sharedParts) watcher(mgr ctrl.Manager, c controller.Controller, log logr.Logger, events handler.EventHandler) *kindcache.Watcher {
	return p.kinds.NewWatcher(func(obj client.Object) error {
		return c.Watch(source.Kind(mgr.GetCache(), obj, events, predicates.ResourceNotPaused(mgr.GetScheme(), log)))
	})
}

// forgetting drops what is kept of a Cluster that is gone, or of another shard.
func (p *sharedParts) forgetting(engine helmoprelease.Engine, watcher helmoprelease.Watcher) func(cluster client.ObjectKey) {
	return func(cluster client.ObjectKey) {
		engine.Forget(cluster.String())
		watcher.Disconnect(cluster.String())
		p.reads.Forget(cluster.String())
	}
}

func setupHelmOps(ctx context.Context, mgr ctrl.Manager, options Options, common *sharedParts) error {
	log := mgr.GetLogger().WithValues("controller", "helmop")
	concurrency := controllerOptions(options.HelmOpConcurrency)
	reconciler := &helmop.Reconciler{
		Live:       mgr.GetAPIReader(),
		Registry:   options.Registry,
		Verifier:   options.Verifier,
		Tasks:      async.NewTasks[helmop.Resolution](concurrency.MaxConcurrentReconciles),
		References: common.references,
		Renderer:   common.renderer,
		Resolution: helmop.NewResolutionSchedule(),
		Guard:      common.guard,
		Planned:    helmop.NewPlannedReleases(),
		Recorder:   mgr.GetEventRecorder("helmop-controller"),
		Now:        time.Now,

		ResyncPeriod: options.ResyncPeriod,
		MinInterval:  options.MinSourceInterval,

		WatchFilter: options.WatchFilterValue,
		Shard:       options.Shard,
		Answers:     queue.AnswersOf(options.Clusters),
	}
	reconciler.Client = reconciler.Writes.Client(mgr.GetClient())
	if err := reconciler.Writes.Observe(ctx, mgr.GetCache(), &addonsv1.HelmOp{}, &addonsv1.HelmOpRelease{}, &addonsv1.HelmOpRevision{}); err != nil {
		return err
	}
	toHelmOps := func(ctx context.Context, obj client.Object) []ctrl.Request {
		return watches.RequestsForCluster(ctx, reconciler.Client, obj)
	}
	ofSecret := watches.Both(watches.RequestsForReference(apiutil.KindSecret, reconciler.Client), watches.RequestsForPullSecret(reconciler.Client, common.references))
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("helmop").
		For(&addonsv1.HelmOp{}, builder.WithPredicates(watches.OfWatchFilter(options.WatchFilterValue), watches.SpecChanged())).
		Watches(&addonsv1.HelmOpRelease{}, watches.DelayedBy(watches.RequestForOwner(reconciler.Client), watches.Settled(reconciler.Client)),
			builder.WithPredicates(watches.OfWatchFilter(options.WatchFilterValue))).
		Watches(&addonsv1.HelmOpRelease{}, dependencies.HelmOpsOnNews(reconciler.Client)).
		Watches(&addonsv1.HelmOpRelease{}, reconciler.Moved.Noting(reconciler.Now)).
		Watches(&addonsv1.HelmOp{}, watches.Delayed(dependencies.DependentHelmOps(reconciler.Client)), builder.WithPredicates(dependencies.DependencyChanged())).
		Watches(&addonsv1.HelmOp{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(watches.SaidNotServed())).
		Watches(apiutil.NewCluster(), watches.Delayed(toHelmOps)).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindSecret), watches.Delayed(ofSecret)).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindConfigMap), watches.Delayed(watches.RequestsForReference(apiutil.KindConfigMap, reconciler.Client))).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindServiceAccount), watches.Delayed(watches.RequestsForReference(apiutil.KindServiceAccount, reconciler.Client))).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindNamespace), watches.Delayed(watches.RequestsForNamespace(reconciler.Client))).
		WatchesRawSource(reconciler.Tasks.Waker.Source()).
		WithOptions(concurrency).
		Build(reconciler)
	if err != nil {
		return err
	}
	reconciler.Kinds = common.watcher(mgr, c, log, reconciler.HandlerForClusterObjects())
	return nil
}

func setupReleases(ctx context.Context, mgr ctrl.Manager, options Options, common *sharedParts) error {
	concurrency := controllerOptions(options.ReleaseConcurrency)
	granted := &async.Waker{}
	slots := helmoprelease.NewActionSlots(concurrency.MaxConcurrentReconciles, options.ClusterConcurrency, granted)
	concurrency.NewQueue = queue.New(mgr.GetClient(), queue.AnswersOf(options.Clusters), slots.IsGranted)
	reconciler := &helmoprelease.Reconciler{
		Live:       mgr.GetAPIReader(),
		Clusters:   options.Clusters,
		Registry:   options.Registry,
		Verifier:   options.Verifier,
		Charts:     options.Charts,
		Tasks:      async.NewTasks[*oci.Content](concurrency.MaxConcurrentReconciles),
		Fetches:    helmoprelease.NewFetchFailures(),
		Slots:      slots,
		Reads:      common.reads,
		Engine:     options.Engine,
		Watcher:    options.Watcher,
		References: common.references,
		Renderer:   common.renderer,
		Guard:      common.guard,
		Recorder:   mgr.GetEventRecorder("helmop-controller"),
		Budgets:    common.budgets,
		Now:        time.Now,

		Kubeconfigs: options.Kubeconfigs,

		ResyncPeriod: options.ResyncPeriod,
		WatchFilter:  options.WatchFilterValue,
		Shard:        options.Shard,
		Records:      options.Records,
		RecordsLeft:  lru.New(helmoprelease.MaxToldOfRecords),
	}
	reconciler.Client = reconciler.Writes.Client(mgr.GetClient())
	if err := reconciler.Writes.Observe(ctx, mgr.GetCache(), &addonsv1.HelmOpRelease{}); err != nil {
		return err
	}
	if err := metrics.Registry.Register(monitoring.NewReadsGauge(reconciler.Reads.Count)); err != nil {
		return err
	}
	ofCluster := watches.ChildRequestsForCluster(reconciler.Client)
	ending := handler.EnqueueRequestsFromMapFunc(dependencies.EndingRequests(reconciler.Client))
	ofSecret := watches.Both(watches.RequestsForReference(apiutil.KindSecret, reconciler.Client), watches.RequestsForPullSecret(reconciler.Client, common.references))
	return ctrl.NewControllerManagedBy(mgr).
		Named("helmoprelease").
		For(&addonsv1.HelmOpRelease{}, builder.WithPredicates(watches.OfWatchFilter(options.WatchFilterValue), watches.SpecChanged())).
		Watches(apiutil.NewCluster(), handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(watches.ServabilityChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(watches.ChildRequestsForHelmOp(reconciler.Client)),
			builder.WithPredicates(watches.OrderChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(watches.UnreadyRequests(reconciler.Client, watches.RequestForItself)),
			builder.WithPredicates(watches.SourceChanged())).
		Watches(&addonsv1.HelmOpRelease{}, dependencies.SiblingsOnNews(reconciler.Client)).
		Watches(&addonsv1.HelmOpRelease{}, helmoprelease.ContendersOnNews(reconciler.Client, reconciler.Reads.Outdate)).
		Watches(&addonsv1.HelmOpRelease{}, reconciler.Actions.Stopping(reconciler.Client)).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(watches.UnreadyRequests(reconciler.Client, dependencies.DependentHelmOps(reconciler.Client))),
			builder.WithPredicates(dependencies.DependencyChanged())).
		Watches(&addonsv1.HelmOp{}, ending, builder.WithPredicates(dependencies.ChoiceMayChange())).
		Watches(apiutil.NewCluster(), ending, builder.WithPredicates(dependencies.ChoiceMayChange())).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindSecret), watches.Delayed(watches.UnreadyRequests(reconciler.Client, ofSecret))).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindServiceAccount), watches.Delayed(watches.UnreadyRequests(reconciler.Client,
			watches.RequestsForReference(apiutil.KindServiceAccount, reconciler.Client)))).
		WatchesRawSource(reconciler.Tasks.Waker.Source()).
		WatchesRawSource(reconciler.Reads.Running.Waker.Source()).
		WatchesRawSource(granted.Source()).
		WatchesRawSource(options.Watcher.Source()).
		WatchesRawSource(options.Clusters.Source(ofCluster)).
		WithOptions(concurrency).
		Complete(reconciler)
}

func controllerOptions(concurrency int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrency,
		RateLimiter:             requeue.NewLimiter(),
	}
}

// setupClusters adds the controller of Clusters to a manager.
func setupClusters(mgr ctrl.Manager, options Options, common *sharedParts) error {
	log := mgr.GetLogger().WithValues("controller", "cluster")
	reconciler := &cluster.Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Objects:  common.objects,
		Recorder: mgr.GetEventRecorder("helmop-controller"),
		Budgets:  common.budgets,
		Now:      time.Now,

		WatchFilter: options.WatchFilterValue,
		Shard:       options.Shard,
		EndDoubt:    func(cluster client.ObjectKey) { common.reads.Forget(cluster.String()) },
	}
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("helmop-cluster").
		For(apiutil.NewCluster()).
		Watches(apiutil.NewCluster(), watches.ClusterReplaced(common.forgetting(options.Engine, options.Watcher))).
		Watches(&addonsv1.HelmOpRelease{}, handler.EnqueueRequestsFromMapFunc(cluster.RequestForClusterOf), builder.WithPredicates(cluster.LifeChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(cluster.RequestsForHelmOp(mgr.GetClient())),
			builder.WithPredicates(cluster.LifeOptionsChanged())).
		WithOptions(controllerOptions(options.HelmOpConcurrency)).
		Build(reconciler)
	if err != nil {
		return err
	}
	reconciler.Kinds = common.watcher(mgr, c, log, watches.Delayed(reconciler.RequestsForControlPlane))
	return nil
}
