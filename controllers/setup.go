/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
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
	Verifier Verifier

	// Charts makes charts of pulled artifacts.
	Charts ChartLoader

	// Engine brings releases to what is wanted.
	Engine Engine

	// Records tells where the records of releases are kept outside of their clusters. Default: nowhere.
	Records RecordStorage

	// Watcher follows the objects of releases in the workload clusters.
	Watcher Watcher

	// Clusters are the ways to the workload clusters.
	Clusters Clusters

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

// Clusters are the ways to the workload clusters.
type Clusters interface {
	// GetRESTConfig returns how to reach a Cluster; the error wraps clusterlink.ErrNotConnected if there is no way, and
	// clusterlink.ErrNotTried if that says nothing of the Cluster.
	GetRESTConfig(ctx context.Context, cluster client.ObjectKey) (*rest.Config, error)
	// State tells how a Cluster has answered.
	State(cluster client.ObjectKey) clusterlink.State
	// Source is of the requests for a Cluster whenever it begins or ceases to answer.
	Source(requests handler.MapFunc) source.Source
}

// Registry resolves references and pulls artifacts.
type Registry interface {
	Resolver
	Fetcher
}

// SetupWithManager adds the controllers to a manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if err := setupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("registering indexes: %w", err)
	}
	if options.HelmOpConcurrency <= 0 {
		options.HelmOpConcurrency = 5
	}
	if options.ReleaseConcurrency <= 0 {
		options.ReleaseConcurrency = 24
	}
	references := newReferenceReader(mgr.GetCache(), mgr.GetAPIReader())
	kinds := newKinds(mgr, options)
	if err := mgr.Add(kinds); err != nil {
		return fmt.Errorf("setting up the reader of what Clusters refer to: %w", err)
	}
	objects := newObjectReader(kinds)
	common := &sharedParts{
		kinds:      kinds,
		references: references,
		objects:    objects,
		renderer:   newRenderer(references, objects),
		guard:      newClusterGuard(mgr.GetClient(), options.ManagementClusterNamespaces...),
		unseen:     &unseenReleases{},
		sightings:  newSightings(options.ReleaseConcurrency),
		adoptions:  newAdoptions(),
		budgets:    newEventBudgets(time.Now),

		incarnations: &clusterIncarnations{},
	}
	if err := setupHelmOps(mgr, options, common); err != nil {
		return fmt.Errorf("setting up the HelmOp controller: %w", err)
	}
	if err := setupReleases(mgr, options, common); err != nil {
		return fmt.Errorf("setting up the HelmOpRelease controller: %w", err)
	}
	if err := setupClusters(mgr, options, common); err != nil {
		return fmt.Errorf("setting up the controller of Clusters: %w", err)
	}
	return metrics.Registry.Register(newStateCollector(mgr.GetClient()))
}

// sharedParts are what the controllers have in common.
type sharedParts struct {
	kinds      *kindcache.Kinds
	references *referenceReader
	objects    *objectReader
	renderer   *renderer
	guard      *clusterGuard
	unseen     *unseenReleases
	sightings  *sightings
	adoptions  *adoptions
	budgets    *eventBudgets

	incarnations *clusterIncarnations
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
func (p *sharedParts) forgetting(engine Engine, watcher Watcher) func(cluster client.ObjectKey) {
	return func(cluster client.ObjectKey) {
		engine.Forget(cluster.String())
		watcher.Disconnect(cluster.String())
		p.sightings.forget(cluster.String())
		// A release that could do so may be gone before its Cluster.
		p.incarnations.forget(cluster)
	}
}

func setupHelmOps(mgr ctrl.Manager, options Options, common *sharedParts) error {
	log := mgr.GetLogger().WithValues("controller", "helmop")
	concurrency := controllerOptions(options.HelmOpConcurrency)
	reconciler := &helmOpReconciler{
		client:     mgr.GetClient(),
		live:       mgr.GetAPIReader(),
		registry:   options.Registry,
		verifier:   options.Verifier,
		errands:    newErrands[resolution](concurrency.MaxConcurrentReconciles),
		references: common.references,
		renderer:   common.renderer,
		resolution: newResolutionSchedule(),
		rollouts:   newRevisionMemory(),
		told:       newToldGenerations(),
		guard:      common.guard,
		pace:       newStatusPace(),
		planned:    newPlannedReleases(),
		recorder:   mgr.GetEventRecorder("helmop-controller"),
		now:        time.Now,

		resyncPeriod: options.ResyncPeriod,
		minInterval:  options.MinSourceInterval,

		watchFilter: options.WatchFilterValue,
		shard:       options.Shard,
		namespace:   options.Namespace,
		adoptions:   common.adoptions,
		answers:     answersOf(options.Clusters),
	}
	toHelmOps := func(ctx context.Context, obj client.Object) []ctrl.Request {
		return requestsForCluster(ctx, reconciler.client, obj)
	}
	ofSecret := both(requestsForReference(kindSecret, reconciler.client), requestsForPullSecret(reconciler.client, common.references))
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("helmop").
		For(&addonsv1.HelmOp{}, builder.WithPredicates(ofWatchFilter(options.WatchFilterValue), specChanged())).
		Watches(&addonsv1.HelmOpRelease{}, delayedBy(requestForOwner(reconciler.client), settled(reconciler.client)),
			builder.WithPredicates(ofWatchFilter(options.WatchFilterValue))).
		Watches(&addonsv1.HelmOpRelease{}, helmOpsOnNews(reconciler.client)).
		Watches(&addonsv1.HelmOpRelease{}, reconciler.moved.noting(reconciler.now)).
		Watches(&addonsv1.HelmOp{}, delayed(dependentHelmOps(reconciler.client)), builder.WithPredicates(dependencyChanged())).
		Watches(&addonsv1.HelmOp{}, reconciler.adoptions.left()).
		Watches(&addonsv1.HelmOp{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(saidNotServed())).
		Watches(newCluster(), delayed(toHelmOps)).
		WatchesMetadata(partialOf(kindSecret), delayed(ofSecret)).
		WatchesMetadata(partialOf(kindConfigMap), delayed(requestsForReference(kindConfigMap, reconciler.client))).
		WatchesMetadata(partialOf(kindServiceAccount), delayed(requestsForReference(kindServiceAccount, reconciler.client))).
		WatchesMetadata(partialOf(kindNamespace), delayed(requestsForNamespace(reconciler.client))).
		WatchesRawSource(reconciler.errands.waker.source()).
		WithOptions(concurrency).
		Build(reconciler)
	if err != nil {
		return err
	}
	reconciler.kinds = common.watcher(mgr, c, log, reconciler.handlerForClusterObjects())
	return nil
}

func setupReleases(mgr ctrl.Manager, options Options, common *sharedParts) error {
	concurrency := controllerOptions(options.ReleaseConcurrency)
	granted := &waker{}
	slots := newActionSlots(concurrency.MaxConcurrentReconciles, options.ClusterConcurrency, granted)
	concurrency.NewQueue = newReleaseQueue(mgr.GetClient(), answersOf(options.Clusters), slots.IsGranted)
	reconciler := &releaseReconciler{
		client:     mgr.GetClient(),
		live:       mgr.GetAPIReader(),
		clusters:   options.Clusters,
		registry:   options.Registry,
		verifier:   options.Verifier,
		charts:     options.Charts,
		errands:    newErrands[*oci.Content](concurrency.MaxConcurrentReconciles),
		fetches:    newFetchFailures(),
		slots:      slots,
		sightings:  common.sightings,
		engine:     options.Engine,
		watcher:    options.Watcher,
		references: common.references,
		renderer:   common.renderer,
		guard:      common.guard,
		recorder:   mgr.GetEventRecorder("helmop-controller"),
		budgets:    common.budgets,
		now:        time.Now,

		kubeconfigs: options.Kubeconfigs,
		written:     newWrittenGenerations(),
		drifts:      newDriftMemories(),

		resyncPeriod: options.ResyncPeriod,
		watchFilter:  options.WatchFilterValue,
		shard:        options.Shard,
		unseen:       common.unseen,
		incarnations: common.incarnations,
		records:      options.Records,
		recordsLeft:  lru.New(maxToldOfRecords),
	}
	if err := metrics.Registry.Register(newReadsGauge(reconciler.sightings.count)); err != nil {
		return err
	}
	ofCluster := childRequestsForCluster(reconciler.client)
	ending := handler.EnqueueRequestsFromMapFunc(endingRequests(reconciler.client))
	ofSecret := both(requestsForReference(kindSecret, reconciler.client), requestsForPullSecret(reconciler.client, common.references))
	return ctrl.NewControllerManagedBy(mgr).
		Named("helmoprelease").
		For(&addonsv1.HelmOpRelease{}, builder.WithPredicates(ofWatchFilter(options.WatchFilterValue), specChanged())).
		Watches(newCluster(), handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(servabilityChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(childRequestsForHelmOp(reconciler.client)),
			builder.WithPredicates(orderChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(unreadyRequests(reconciler.client, requestForItself)),
			builder.WithPredicates(sourceChanged())).
		Watches(&addonsv1.HelmOpRelease{}, siblingsOnNews(reconciler.client)).
		Watches(&addonsv1.HelmOpRelease{}, contendersOnNews(reconciler.client, reconciler.sightings.outdate)).
		Watches(&addonsv1.HelmOpRelease{}, reconciler.actions.stopping(reconciler.client)).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(unreadyRequests(reconciler.client, dependentHelmOps(reconciler.client))),
			builder.WithPredicates(dependencyChanged())).
		Watches(&addonsv1.HelmOp{}, ending, builder.WithPredicates(choiceMayChange())).
		Watches(newCluster(), ending, builder.WithPredicates(choiceMayChange())).
		WatchesMetadata(partialOf(kindSecret), delayed(unreadyRequests(reconciler.client, ofSecret))).
		WatchesMetadata(partialOf(kindServiceAccount), delayed(unreadyRequests(reconciler.client,
			requestsForReference(kindServiceAccount, reconciler.client)))).
		WatchesRawSource(reconciler.errands.waker.source()).
		WatchesRawSource(reconciler.sightings.running.waker.source()).
		WatchesRawSource(granted.source()).
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
