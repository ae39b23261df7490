// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// controlPlaneFinalizer keeps the object until its processes have ended.
const controlPlaneFinalizer = "controlplane.cluster.x-k8s.io/localcontrolplane"

// hostRetry is the time until a control plane checks again for the API server of its host.
const hostRetry = 200 * time.Millisecond

// deletionDelay is how long a deleted control plane keeps running, less a part of a second. Real control planes take
// longer, because Machines are deleted one after the other. A Cluster that is paused meanwhile stays paused. On a full
// machine the pause by HelmOp took 5 seconds.
const deletionDelay = 15 * time.Second

// DeleteAtOnceAnnotation on a LocalControlPlane makes its deletion skip the deletionDelay.
const DeleteAtOnceAnnotation = "local.helmop.test/delete-at-once"

// Reasons of the condition Available.
const (
	reasonAvailable = "Available"
	reasonHeldBack  = "HeldBack"
)

type controlPlaneReconciler struct {
	client   client.Client
	provider *Provider
}

func setupControlPlane(mgr ctrl.Manager, provider *Provider) error {
	r := &controlPlaneReconciler{client: mgr.GetClient(), provider: provider}
	return ctrl.NewControllerManagedBy(mgr).
		For(&controlplanev1.LocalControlPlane{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context,
			obj client.Object) []reconcile.Request {
			cluster, ok := obj.(*clusterv1.Cluster)
			if !ok {
				return nil
			}
			return requestsFor(cluster, cluster.Spec.ControlPlaneRef, controlplanev1.GroupVersion.Group)
		})).
		Complete(r)
}

// Reconcile starts or stops the processes of one control plane.
func (r *controlPlaneReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &controlplanev1.LocalControlPlane{}
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := ownerCluster(ctx, r.client, obj)
	if err != nil || isPaused(cluster, obj) {
		return ctrl.Result{}, err
	}
	switch {
	case !obj.DeletionTimestamp.IsZero():
		_, atOnce := obj.Annotations[DeleteAtOnceAnnotation]
		if rest := deletionDelay - time.Since(obj.DeletionTimestamp.Time); rest > 0 && !atOnce {
			return ctrl.Result{RequeueAfter: rest}, nil
		}
		return ctrl.Result{}, r.reconcileDelete(ctx, obj)
	case cluster == nil:
		return ctrl.Result{}, nil
	case !controllerutil.ContainsFinalizer(obj, controlPlaneFinalizer):
		// The finalizer is needed before the first process starts, because a deletion must stop all processes.
		before := obj.DeepCopy()
		controllerutil.AddFinalizer(obj, controlPlaneFinalizer)
		if err := r.client.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	if obj.Spec.Host != "" {
		host := hostOf(cluster, obj)
		if r.provider.Server(host) == nil {
			// The start of the host causes no event of this object.
			return ctrl.Result{RequeueAfter: hostRetry}, nil
		}
		r.provider.useHost(client.ObjectKeyFromObject(cluster), host)
	}
	// The LocalCluster need not be provisioned: it waits for the API server.
	return ctrl.Result{}, r.reconcileRunning(ctx, cluster, obj)
}

// hostOf returns the Cluster whose API server a control plane uses.
func hostOf(cluster *clusterv1.Cluster, obj *controlplanev1.LocalControlPlane) types.NamespacedName {
	if obj.Spec.Host == "" {
		return client.ObjectKeyFromObject(cluster)
	}
	return types.NamespacedName{Namespace: cluster.Namespace, Name: obj.Spec.Host}
}

func (r *controlPlaneReconciler) reconcileRunning(ctx context.Context, cluster *clusterv1.Cluster,
	obj *controlplanev1.LocalControlPlane,
) error {
	server, err := r.provider.ensureServer(ctx, hostOf(cluster, obj), obj.Spec)
	if err != nil {
		return err
	}
	// The endpoint is written after the Secret. No other controller deletes the Secret while the control plane runs.
	if obj.Spec.ControlPlaneEndpoint == (controlplanev1.APIEndpoint{}) {
		if err := r.ensureKubeconfig(ctx, client.ObjectKeyFromObject(cluster), obj, server); err != nil {
			return err
		}
	}
	if err := r.provider.ensureVersion(ctx, server, obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	obj.Spec.ControlPlaneEndpoint = endpointOf(server)
	if err := patchBoth(ctx, r.client, obj, before); err != nil {
		return err
	}
	// The status needs the generation that the first patch has made. Otherwise it would be written twice.
	before = obj.DeepCopy()
	setStatus(obj, server.Version())
	return patchBoth(ctx, r.client, obj, before)
}

// isHeld reports whether the upgrade of a running control plane is held.
func isHeld(obj *controlplanev1.LocalControlPlane) bool {
	return obj.Spec.HoldUpgrade && obj.Status.Version != ""
}

// ensureVersion restarts the API server with the program of the desired version, if the provider has the program.
func (p *Provider) ensureVersion(ctx context.Context, server *apiserver.Server,
	obj *controlplanev1.LocalControlPlane,
) error {
	set := p.opts.Versions[obj.Spec.Version]
	if set == nil || obj.Spec.Host != "" || isHeld(obj) || server.Version() == obj.Spec.Version {
		return nil
	}
	return server.Upgrade(ctx, set)
}

func endpointOf(server *apiserver.Server) controlplanev1.APIEndpoint {
	return controlplanev1.APIEndpoint{Host: "127.0.0.1", Port: int32(server.Port())}
}

// setStatus reports a control plane whose API server answers. program is the version of the API server.
func setStatus(obj *controlplanev1.LocalControlPlane, program string) {
	yes, one := true, int32(1)
	status := &obj.Status
	if status.Initialization == nil && !obj.Spec.HoldBack {
		status.Initialization = &controlplanev1.LocalControlPlaneInitialization{ControlPlaneInitialized: &yes}
	}
	status.ExternalManagedControlPlane = &yes
	status.ProgramVersion = program
	if !isHeld(obj) {
		status.Version = obj.Spec.Version
	}
	if status.Version == "" {
		status.Version = program
	}
	status.Selector = clusterv1.ClusterNameLabel + "=" + obj.Labels[clusterv1.ClusterNameLabel]
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpToDateReplicas = &one, &one, &one, &one
	status.ObservedGeneration = obj.Generation
	available := metav1.Condition{
		Type: controlplanev1.AvailableCondition, Status: metav1.ConditionTrue, Reason: reasonAvailable,
		ObservedGeneration: obj.Generation,
	}
	if status.Initialization == nil {
		available.Status, available.Reason = metav1.ConditionFalse, reasonHeldBack
		available.Message = "spec.holdBack keeps the control plane from becoming initialised"
	}
	meta.SetStatusCondition(&status.Conditions, available)
}

// ensureKubeconfig creates the Cluster's kubeconfig Secret. It does not change an existing Secret, so that tests may
// break it.
func (r *controlPlaneReconciler) ensureKubeconfig(ctx context.Context, cluster types.NamespacedName,
	obj *controlplanev1.LocalControlPlane, server *apiserver.Server,
) error {
	data, err := server.Kubeconfig()
	if obj.Spec.Host != "" {
		data, err = server.UserKubeconfig(cluster.Name, "system:masters")
	}
	if err != nil {
		return err
	}
	owner := metav1.NewControllerRef(obj, controlplanev1.GroupVersion.WithKind("LocalControlPlane"))
	err = r.client.Create(ctx, kubeconfig.GenerateSecretWithOwner(cluster, data, *owner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the kubeconfig Secret: %w", err)
	}
	return nil
}

func (r *controlPlaneReconciler) reconcileDelete(ctx context.Context, obj *controlplanev1.LocalControlPlane) error {
	if !controllerutil.ContainsFinalizer(obj, controlPlaneFinalizer) {
		return nil
	}
	// The label is as reliable as the owner reference, and stays after the Cluster is deleted.
	cluster := types.NamespacedName{Namespace: obj.Namespace, Name: obj.Labels[clusterv1.ClusterNameLabel]}
	if obj.Spec.Host != "" {
		r.provider.leaveHost(cluster)
	} else if err := r.provider.stopServer(ctx, cluster); err != nil {
		return err
	}
	// Without a garbage collector, no other controller deletes the Secret.
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace,
		Name: secret.Name(cluster.Name, secret.Kubeconfig)}}
	if err := r.client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
		return err
	}
	before := obj.DeepCopy()
	controllerutil.RemoveFinalizer(obj, controlPlaneFinalizer)
	return client.IgnoreNotFound(r.client.Patch(ctx, obj, client.MergeFrom(before)))
}

// RotateKubeconfig restarts the Cluster's API server with a new certificate authority and writes the new kubeconfig
// into the Cluster's Secret. The old kubeconfig is invalid from the restart on.
func (p *Provider) RotateKubeconfig(ctx context.Context, cluster types.NamespacedName,
	opts apiserver.RotateOptions,
) error {
	server := p.Server(cluster)
	if server == nil {
		return fmt.Errorf("the Cluster %s has no running control plane", cluster)
	}
	if err := server.Rotate(ctx, opts); err != nil {
		return err
	}
	return p.WriteKubeconfig(ctx, cluster)
}

// WriteKubeconfig sets the Cluster's kubeconfig Secret to a kubeconfig that the control plane accepts.
func (p *Provider) WriteKubeconfig(ctx context.Context, cluster types.NamespacedName) error {
	server := p.Server(cluster)
	if server == nil {
		return fmt.Errorf("the Cluster %s has no running control plane", cluster)
	}
	data, err := server.Kubeconfig()
	if err != nil {
		return err
	}
	obj := &corev1.Secret{}
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	// The cache has no Secrets, because no controller of the provider watches them.
	if err := p.mgr.GetAPIReader().Get(ctx, key, obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	obj.Data = map[string][]byte{secret.KubeconfigDataName: data}
	return p.client.Patch(ctx, obj, client.MergeFrom(before))
}
