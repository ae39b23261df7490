// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
)

// ClassOptions describe a ClusterClass with its templates.
type ClassOptions struct {
	// Namespace must exist. Default: "default".
	Namespace string
	// Name of the ClusterClass, the LocalClusterTemplate and the LocalControlPlaneTemplate. Required.
	Name string
	// KubernetesVersions are the versions through which Clusters may be upgraded, in order. Default: upgrades of at most
	// one minor version, to any version.
	KubernetesVersions []string
	// Controllers and KwokNodes are set for each control plane of the class.
	Controllers bool
	KwokNodes   int32
}

// CreateClass creates a ClusterClass of the local provider.
func (m *Management) CreateClass(ctx context.Context, opts ClassOptions) error {
	if opts.Namespace == "" {
		opts.Namespace = metav1.NamespaceDefault
	}
	own := metav1.ObjectMeta{Namespace: opts.Namespace, Name: opts.Name}
	class := &clusterv1.ClusterClass{ObjectMeta: *own.DeepCopy()}
	class.Spec.KubernetesVersions = opts.KubernetesVersions
	class.Spec.Infrastructure.TemplateRef = clusterv1.ClusterClassTemplateReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "LocalClusterTemplate", Name: opts.Name,
	}
	class.Spec.ControlPlane.TemplateRef = clusterv1.ClusterClassTemplateReference{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "LocalControlPlaneTemplate", Name: opts.Name,
	}
	controlPlane := &controlplanev1.LocalControlPlaneTemplate{ObjectMeta: *own.DeepCopy()}
	controlPlane.Spec.Template.Spec = controlplanev1.LocalControlPlaneTemplateResourceSpec{
		Controllers: opts.Controllers, KwokNodes: opts.KwokNodes,
	}
	for _, obj := range []client.Object{&infrav1.LocalClusterTemplate{ObjectMeta: *own.DeepCopy()}, controlPlane, class} {
		if err := m.Client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create the %T %s/%s: %w", obj, opts.Namespace, opts.Name, err)
		}
	}
	return nil
}

// CreateClassCluster creates a Cluster of a ClusterClass and returns at once. It ignores Region, Settings, Controllers,
// KwokNodes and HoldBack of the options: the class sets these.
func (m *Management) CreateClassCluster(ctx context.Context, class string,
	opts ClusterOptions,
) (*clusterv1.Cluster, error) {
	opts = m.withDefaults(opts)
	cluster := newCluster(opts)
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: class}, Version: opts.Version}
	if err := m.Client.Create(ctx, cluster); err != nil {
		return nil, fmt.Errorf("create the Cluster %s/%s: %w", opts.Namespace, opts.Name, err)
	}
	return cluster, nil
}

// Upgrade sets another version of Kubernetes in a Cluster of a ClusterClass, and returns at once.
func (m *Management) Upgrade(ctx context.Context, cluster types.NamespacedName, version string) error {
	obj := &clusterv1.Cluster{}
	if err := m.Client.Get(ctx, cluster, obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	obj.Spec.Topology.Version = version
	return m.Client.Patch(ctx, obj, client.MergeFrom(before))
}

// ControlPlane returns the LocalControlPlane of a Cluster.
func (m *Management) ControlPlane(ctx context.Context,
	cluster types.NamespacedName,
) (*controlplanev1.LocalControlPlane, error) {
	obj := &clusterv1.Cluster{}
	if err := m.Client.Get(ctx, cluster, obj); err != nil {
		return nil, err
	}
	controlPlane := &controlplanev1.LocalControlPlane{}
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: obj.Spec.ControlPlaneRef.Name}
	return controlPlane, m.Client.Get(ctx, key, controlPlane)
}

// HoldUpgrade holds upgrades of the control plane of a Cluster, or permits them again.
func (m *Management) HoldUpgrade(ctx context.Context, cluster types.NamespacedName, hold bool) error {
	obj, err := m.ControlPlane(ctx, cluster)
	if err != nil {
		return err
	}
	before := obj.DeepCopy()
	obj.Spec.HoldUpgrade = hold
	return m.Client.Patch(ctx, obj, client.MergeFrom(before))
}

// FinishStep makes a control plane whose upgrades are held report the version in its spec, as if it had finished the
// upgrade to it. The next upgrade is held, too.
func (m *Management) FinishStep(ctx context.Context, cluster types.NamespacedName) error {
	obj, err := m.ControlPlane(ctx, cluster)
	if err != nil {
		return err
	}
	before := obj.DeepCopy()
	obj.Status.Version = obj.Spec.Version
	return m.Client.Status().Patch(ctx, obj, client.MergeFrom(before))
}
