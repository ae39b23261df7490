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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// checkTimeout is the timeout of a check, which reads a cache and one Lease for each shard.
	checkTimeout = 30 * time.Second
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

// ShardOverviewOptions are the options of a ShardOverview.
type ShardOverviewOptions struct {
	// Client reads and writes objects without a shard label.
	Client client.Client

	// Live reads from the API server.
	Live client.Reader

	// Others reads the metadata of the HelmOps and Clusters with the shard label, whatever its value.
	Others client.Reader

	// Synced waits until Others can be read. It returns false if the context ends first. Default: Others can be read at
	// once.
	Synced func(context.Context) bool

	// LeaseNamespace is the namespace of the managers' leases.
	LeaseNamespace string

	// LeaseDuration is how long a lease is valid: 15 s by default. The interval between checks is two thirds of it.
	// HelmOps report that their shard has no manager only after twice the duration, because a restart takes some time.
	LeaseDuration time.Duration

	// WatchFilterValue has the value in Options: only HelmOps with this value of the label report an unserved shard.
	WatchFilterValue string
}

// ShardOverview reports shards that no manager serves, in metrics and in a condition of their HelmOps. It runs in the
// manager for objects without a shard label, because a manager of a shard reads only the objects of its own shard. It
// is safe for concurrent use.
type ShardOverview struct {
	ShardOverviewOptions

	now func() time.Time

	// shards are the shards that had objects at the last check.
	shards map[string]*shardState
}

// shardState is the state of a shard that is kept between checks.
type shardState struct {
	// renewed is when the lease of the shard was last renewed, by the clock of its manager.
	renewed time.Time
	// unservedSince is when the shard was first found without a manager; zero while it has one.
	unservedSince time.Time
	// reported are the HelmOps that report the unserved shard. paused are the paused HelmOps, which need not report it,
	// with the resource version of the check.
	reported map[types.UID]bool
	paused   map[types.UID]string
}

func newShardState() *shardState {
	return &shardState{reported: map[types.UID]bool{}, paused: map[types.UID]string{}}
}

// NewShardOverview returns an overview.
func NewShardOverview(options ShardOverviewOptions) *ShardOverview {
	return &ShardOverview{ShardOverviewOptions: options, now: time.Now, shards: map[string]*shardState{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (o *ShardOverview) NeedLeaderElection() bool { return true }

// Start checks the shards periodically until ctx ends.
func (o *ShardOverview) Start(ctx context.Context) error {
	if o.Synced != nil && !o.Synced(ctx) {
		return nil
	}
	ticker := time.NewTicker(o.LeaseDuration * 2 / 3)
	defer ticker.Stop()
	for {
		if err := o.update(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot determine which shards are served")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// shardContent holds the objects of a shard.
type shardContent struct {
	helmOps  []metav1.PartialObjectMetadata
	clusters int
}

// update first counts the objects of all shards. Then it reports unserved shards, because many reports may take long.
func (o *ShardOverview) update(ctx context.Context) error {
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
	// An error of one shard does not prevent the checks and reports for the others.
	errs := []error{o.countOwn(ctx)}
	var unserved []string
	errs = append(errs, bounded(ctx, func(ctx context.Context) error {
		var errs []error
		for shard, content := range shards {
			if err := o.checkShard(ctx, shard, content); err != nil {
				errs = append(errs, err)
			} else if o.isUnserved(o.shards[shard]) {
				unserved = append(unserved, shard)
			}
		}
		return kerrors.NewAggregate(errs)
	}))
	for _, shard := range unserved {
		errs = append(
			errs,
			bounded(ctx, func(ctx context.Context) error { return o.reportAll(ctx, shards[shard], o.shards[shard]) }),
		)
	}
	return kerrors.NewAggregate(errs)
}

// bounded calls do with a timeout of checkTimeout.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return do(ctx)
}

// shardMetric returns the name of a shard in metrics. A label with an empty value is not a shard. It has its own name
// in metrics, which differs from the name for objects without the label.
func shardMetric(shard string) string {
	if shard == "" {
		return "(empty label)"
	}
	return shard
}

// content returns the objects of the shards, by the names of the shards.
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

// countOwn counts the objects without a shard label.
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

// checkShard checks one shard. If its lease cannot be read, the previous state stays.
func (o *ShardOverview) checkShard(ctx context.Context, shard string, content *shardContent) error {
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

// isUnserved reports whether a shard has had no manager for so long that its HelmOps must report it.
func (o *ShardOverview) isUnserved(state *shardState) bool {
	return !state.unservedSince.IsZero() && o.now().Sub(state.unservedSince) >= 2*o.LeaseDuration
}

// reportAll reports in all HelmOps of a shard that no manager serves the shard.
func (o *ShardOverview) reportAll(ctx context.Context, content *shardContent, state *shardState) error {
	var errs []error
	for i := range content.helmOps {
		errs = append(errs, o.reportUnserved(ctx, &content.helmOps[i], state))
	}
	return failures.Join(errs)
}

// isServed reports whether the manager of a shard is running. It is running if its lease has not expired. It is also
// running if the lease was renewed since the last check, whatever the clocks show.
func (o *ShardOverview) isServed(ctx context.Context, shard string, state *shardState) (bool, error) {
	if len(validation.IsDNS1123Label(shard)) > 0 {
		return false, nil // No manager can be started for a shard with this name.
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

// reportUnserved sets the condition of a HelmOp whose shard no manager serves. A manager that starts to serve the shard
// overwrites the condition.
func (o *ShardOverview) reportUnserved(
	ctx context.Context, known *metav1.PartialObjectMetadata, state *shardState,
) error {
	if state.reported[known.UID] || state.paused[known.UID] == known.ResourceVersion || report.IsBeingMoved(known) ||
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
		state.paused[known.UID] = helmOp.ResourceVersion // A paused HelmOp is not reconciled anyway.
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
				"This HelmOp is not reconciled: no manager serves shard %q; start a manager with --shard=%s, or correct the label "+
					"%s of this HelmOp and of its Clusters",
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
	state.reported[known.UID] = true
	return nil
}
