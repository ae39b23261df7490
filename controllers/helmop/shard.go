// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sharding"
)

// enterShard records the shard of a HelmOp, and reports whether this manager may reconcile the HelmOp. If not, the
// result has the time of the next try. After a change of the shard label, enterShard also relabels the releases and
// revisions. It does this only while the HelmOp is paused or under deletion, because no manager acts on these objects
// then.
//
// A HelmOp without a recorded shard can have objects in any shard. It is new, or it lost its status in a move or a
// restore, or its objects are being relabelled. So the record is removed before the first object is relabelled, and set
// after the last one.
func (r *Reconciler) enterShard(ctx context.Context,
	helmOp *addonsv1.HelmOp,
) (result ctrl.Result, entered bool, err error) {
	former := helmOp.Status.Shard
	switch {
	case former != nil && *former == r.shard:
		return ctrl.Result{}, true, nil
	case former != nil && !apiutil.IsHelmOpPaused(helmOp) && helmOp.DeletionTimestamp.IsZero():
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason, fmt.Sprintf(
			"The shard changed from %q to %q while the HelmOp was not paused: the HelmOp is not reconciled. Set spec.paused "+
				"until status.shard is the new shard, or set the label %s back", *former, r.shard, addonsv1.ShardLabel))
		return ctrl.Result{}, false, nil
	case former != nil:
		helmOp.Status.Shard = nil
		return ctrl.Result{RequeueAfter: requeue.StaleRetry}, false, nil
	}
	revisions, revisionsErr := r.relabeler().Revisions(ctx, helmOp)
	releases, releasesErr := r.relabeler().Releases(ctx, helmOp)
	switch err := kerrors.NewAggregate([]error{revisionsErr, releasesErr}); {
	case err != nil:
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason, err.Error())
		return ctrl.Result{}, false, err
	case revisions+releases > 0:
		// The next pass must begin after the cache has the relabelled objects.
		return ctrl.Result{RequeueAfter: requeue.StaleRetry}, false, nil
	}
	helmOp.Status.Shard = ptr.To(r.shard)
	return ctrl.Result{}, true, nil
}

func (r *Reconciler) relabeler() *sharding.Relabeler {
	return &sharding.Relabeler{Client: r.client, Live: r.live, Shard: r.shard}
}

// addUnlisted adds the Clusters that have a child and are not eligible. Such a Cluster does not exist, or has another
// shard, or its namespace is no longer selected. A Cluster that is not in the cache can exist, because the cache has
// only the Clusters of this shard.
func (r *Reconciler) addUnlisted(ctx context.Context, scope *helmOpScope, selector *selection.Selector,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) error {
	if len(children) == 0 {
		return nil
	}
	absent, err := r.absentClusters(ctx, children)
	if err != nil {
		return err
	}
	foreign, err := sharding.ClustersOfOtherShards(ctx, r.live, r.shard, absent)
	if err != nil {
		return err
	}
	for key, child := range children {
		if object, ok := foreign[key]; ok {
			scope.clusters = append(scope.clusters, otherShardScope(scope.helmOp, key, object, selector, child))
			continue
		}
		c, err := r.unlistedCluster(ctx, scope, key, child)
		if err != nil {
			return err
		}
		scope.clusters = append(scope.clusters, c)
	}
	return nil
}

// absentClusters returns the Clusters of children that the cache does not have.
func (r *Reconciler) absentClusters(ctx context.Context,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) (sets.Set[client.ObjectKey], error) {
	absent := sets.Set[client.ObjectKey]{}
	for key := range children {
		exists, err := dependencies.Exists(ctx, r.client, key, apiutil.NewCluster())
		if err != nil {
			return nil, err
		}
		if !exists {
			absent.Insert(key)
		}
	}
	return absent, nil
}

// otherShardScope returns the scope of a Cluster of another shard. The scope has the labels of the Cluster, because the
// Cluster must stay in its wave.
func otherShardScope(helmOp *addonsv1.HelmOp, key client.ObjectKey, object *metav1.PartialObjectMetadata,
	selector *selection.Selector,
	child *addonsv1.HelmOpRelease,
) *clusterScope {
	cluster := &clusterv1.Cluster{ObjectMeta: object.ObjectMeta}
	known := apiutil.NewCluster()
	known.SetNamespace(key.Namespace)
	known.SetName(key.Name)
	known.SetLabels(object.Labels)
	return &clusterScope{
		name: apiutil.TitleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: known, child: child,
		selected: selector.Matches(object), otherShard: apiutil.OtherShardMessage(object, helmOp),
	}
}

// isHeldByOtherShard reports whether a release is not changed because its Cluster has another shard. There is one
// exception: if the Cluster is no longer selected and the deletion policy is Orphan, the release is orphaned.
func isHeldByOtherShard(c *clusterScope, policy addonsv1.DeletionPolicy) bool {
	return c.otherShard != "" && (c.selected || policy != addonsv1.DeletionPolicyOrphan)
}
