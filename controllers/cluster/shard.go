// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
)

// foreignRetry is when to check again whether a Cluster has releases in other shards. There is no event for that.
const foreignRetry = 5 * time.Minute

// readForeign finds out whether a Cluster has releases in other shards, or of HelmOps of other shards. If so, the
// conditions and holds that no HelmOp of the own shard asks for may be theirs, and stay. The API server is asked only
// if there are such conditions or holds.
func (r *Reconciler) readForeign(ctx context.Context, scope *lifeScope) error {
	if !hasUnclaimed(scope) {
		return nil
	}
	for name := range scope.unknownHelmOps {
		helmOp := &metav1.PartialObjectMetadata{}
		helmOp.SetGroupVersionKind(addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))
		exists, err := dependencies.Exists(ctx, r.live, client.ObjectKey{Namespace: scope.cluster.Namespace, Name: name},
			helmOp)
		if err != nil || exists && !apiutil.IsOfShard(helmOp, r.shard) {
			scope.foreign = true
			return err
		}
	}
	selector := apiutil.OtherShards(r.shard)
	ofCluster := labels.Set{clusterv1.ClusterNameLabel: capilabels.MustFormatValue(scope.cluster.Name)}
	if requirements, selectable := ofCluster.AsSelector().Requirements(); selectable {
		selector = selector.Add(requirements...)
	}
	releases := apiutil.MetadataList(addonsv1.GroupVersion.WithKind("HelmOpRelease"))
	err := r.live.List(ctx, releases, client.InNamespace(scope.cluster.Namespace),
		client.MatchingLabelsSelector{Selector: selector}, client.Limit(1))
	scope.foreign = err != nil || len(releases.Items) > 0
	if err != nil {
		return fmt.Errorf("listing the releases of the Cluster in other shards: %w", err)
	}
	return nil
}

// hasUnclaimed reports whether a Cluster has a condition or an upgrade hold of ours that no HelmOp of the own shard
// asks for.
func hasUnclaimed(scope *lifeScope) bool {
	wanted := clusterConditions(scope.cluster, scope.helmOps, scope.releases)
	if slices.ContainsFunc(scope.cluster.Status.Conditions,
		func(known metav1.Condition) bool { return isUnclaimed(known, wanted) }) {
		return true
	}
	asking := upgradeHolders(scope)
	return slices.ContainsFunc(upgradeHoldNames(asking, scope.cluster.Annotations), func(name string) bool {
		_, claimed := asking[name]
		return !claimed
	})
}

func isUnclaimed(known metav1.Condition, wanted []metav1.Condition) bool {
	return isOfHelmOp(known) && !slices.ContainsFunc(wanted, func(c metav1.Condition) bool { return c.Type == known.Type })
}

// unsettledConditions are the types of the conditions about releases that do not have their state of this shard yet:
// the HelmOp has not entered the shard, or the release was not reconciled since the Cluster did.
func (r *Reconciler) unsettledConditions(scope *lifeScope) sets.Set[string] {
	unsettled := sets.Set[string]{}
	for i := range scope.helmOps {
		helmOp := &scope.helmOps[i]
		// A paused HelmOp without a recorded shard is bringing its releases along.
		isEntering := helmOp.Status.Shard == nil && apiutil.IsHelmOpPaused(helmOp)
		if (isEntering || ptr.Deref(helmOp.Status.Shard, r.shard) != r.shard) && selects(helmOp, scope.cluster) {
			unsettled.Insert(helmOp.Spec.ClusterCondition)
		}
	}
	for i := range scope.releases {
		if conditions.GetReason(&scope.releases[i], addonsv1.ReadyCondition) == addonsv1.OtherShardReason {
			unsettled.Insert(scope.helmOpOf(&scope.releases[i]).Spec.ClusterCondition)
		}
	}
	return unsettled.Delete("")
}

// foreignHold has an upgrade wait for a HelmOp of another shard, for the default timeout. The manager of that shard
// does not see the Cluster and cannot end the hold.
func foreignHold(state *clusterlife.UpgradeState) {
	state.Wanted, state.Timeout = true, clusterlife.DefaultUpgradeTimeout
	state.Unready = func(string) string {
		return "its HelmOp is of another shard than the Cluster: give both the same label " + addonsv1.ShardLabel
	}
}
