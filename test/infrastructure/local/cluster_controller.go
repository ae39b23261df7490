// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
)

// clusterFinalizer is a finalizer, so a deletion has two steps as with other providers. Cluster API's controllers wait
// for the second.
const clusterFinalizer = "infrastructure.cluster.x-k8s.io/localcluster"

type clusterReconciler struct {
	client client.Client
}

func setupCluster(mgr ctrl.Manager) error {
	r := &clusterReconciler{client: mgr.GetClient()}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.LocalCluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context,
			obj client.Object) []reconcile.Request {
			cluster, ok := obj.(*clusterv1.Cluster)
			if !ok {
				return nil
			}
			return requestsFor(cluster, cluster.Spec.InfrastructureRef, infrav1.GroupVersion.Group)
		})).
		Watches(&controlplanev1.LocalControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.requestsForControlPlane)).
		Complete(r)
}

func (r *clusterReconciler) requestsForControlPlane(ctx context.Context, obj client.Object) []reconcile.Request {
	cluster, err := ownerCluster(ctx, r.client, obj)
	if err != nil || cluster == nil {
		// The event of the owner reference leads to another request, and the Cluster is cached.
		return nil
	}
	return requestsFor(cluster, cluster.Spec.InfrastructureRef, infrav1.GroupVersion.Group)
}

// requestsFor returns a request for the object that a Cluster refers to, if the object is of the given group.
func requestsFor(cluster *clusterv1.Cluster, ref clusterv1.ContractVersionedObjectReference,
	group string,
) []reconcile.Request {
	if ref.APIGroup != group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}}}
}

// ownerCluster returns the Cluster that owns obj. It returns nil before the core controller has added the owner
// reference, and when the Cluster no longer exists.
func ownerCluster(ctx context.Context, c client.Client, obj client.Object) (*clusterv1.Cluster, error) {
	meta := metav1.ObjectMeta{Namespace: obj.GetNamespace(), OwnerReferences: obj.GetOwnerReferences()}
	cluster, err := util.GetOwnerCluster(ctx, c, meta)
	return cluster, client.IgnoreNotFound(err)
}

// isPaused reports whether the Cluster or obj is paused. The Cluster may be nil.
func isPaused(cluster *clusterv1.Cluster, obj client.Object) bool {
	if cluster == nil {
		return annotations.HasPaused(obj)
	}
	return annotations.IsPaused(cluster, obj)
}

// Reconcile reports the infrastructure as provisioned.
func (r *clusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &infrav1.LocalCluster{}
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := ownerCluster(ctx, r.client, obj)
	if err != nil || isPaused(cluster, obj) {
		return ctrl.Result{}, err
	}
	before := obj.DeepCopy()
	if !obj.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(obj, clusterFinalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, obj, client.MergeFrom(before)))
	}
	if cluster == nil {
		return ctrl.Result{}, nil
	}
	controllerutil.AddFinalizer(obj, clusterFinalizer)
	running, err := r.controlPlaneRuns(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if running {
		setProvisioned(obj)
	}
	return ctrl.Result{}, patchBoth(ctx, r.client, obj, before)
}

// controlPlaneRuns reports whether the Cluster's API server answers, if the Cluster has a LocalControlPlane. The
// infrastructure is provisioned only then, as with a load balancer. Cluster API connects as soon as the infrastructure
// is provisioned, and waits half a minute after a failed attempt.
func (r *clusterReconciler) controlPlaneRuns(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	ref := cluster.Spec.ControlPlaneRef
	if ref.APIGroup != controlplanev1.GroupVersion.Group {
		return true, nil
	}
	cp := &controlplanev1.LocalControlPlane{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}, cp)
	return err == nil && cp.Spec.ControlPlaneEndpoint.Port != 0, client.IgnoreNotFound(err)
}

func setProvisioned(obj *infrav1.LocalCluster) {
	provisioned := true
	obj.Status.Initialization = &infrav1.LocalClusterInitialization{Provisioned: &provisioned}
	obj.Status.ObservedGeneration = obj.Generation
	meta.SetStatusCondition(&obj.Status.Conditions, metav1.Condition{
		Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Provisioned", ObservedGeneration: obj.Generation,
	})
}

// patchBoth writes an object's changes: its metadata and spec, then its status. It does not write unchanged parts.
func patchBoth(ctx context.Context, c client.Client, obj, before client.Object) error {
	data, err := client.MergeFrom(before).Data(obj)
	if err != nil {
		return err
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(data, &changes); err != nil {
		return err
	}
	status, statusChanged := changes["status"]
	delete(changes, "status")
	if len(changes) > 0 {
		rest, err := json.Marshal(changes)
		if err != nil {
			return err
		}
		if err := c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, rest)); err != nil {
			return err
		}
	}
	if !statusChanged {
		return nil
	}
	patch := fmt.Appendf(nil, `{"status":%s}`, status)
	return c.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
}
