// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// Options are the dependencies and settings of the controller of HelmOps. All fields are required, except the fields of
// the last group.
type Options struct {
	Registry   resolution.Registry
	Verifier   verify.Verifier
	References *references.Reader
	Renderer   *render.Renderer
	Guard      *selection.Guard
	Kinds      *kindcache.Kinds
	Clusters   clusterview.Clusters

	// Concurrency is the number of HelmOps that are reconciled at the same time.
	Concurrency int

	// These four are WatchFilterValue, Shard, ResyncPeriod and MinSourceInterval of controllers.Options.
	WatchFilter, Shard        string
	ResyncPeriod, MinInterval time.Duration

	// Tracer exports traces; nil exports none.
	Tracer *tracing.Tracer
}

// SetupWithManager adds the controller to a manager.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	r := &Reconciler{
		live:       mgr.GetAPIReader(),
		references: options.References,
		renderer:   options.Renderer,
		resolver: resolution.New(resolution.Options{
			Registry: options.Registry, Verifier: options.Verifier, References: options.References,
			MinInterval: options.MinInterval, Concurrency: options.Concurrency, Now: time.Now,
		}),
		guard:    options.Guard,
		planned:  rolloutstate.NewCache(),
		recorder: mgr.GetEventRecorder("helmop-controller"),
		tracer:   options.Tracer,
		now:      time.Now,

		resyncPeriod: options.ResyncPeriod,
		watchFilter:  options.WatchFilter,
		shard:        options.Shard,
		answers:      queue.AnswersOf(options.Clusters),
	}
	r.client = r.writes.Client(mgr.GetClient())
	r.lookup = selection.NewLookup(r.client)
	if err := r.writes.Observe(ctx, mgr.GetCache(), &addonsv1.HelmOp{}, &addonsv1.HelmOpRelease{},
		&addonsv1.HelmOpRevision{}); err != nil {
		return err
	}
	// At the start, all HelmOps are reconciled anyway.
	afterStart := builder.WithPredicates(watches.AfterStart())
	toHelmOps := func(ctx context.Context, obj client.Object) []ctrl.Request {
		return watches.RequestsForCluster(ctx, r.client, r.lookup, obj)
	}
	ofSecret, pace := watches.RequestsForSecret(r.client, options.References), watches.NewPace(r.client)
	concurrency := requeue.ControllerOptions(options.Concurrency)
	concurrency.NewQueue = queue.NewFair(options.Concurrency)
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("helmop").
		For(&addonsv1.HelmOp{}, builder.WithPredicates(watches.OfWatchFilter(options.WatchFilter), watches.SpecChanged())).
		Watches(&addonsv1.HelmOpRelease{}, watches.ReleaseEvents(r.client, options.WatchFilter)).
		Watches(&addonsv1.HelmOpRelease{}, dependencies.HelmOpsOnChange(r.client)).
		Watches(&addonsv1.HelmOpRelease{}, r.moved.Handler(r.now)).
		Watches(&addonsv1.HelmOp{}, watches.Delayed(dependencies.DependentHelmOps(r.client)),
			builder.WithPredicates(dependencies.DependencyChanged())).
		Watches(&addonsv1.HelmOp{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(watches.ReportedNotServed())).
		Watches(apiutil.NewCluster(), watches.ClusterEvents(pace, toHelmOps), afterStart).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindSecret), pace.Delayed(ofSecret), afterStart).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindConfigMap),
			pace.Delayed(watches.RequestsForReference(apiutil.KindConfigMap, r.client)), afterStart).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindServiceAccount),
			pace.Delayed(watches.RequestsForReference(apiutil.KindServiceAccount, r.client)), afterStart).
		WatchesMetadata(apiutil.PartialOf(apiutil.KindNamespace), pace.Delayed(watches.RequestsForNamespace(r.lookup)),
			afterStart).
		WatchesRawSource(r.resolver.Source()).
		WithOptions(concurrency).
		Build(r)
	if err != nil {
		return err
	}
	r.kinds = watches.ClusterObjects(mgr, c, options.Kinds, "helmop", r.handlerForClusterObjects(pace))
	return nil
}
