// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	// Workers adds a class of MachineDeployments with this name. Default: none.
	Workers string
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
	objects := []client.Object{&infrav1.LocalClusterTemplate{ObjectMeta: *own.DeepCopy()}, controlPlane, class}
	if opts.Workers != "" {
		objects = append(workerTemplates(class, opts.Workers), objects...)
	}
	for _, obj := range objects {
		if err := m.Client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create the %T %s/%s: %w", obj, opts.Namespace, opts.Name, err)
		}
	}
	return nil
}

// workerTemplates adds a class of MachineDeployments to a ClusterClass, and returns its templates.
func workerTemplates(class *clusterv1.ClusterClass, name string) []client.Object {
	workers := clusterv1.MachineDeploymentClass{Class: name}
	// The defaults of Cluster API's webhooks, which are not registered.
	one, zero := intstr.FromInt32(1), intstr.FromInt32(0)
	workers.Rollout.Strategy = clusterv1.MachineDeploymentClassRolloutStrategy{
		Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentClassRolloutStrategyRollingUpdate{
			MaxSurge: &one, MaxUnavailable: &zero},
	}
	var templates []client.Object
	for _, one := range []struct {
		kind schema.GroupVersionKind
		ref  *clusterv1.ClusterClassTemplateReference
	}{
		{workerBootstrapKind, &workers.Bootstrap.TemplateRef},
		{workerMachineKind, &workers.Infrastructure.TemplateRef},
	} {
		template := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
		template.SetGroupVersionKind(one.kind)
		template.SetNamespace(class.Namespace)
		template.SetName(class.Name)
		*one.ref = clusterv1.ClusterClassTemplateReference{
			APIVersion: one.kind.GroupVersion().String(), Kind: one.kind.Kind, Name: class.Name}
		templates = append(templates, template)
	}
	class.Spec.Workers.MachineDeployments = append(class.Spec.Workers.MachineDeployments, workers)
	return templates
}

// The kinds of the templates of workers. No provider serves them, because the workers of the test bed have no replicas.
var (
	workerBootstrapKind = schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha1",
		Kind: "LocalConfigTemplate"}
	workerMachineKind = schema.GroupVersionKind{Group: infrav1.GroupVersion.Group, Version: "v1alpha1",
		Kind: "LocalMachineTemplate"}
)

// workerCRDs returns the CustomResourceDefinitions of workers and their templates.
func workerCRDs() []*apiextensionsv1.CustomResourceDefinition {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range []schema.GroupVersionKind{workerBootstrapKind, workerMachineKind} {
		// Cluster API also lists the objects that it would create from a template.
		for _, name := range []string{kind.Kind, strings.TrimSuffix(kind.Kind, "Template")} {
			crd := anyCRD(kind.GroupVersion().WithKind(name), strings.ToLower(name)+"s", strings.ToLower(name))
			crd.Labels = map[string]string{clusterv1.GroupVersion.String(): kind.Version}
			crds = append(crds, crd)
		}
	}
	return crds
}

// CreateClassCluster creates a Cluster of a ClusterClass and returns at once. It ignores Region, Settings, Controllers,
// KwokNodes and HoldBack of the options, because the class sets these properties.
func (m *Management) CreateClassCluster(ctx context.Context, class string,
	opts ClusterOptions,
) (*clusterv1.Cluster, error) {
	opts = m.withDefaults(opts)
	cluster := newCluster(opts)
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: class}, Version: opts.Version}
	if opts.Workers != "" {
		cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{
			{Class: opts.Workers, Name: "workers", Replicas: new(int32)},
		}
	}
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
