// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/deletionintent"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordstorage"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// Options are the dependencies and settings of the controller of HelmOpReleases. The fields of the first group are
// required.
type Options struct {
	Registry    artifacts.Fetcher
	Images      preflight.Registry
	Verifier    verify.Verifier
	Charts      artifacts.ChartLoader
	Engine      Engine
	Watcher     Watcher
	Clusters    clusterview.Clusters
	Kubeconfigs client.Reader
	References  *references.Reader
	Renderer    *render.Renderer
	Guard       *selection.Guard
	Reads       *recordreads.Reads
	Budgets     *report.EventBudgets

	// Concurrency is the number of releases that are reconciled at the same time. ClusterConcurrency is the maximum
	// number of concurrent actions in one Cluster; 0 is the default of package slots.
	Concurrency, ClusterConcurrency int

	// Records is the storage of records outside of workload clusters. With the zero value, each record is in its
	// cluster.
	Records recordstorage.Options

	// These three are WatchFilterValue, Shard and ResyncPeriod of controllers.Options.
	WatchFilter, Shard string
	ResyncPeriod       time.Duration

	// Tracer exports traces; nil exports none.
	Tracer *tracing.Tracer
}

// SetupWithManager adds the controller to a manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	concurrency := requeue.ControllerOptions(options.Concurrency)
	granted := &async.Waker{}
	actionSlots := newActionSlots(options.Concurrency, options.ClusterConcurrency, granted)
	concurrency.NewQueue = queue.New(mgr.GetClient(), queue.AnswersOf(options.Clusters), actionSlots.IsGranted)
	r := &Reconciler{
		live:     mgr.GetAPIReader(),
		clusters: options.Clusters,
		charts: artifacts.New(options.Registry, options.Charts, options.Verifier, options.References,
			options.Concurrency),
		images:      preflight.New(options.Images, options.Concurrency),
		slots:       actionSlots,
		reads:       options.Reads,
		engine:      options.Engine,
		watcher:     options.Watcher,
		references:  options.References,
		renderer:    options.Renderer,
		guard:       options.Guard,
		recorder:    mgr.GetEventRecorder("helmop-controller"),
		budgets:     options.Budgets,
		tracer:      options.Tracer,
		now:         time.Now,
		kubeconfigs: options.Kubeconfigs,

		resyncPeriod: options.ResyncPeriod,
		records:      options.Records,
		watchFilter:  options.WatchFilter, shard: options.Shard,
	}
	r.client = r.writes.Client(mgr.GetClient())
	r.assigned = assignedvalues.Renderer{Client: r.client, Live: r.live, Renderer: r.renderer}
	r.intents = deletionintent.Reader{Live: r.live, Renderer: r.renderer, Shard: r.shard}
	r.gate = dependencies.Gate{Client: r.client, Live: r.live, Shard: r.shard, WatchFilter: r.watchFilter, Now: r.now}
	if err := r.writes.Observe(ctx, mgr.GetCache(), &addonsv1.HelmOpRelease{}); err != nil {
		return err
	}
	if err := metrics.Registry.Register(monitoring.NewReadsGauge(r.reads.Count)); err != nil {
		return err
	}
	ofCluster := watches.ChildRequestsForCluster(r.client)
	awaitingUninstall := handler.EnqueueRequestsFromMapFunc(dependencies.EndingRequests(r.client))
	unready := func(toHelmOps handler.MapFunc) handler.MapFunc { return watches.UnreadyRequests(r.client, toHelmOps) }
	ofSecret := watches.WaitingRequests(r.client, watches.RequestsForSecret(r.client, options.References))
	ofAccount := watches.WaitingRequests(r.client, watches.RequestsForReference(apiutil.KindServiceAccount, r.client))
	// At the start, all releases are reconciled anyway.
	afterStart := builder.WithPredicates(watches.AfterStart())
	return ctrl.NewControllerManagedBy(mgr).
		Named("helmoprelease").
		For(&addonsv1.HelmOpRelease{},
			builder.WithPredicates(watches.OfWatchFilter(options.WatchFilter), watches.SpecChanged())).
		Watches(apiutil.NewCluster(), handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(watches.ServabilityChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(watches.ChildRequestsForHelmOp(r.client)),
			builder.WithPredicates(watches.ReleaseHandlingChanged())).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(unready(watches.RequestForItself)),
			builder.WithPredicates(watches.SourceChanged())).
		Watches(&addonsv1.HelmOpRelease{}, dependencies.SiblingsOnChange(r.client)).
		Watches(&addonsv1.HelmOpRelease{}, watches.ConflictingOnChange(r.client, r.outdateRecords)).
		Watches(&addonsv1.HelmOpRelease{}, r.actions.StopOnDeletion(r.client)).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(unready(dependencies.DependentHelmOps(r.client))),
			builder.WithPredicates(dependencies.DependencyChanged())).
		Watches(&addonsv1.HelmOp{}, awaitingUninstall, builder.WithPredicates(dependencies.ChoiceMayChange())).
		Watches(apiutil.NewCluster(), awaitingUninstall, builder.WithPredicates(dependencies.ChoiceMayChange())).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindSecret), watches.Delayed(ofSecret), afterStart).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindServiceAccount), watches.Delayed(ofAccount), afterStart).
		WatchesRawSource(r.charts.Source()).
		WatchesRawSource(r.images.Source()).
		WatchesRawSource(r.reads.Source()).
		WatchesRawSource(granted.Source()).
		WatchesRawSource(options.Watcher.Source()).
		WatchesRawSource(options.Clusters.Source(ofCluster)).
		WithOptions(concurrency).
		Complete(r)
}

// newActionSlots returns the slots for actions, for a number of workers and a limit for each Cluster. A release that
// gets a slot is enqueued with the highest priority.
func newActionSlots(workers, perCluster int, wake *async.Waker) *slots.Slots {
	return slots.New(slots.Options{
		Workers: workers, PerCluster: perCluster,
		Wake: func(release client.ObjectKey) { wake.WakeFirst(ctrl.Request{NamespacedName: release}) },
		Report: func(inUse, waiting int) {
			monitoring.SlotsInUse.Set(float64(inUse))
			monitoring.SlotsWaiting.Set(float64(waiting))
		},
	})
}
