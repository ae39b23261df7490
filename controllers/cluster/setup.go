// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// Options are the dependencies and settings of the controller of Clusters. All fields except
// RuntimeExtension, WatchFilter and Shard are required.
type Options struct {
	Objects *clusterview.Reader
	Budgets *report.EventBudgets
	Kinds   *kindcache.Kinds

	// Forget drops the state that other packages keep for a Cluster that was deleted, was re-created, or moved to another
	// shard.
	Forget func(cluster client.ObjectKey)

	// ForgetReads drops the recorded responsiveness of a Cluster when no release of the Cluster is read any more.
	ForgetReads func(cluster client.ObjectKey)

	// Link returns the state of the connection to a Cluster.
	Link func(cluster client.ObjectKey) clusterlink.State

	// Concurrency is the number of Clusters that are reconciled at the same time.
	Concurrency int

	// RuntimeExtension is true if the manager serves the Runtime Extension, see internal/runtimeextension.
	RuntimeExtension bool

	// WatchFilter and Shard are WatchFilterValue and Shard of controllers.Options.
	WatchFilter, Shard string
}

// SetupWithManager adds the controller to a manager.
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	r := &Reconciler{
		client:      mgr.GetClient(),
		live:        mgr.GetAPIReader(),
		objects:     options.Objects,
		recorder:    mgr.GetEventRecorder("helmop-controller"),
		budgets:     options.Budgets,
		now:         time.Now,
		watchFilter: options.WatchFilter,
		shard:       options.Shard,
		forgetReads: options.ForgetReads,
		link:        options.Link,
		extension:   options.RuntimeExtension,
	}
	concurrency := requeue.ControllerOptions(options.Concurrency)
	concurrency.NewQueue = queue.NewFair(options.Concurrency)
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("helmop-cluster").
		For(apiutil.NewCluster()).
		Watches(apiutil.NewCluster(), watches.ClusterReplaced(options.Forget)).
		Watches(&addonsv1.HelmOpRelease{}, handler.EnqueueRequestsFromMapFunc(requestForClusterOf),
			builder.WithPredicates(lifeChanged(mgr.GetClient()))).
		Watches(&addonsv1.HelmOp{}, handler.EnqueueRequestsFromMapFunc(requestsForHelmOp(mgr.GetClient())),
			builder.WithPredicates(lifeOptionsChanged())).
		WithOptions(concurrency).
		Build(r)
	if err != nil {
		return err
	}
	r.kinds = watches.ClusterObjects(mgr, c, options.Kinds, "cluster", watches.Delayed(r.requestsForControlPlane))
	return nil
}
