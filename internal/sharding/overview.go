// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sharding

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// shardLookTimeout bounds a look: it reads a cache, and a Lease for each shard.
	shardLookTimeout = 30 * time.Second
)

var (
	shardObjects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "helmop_shard_objects",
		Help: "Number of HelmOps and Clusters by shard and kind; the shard is empty for objects without the label. " +
			"Exported by the manager without --shard.",
	}, []string{"shard", "kind"})

	shardOwned = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "helmop_shard_owned",
		Help: "1 for each shard with objects if its manager renews its lease, 0 if it does not. " +
			"Exported by the manager without --shard.",
	}, []string{"shard"})
)

func init() { metrics.Registry.MustRegister(shardObjects, shardOwned) }

// ShardOverviewOptions are what an overview of the shards works with.
type ShardOverviewOptions struct {
	// Client reads and writes what is of no shard.
	Client client.Client

	// Live reads from the API server.
	Live client.Reader

	// Others reads the metadata of the HelmOps and Clusters that have the shard label, whatever its value.
	Others client.Reader

	// LeaseNamespace is where managers have their leases.
	LeaseNamespace string

	// LeaseDuration is for how long a manager holds its lease: 15 s by default. It is looked every two thirds of that. For
	// twice that, a shard may have no manager before it is said of its HelmOps: one that is restarted needs a while.
	LeaseDuration time.Duration

	// WatchFilterValue is that of Options: what is said of HelmOps is said of these only.
	WatchFilterValue string
}

// ShardOverview tells of shards that nobody serves: by metrics, and by a condition of their HelmOps. It is for the
// manager that serves what is of no shard: the others do not see each other's objects. It is safe for concurrent use.
type ShardOverview struct {
	ShardOverviewOptions

	now func() time.Time

	// shards are those that had objects at the last look.
	shards map[string]*shardState
}

// shardState is what is remembered of a shard.
type shardState struct {
	// renewed is when its lease was last renewed, by the clock of its manager.
	renewed time.Time
	// unservedSince is zero as long as there is a manager.
	unservedSince time.Time
	// told are the HelmOps that say so, and paused those that need not, by the version in which they were found so.
	told   map[types.UID]bool
	paused map[types.UID]string
}

func newShardState() *shardState {
	return &shardState{told: map[types.UID]bool{}, paused: map[types.UID]string{}}
}

// NewShardOverview returns an overview.
func NewShardOverview(options ShardOverviewOptions) *ShardOverview {
	return &ShardOverview{ShardOverviewOptions: options, now: time.Now, shards: map[string]*shardState{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (o *ShardOverview) NeedLeaderElection() bool { return true }

// Start looks again and again until ctx ends.
func (o *ShardOverview) Start(ctx context.Context) error {
	ticker := time.NewTicker(o.LeaseDuration * 2 / 3)
	defer ticker.Stop()
	for {
		if err := o.look(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot tell which shards are served")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// shardContent is what a shard has.
type shardContent struct {
	helmOps  []metav1.PartialObjectMetadata
	clusters int
}

// look counts what the shards have, and then sees to those that nobody serves: to tell so of many HelmOps may take
// long.
func (o *ShardOverview) look(ctx context.Context) error {
	shards, err := o.content(ctx)
	if err != nil {
		return err
	}
	for shard := range o.shards {
		if shards[shard] == nil {
			delete(o.shards, shard)
			shardObjects.DeletePartialMatch(prometheus.Labels{"shard": shardMetric(shard)})
			shardOwned.DeleteLabelValues(shardMetric(shard))
		}
	}
	// One that cannot be looked at, or told of, hides no other.
	errs := []error{o.countOwn(ctx)}
	var deserted []string
	errs = append(errs, bounded(ctx, func(ctx context.Context) error {
		var errs []error
		for shard, content := range shards {
			if err := o.see(ctx, shard, content); err != nil {
				errs = append(errs, err)
			} else if o.isDeserted(o.shards[shard]) {
				deserted = append(deserted, shard)
			}
		}
		return kerrors.NewAggregate(errs)
	}))
	for _, shard := range deserted {
		errs = append(
			errs,
			bounded(ctx, func(ctx context.Context) error { return o.tellAll(ctx, shards[shard], o.shards[shard]) }),
		)
	}
	return kerrors.NewAggregate(errs)
}

// bounded does something that reads from the API server within shardLookTimeout.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, shardLookTimeout)
	defer cancel()
	return do(ctx)
}

// shardMetric is the name of a shard in metrics. The label without a value is no shard at all, and must not pass for
// the objects without the label.
func shardMetric(shard string) string {
	if shard == "" {
		return "(empty label)"
	}
	return shard
}

// content is what the shards have, by their names.
func (o *ShardOverview) content(ctx context.Context) (map[string]*shardContent, error) {
	helmOps, clusters := apiutil.MetadataList(
		addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind),
	), apiutil.MetadataList(
		clusterv1.GroupVersion.WithKind(apiutil.ClusterKind),
	)
	for _, list := range []*metav1.PartialObjectMetadataList{helmOps, clusters} {
		if err := o.Others.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing objects with a shard label: %w", err)
		}
	}
	shards := map[string]*shardContent{}
	of := func(object *metav1.PartialObjectMetadata) *shardContent {
		shard := object.Labels[addonsv1.ShardLabel]
		if shards[shard] == nil {
			shards[shard] = &shardContent{}
		}
		return shards[shard]
	}
	for i := range helmOps.Items {
		content := of(&helmOps.Items[i])
		content.helmOps = append(content.helmOps, helmOps.Items[i])
	}
	for i := range clusters.Items {
		of(&clusters.Items[i]).clusters++
	}
	return shards, nil
}

// countOwn counts what is of no shard.
func (o *ShardOverview) countOwn(ctx context.Context) error {
	helmOps, clusters := &addonsv1.HelmOpList{}, apiutil.NewClusterList()
	for _, list := range []client.ObjectList{helmOps, clusters} {
		if err := o.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("counting objects without a shard label: %w", err)
		}
	}
	shardObjects.WithLabelValues("", apiutil.HelmOpKind).Set(float64(len(helmOps.Items)))
	shardObjects.WithLabelValues("", apiutil.ClusterKind).Set(float64(len(clusters.Items)))
	shardOwned.WithLabelValues("").Set(1)
	return nil
}

// see looks at one shard. Of one whose lease cannot be read, what was known of it stays.
func (o *ShardOverview) see(ctx context.Context, shard string, content *shardContent) error {
	if o.shards[shard] == nil {
		o.shards[shard] = newShardState()
	}
	state, name := o.shards[shard], shardMetric(shard)
	shardObjects.WithLabelValues(name, apiutil.HelmOpKind).Set(float64(len(content.helmOps)))
	shardObjects.WithLabelValues(name, apiutil.ClusterKind).Set(float64(content.clusters))
	switch served, err := o.isServed(ctx, shard, state); {
	case err != nil:
		return err
	case served:
		renewed := state.renewed
		*state = *newShardState()
		state.renewed = renewed
		shardOwned.WithLabelValues(name).Set(1)
	default:
		if state.unservedSince.IsZero() {
			state.unservedSince = o.now()
		}
		shardOwned.WithLabelValues(name).Set(0)
	}
	return nil
}

// isDeserted tells whether a shard has had no manager for so long that it is said of its HelmOps.
func (o *ShardOverview) isDeserted(state *shardState) bool {
	return !state.unservedSince.IsZero() && o.now().Sub(state.unservedSince) >= 2*o.LeaseDuration
}

// tellAll says at the HelmOps of a shard that nobody serves it.
func (o *ShardOverview) tellAll(ctx context.Context, content *shardContent, state *shardState) error {
	var errs []error
	for i := range content.helmOps {
		errs = append(errs, o.tell(ctx, &content.helmOps[i], state))
	}
	return kerrors.NewAggregate(errs)
}

// isServed tells whether the manager of a shard lives: it has renewed its lease within the time for which it holds it,
// or, whatever the clocks say, since the last look.
func (o *ShardOverview) isServed(ctx context.Context, shard string, state *shardState) (bool, error) {
	if len(validation.IsDNS1123Label(shard)) > 0 {
		return false, nil // No manager can be started with that name.
	}
	lease := &coordinationv1.Lease{}
	err := o.Live.Get(ctx, client.ObjectKey{Namespace: o.LeaseNamespace, Name: apiutil.ShardLease(shard)}, lease)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the lease of shard %s: %w", shard, err)
	}
	spec := lease.Spec
	if spec.RenewTime == nil || spec.HolderIdentity == nil || *spec.HolderIdentity == "" ||
		spec.LeaseDurationSeconds == nil {
		return false, nil
	}
	known := state.renewed
	state.renewed = spec.RenewTime.Time
	isRenewed := !known.IsZero() && !known.Equal(spec.RenewTime.Time)
	return isRenewed || o.now().Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second)), nil
}

// tell says at a HelmOp that nobody serves its shard. The manager that takes the shard up overwrites it.
func (o *ShardOverview) tell(ctx context.Context, known *metav1.PartialObjectMetadata, state *shardState) error {
	if state.told[known.UID] || state.paused[known.UID] == known.ResourceVersion || report.IsBeingMoved(known) ||
		!apiutil.IsWatched(known, o.WatchFilterValue) {
		return nil
	}
	helmOp := &addonsv1.HelmOp{}
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(known), helmOp); err != nil {
		return client.IgnoreNotFound(err)
	}
	shard, ok := helmOp.Labels[addonsv1.ShardLabel]
	if !ok || shard != known.Labels[addonsv1.ShardLabel] {
		return nil
	}
	if apiutil.IsHelmOpPaused(helmOp) {
		state.paused[known.UID] = helmOp.ResourceVersion // Of what is paused nobody expects anything.
		return nil
	}
	if conditions.GetReason(helmOp, addonsv1.ReadyCondition) != addonsv1.ShardNotServedReason {
		before := helmOp.DeepCopy()
		report.SetCondition(
			helmOp,
			addonsv1.ReadyCondition,
			metav1.ConditionUnknown,
			addonsv1.ShardNotServedReason,
			fmt.Sprintf(
				"no manager serves shard %q, so this HelmOp is not reconciled; start one with --shard=%s, or correct the label "+
					"%s of this object and of its Clusters",
				shard,
				shard,
				addonsv1.ShardLabel,
			),
		)
		err := o.Client.Status().Patch(ctx, helmOp, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // another manager has changed the object
		}
		if err != nil {
			return fmt.Errorf("reporting that no manager serves shard %s: %w", shard, err)
		}
	}
	state.told[known.UID] = true
	return nil
}
