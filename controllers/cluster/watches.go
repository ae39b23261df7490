// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters/status,verbs=patch

// requestForClusterOf returns a request for the Cluster of a HelmOpRelease of the same namespace. Releases in other
// namespaces do not affect the Cluster.
func requestForClusterOf(_ context.Context, obj client.Object) []ctrl.Request {
	release, ok := obj.(*addonsv1.HelmOpRelease)
	if !ok || apiutil.ClusterKey(release).Namespace != release.Namespace {
		return nil
	}
	return []ctrl.Request{{NamespacedName: apiutil.ClusterKey(release)}}
}

// requestsForControlPlane returns a request for the Cluster of a control-plane object.
func (r *Reconciler) requestsForControlPlane(_ context.Context, obj client.Object) []ctrl.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Kind == "Cluster" {
			name = owner.Name
		}
	}
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

// requestsForHelmOp returns requests for the Clusters that a HelmOp selects in its namespace.
func requestsForHelmOp(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		helmOp, ok := obj.(*addonsv1.HelmOp)
		if !ok {
			return nil
		}
		clusters := apiutil.NewClusterList()
		if err := reader.List(ctx, clusters, client.InNamespace(obj.GetNamespace()),
			client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot list the Clusters of a HelmOp", "HelmOp", client.ObjectKeyFromObject(obj))
			return nil
		}
		var requests []ctrl.Request
		for i := range clusters.Items {
			if clusterlife.Selects(helmOp, &clusters.Items[i]) {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
			}
		}
		return requests
	}
}

// lifeChanged passes events of HelmOpReleases that may change the conditions or holds of their Clusters. The reader has
// the HelmOps.
func lifeChanged(reader client.Reader) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: watches.Updated(func(before, after *addonsv1.HelmOpRelease) bool {
			if before.Generation != after.Generation ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				!maps.Equal(before.Annotations, after.Annotations) ||
				!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) {
				return true
			}
			return clusterlife.CheckedVersion(before) != clusterlife.CheckedVersion(after) ||
				hasChanged(before, after, addonsv1.KubernetesUpgradeReadyCondition) ||
				hasChanged(before, after, addonsv1.ReadyCondition) &&
					(isOfOtherShard(before) || isOfOtherShard(after) || isReadinessUsed(reader, after))
		}),
	}
}

// isOfOtherShard reports whether a release has another shard than its Cluster. This matters for all conditions.
func isOfOtherShard(release *addonsv1.HelmOpRelease) bool {
	return conditions.GetReason(release, addonsv1.ReadyCondition) == addonsv1.OtherShardReason
}

// isReadinessUsed reports whether a condition or a hold of a Cluster may depend on the condition Ready of a release.
// Most HelmOps request none, and each change of the condition would otherwise cause a pass over the Cluster. If the
// HelmOp is not in the cache, isReadinessUsed returns true.
func isReadinessUsed(reader client.Reader, release *addonsv1.HelmOpRelease) bool {
	if release.Spec.BeforeClusterUpgrade != nil || release.Spec.BeforeClusterDelete != nil {
		return true
	}
	helmOp := &addonsv1.HelmOp{}
	key := client.ObjectKey{Namespace: release.Namespace, Name: apiutil.HelmOpOf(release)}
	err := reader.Get(context.Background(), key, helmOp, client.UnsafeDisableDeepCopy)
	return err != nil || affectsClusters(helmOp)
}

// hasChanged reports whether the status, the reason or the generation of a condition has changed.
func hasChanged(before, after *addonsv1.HelmOpRelease, condition string) bool {
	was, is := conditions.Get(before, condition), conditions.Get(after, condition)
	if was == nil || is == nil {
		return was != is
	}
	return was.Status != is.Status || was.Reason != is.Reason || was.ObservedGeneration != is.ObservedGeneration
}

// affectsClusters reports whether a HelmOp publishes a condition of its Clusters, or holds their upgrades or deletions.
func affectsClusters(helmOp *addonsv1.HelmOp) bool {
	return helmOp.Spec.ClusterCondition != "" || helmOp.Spec.BeforeClusterUpgrade != nil ||
		helmOp.Spec.BeforeClusterDelete != nil
}

// lifeOptionsChanged passes events of HelmOps that change which conditions and holds their Clusters have.
func lifeOptionsChanged() predicate.Predicate {
	affects := func(obj client.Object) bool {
		helmOp, ok := obj.(*addonsv1.HelmOp)
		return ok && affectsClusters(helmOp)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return affects(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return affects(e.Object) },
		UpdateFunc: watches.Updated(func(before, after *addonsv1.HelmOp) bool {
			// These changes may end the wait of a Cluster under deletion, even if the HelmOp no longer requests the wait.
			if before.Spec.DeletionPolicy != after.Spec.DeletionPolicy ||
				apiutil.IsHelmOpPaused(before) != apiutil.IsHelmOpPaused(after) {
				return true
			}
			if !affects(before) && !affects(after) {
				return false
			}
			return before.Spec.ClusterCondition != after.Spec.ClusterCondition || before.UID != after.UID ||
				!ptr.Equal(before.Status.Shard, after.Status.Shard) ||
				(before.Spec.BeforeClusterUpgrade == nil) != (after.Spec.BeforeClusterUpgrade == nil) ||
				(before.Spec.BeforeClusterDelete == nil) != (after.Spec.BeforeClusterDelete == nil) ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				!equality.Semantic.DeepEqual(before.Spec.Maintenance, after.Spec.Maintenance) ||
				!equality.Semantic.DeepEqual(before.Spec.ClusterSelector, after.Spec.ClusterSelector)
		}),
	}
}
