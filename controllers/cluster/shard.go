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

// foreignRetry is the time until the next check whether a Cluster has releases in other shards. The manager does not
// watch other shards, so there is no event.
const foreignRetry = 5 * time.Minute

// readForeign sets scope.foreign if a Cluster has releases in other shards, or of HelmOps of other shards. If there are
// some, conditions and holds that no HelmOp of this shard requests are kept: they may belong to HelmOps of other
// shards. readForeign sends requests to the API server only if there are such conditions or holds, or if releases are
// checked for an upgrade of Kubernetes.
func (r *Reconciler) readForeign(ctx context.Context, scope *lifeScope) error {
	if !hasUnrequested(scope) {
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

// hasUnrequested reports whether a Cluster has a condition or an upgrade hold of HelmOp that no HelmOp of this shard
// requests. It also returns true if the Cluster gets the condition with the checks of all its releases.
func hasUnrequested(scope *lifeScope) bool {
	if hasType(scope.requested, addonsv1.ClusterUpgradeReadyType) || slices.ContainsFunc(scope.cluster.Status.Conditions,
		func(known metav1.Condition) bool { return isUnrequested(known, scope.requested) }) {
		return true
	}
	holders := upgradeHolders(scope)
	return slices.ContainsFunc(upgradeHoldNames(holders, scope.cluster.Annotations), func(name string) bool {
		_, requested := holders[name]
		return !requested
	})
}

// isUnrequested reports whether HelmOps of other shards may request a condition of a Cluster. Only the manager of the
// Cluster publishes the results of the checks of its releases.
func isUnrequested(known metav1.Condition, desired []metav1.Condition) bool {
	return isOfHelmOp(known) && known.Type != addonsv1.ClusterUpgradeReadyType && !hasType(desired, known.Type)
}

func hasType(list []metav1.Condition, conditionType string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == conditionType })
}

// unsettledConditions returns the types of conditions about releases whose state in this shard is not known yet. Either
// the HelmOp of such a release has not entered the shard, or the release was not reconciled after its Cluster entered
// the shard.
func (r *Reconciler) unsettledConditions(scope *lifeScope) sets.Set[string] {
	unsettled := sets.Set[string]{}
	for i := range scope.helmOps {
		helmOp := &scope.helmOps[i]
		// A paused HelmOp without a recorded shard is being moved into the shard, together with its releases.
		isEntering := helmOp.Status.Shard == nil && apiutil.IsHelmOpPaused(helmOp)
		if (isEntering || ptr.Deref(helmOp.Status.Shard, r.shard) != r.shard) && clusterlife.Selects(helmOp, scope.cluster) {
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

// foreignHold makes an upgrade wait for a HelmOp of another shard, for the default timeout. The manager of the other
// shard does not read the Cluster, so it cannot end the hold.
func foreignHold(state *clusterlife.UpgradeState) {
	state.Active, state.Timeout = true, clusterlife.DefaultUpgradeTimeout
	state.Unready = func(string) string {
		return "its HelmOp and the Cluster are in different shards: give both the same label " + addonsv1.ShardLabel
	}
}
