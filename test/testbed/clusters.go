// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
)

// pollInterval is the time between two polls in all waits for objects.
const pollInterval = 100 * time.Millisecond

// ClusterOptions describe a workload cluster.
type ClusterOptions struct {
	// Namespace must exist. Default: "default".
	Namespace string
	// Name of the Cluster, the LocalCluster and the LocalControlPlane. Required.
	Name string
	// Labels and Annotations are set on the Cluster.
	Labels, Annotations map[string]string
	// PodCIDRs and ServiceCIDRs are set in the Cluster's spec.clusterNetwork. Default: none.
	PodCIDRs, ServiceCIDRs []string
	// Region and Settings are set on the LocalCluster, for templates to read.
	Region   string
	Settings map[string]string
	// Controllers and KwokNodes are set on the LocalControlPlane.
	Controllers bool
	KwokNodes   int32
	// Host names another Cluster of the namespace whose API server this Cluster uses, as a user with its own name.
	// Default: the Cluster has its own API server.
	Host string
	// Version is the version of Kubernetes in the control plane's status. Default: the version that runs.
	Version string
	// Workers is the class of a MachineDeployment without replicas, for CreateClassCluster. Default: no workers.
	Workers string
	// HoldBack keeps the control plane from becoming initialized until Release.
	HoldBack bool
}

// CreateCluster creates a Cluster with its LocalCluster and LocalControlPlane, and returns at once.
func (m *Management) CreateCluster(ctx context.Context, opts ClusterOptions) (*clusterv1.Cluster, error) {
	objs := m.ClusterObjects(opts)
	for _, obj := range objs {
		if err := m.Client.Create(ctx, obj); err != nil {
			return nil, fmt.Errorf("create the %T %s/%s: %w", obj, obj.GetNamespace(), obj.GetName(), err)
		}
	}
	return objs[len(objs)-1].(*clusterv1.Cluster), nil
}

// ClusterObjects returns the objects of a Cluster, with the Cluster last.
func (m *Management) ClusterObjects(opts ClusterOptions) []client.Object {
	opts = m.withDefaults(opts)
	own := metav1.ObjectMeta{
		Namespace: opts.Namespace, Name: opts.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: opts.Name},
	}
	return []client.Object{
		&infrav1.LocalCluster{
			ObjectMeta: own,
			Spec:       infrav1.LocalClusterSpec{Region: opts.Region, Settings: opts.Settings},
		},
		&controlplanev1.LocalControlPlane{
			ObjectMeta: *own.DeepCopy(),
			Spec: controlplanev1.LocalControlPlaneSpec{
				Version: opts.Version, Controllers: opts.Controllers, KwokNodes: opts.KwokNodes, HoldBack: opts.HoldBack,
				Host: opts.Host,
			},
		},
		newCluster(opts),
	}
}

func (m *Management) withDefaults(opts ClusterOptions) ClusterOptions {
	if opts.Namespace == "" {
		opts.Namespace = metav1.NamespaceDefault
	}
	if opts.Version == "" {
		opts.Version = m.Server.Version()
	}
	return opts
}

func newCluster(opts ClusterOptions) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: opts.Namespace, Name: opts.Name, Labels: opts.Labels, Annotations: opts.Annotations,
		},
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork: clusterv1.ClusterNetwork{
				Pods:     clusterv1.NetworkRanges{CIDRBlocks: opts.PodCIDRs},
				Services: clusterv1.NetworkRanges{CIDRBlocks: opts.ServiceCIDRs},
			},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster", Name: opts.Name,
			},
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: controlplanev1.GroupVersion.Group, Kind: "LocalControlPlane", Name: opts.Name,
			},
		},
	}
}

// Release makes a control plane initialized that ClusterOptions.HoldBack held.
func (m *Management) Release(ctx context.Context, cluster types.NamespacedName) error {
	obj := &controlplanev1.LocalControlPlane{}
	if err := m.Client.Get(ctx, cluster, obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	obj.Spec.HoldBack = false
	return m.Client.Patch(ctx, obj, client.MergeFrom(before))
}

// WaitClusterAvailable returns when Cluster API's core manager reports the Cluster as provisioned, connected and
// available. If ctx ends first, the error names what is missing. The function watches the Cluster: polls would be the
// most frequent requests of a test suite.
func (m *Management) WaitClusterAvailable(ctx context.Context, key types.NamespacedName) error {
	missing := errors.New("the Cluster was never read")
	_, err := toolswatch.UntilWithSync(ctx, m.watchOf(key), &clusterv1.Cluster{}, nil,
		func(event watch.Event) (bool, error) {
			cluster, ok := event.Object.(*clusterv1.Cluster)
			if !ok || event.Type == watch.Deleted {
				missing = fmt.Errorf("the Cluster had the event %s", event.Type)
				return false, nil
			}
			missing = unavailable(cluster)
			return missing == nil, nil
		})
	if err != nil {
		return fmt.Errorf("wait for the Cluster %s to be available: %w: %w", key, err, missing)
	}
	return nil
}

// watchOf lists and watches one Cluster.
func (m *Management) watchOf(key types.NamespacedName) *cache.ListWatch {
	only := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := &clusterv1.ClusterList{}
			return list, m.watcher.List(ctx, list, append(slices.Clone(only), &client.ListOptions{Raw: &raw})...)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return m.watcher.Watch(ctx, &clusterv1.ClusterList{},
				append(slices.Clone(only), &client.ListOptions{Raw: &raw})...)
		},
	}
}

// unavailable returns an error that names what a Cluster lacks, or nil.
func unavailable(cluster *clusterv1.Cluster) error {
	if phase := cluster.Status.Phase; phase != string(clusterv1.ClusterPhaseProvisioned) {
		return fmt.Errorf("the phase is %q", phase)
	}
	for _, kind := range []string{clusterv1.ClusterRemoteConnectionProbeCondition, clusterv1.ClusterAvailableCondition} {
		condition := meta.FindStatusCondition(cluster.Status.Conditions, kind)
		if condition == nil {
			return fmt.Errorf("there is no condition %s", kind)
		}
		if condition.Status != metav1.ConditionTrue {
			return fmt.Errorf("%s is %s: %s: %s", kind, condition.Status, condition.Reason, condition.Message)
		}
	}
	return nil
}

// WaitGone waits until obj no longer exists.
func (m *Management) WaitGone(ctx context.Context, obj client.Object) error {
	key := client.ObjectKeyFromObject(obj)
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := m.Client.Get(ctx, key, obj)
		return err != nil && client.IgnoreNotFound(err) == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the %T %s to be gone: %w", obj, key, err)
	}
	return nil
}
