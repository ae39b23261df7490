// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

const (
	// DefaultReleaseNamespace is the namespace of a release that does not set one.
	DefaultReleaseNamespace = "default"

	// ClusterKind is the kind of a Cluster.
	ClusterKind = "Cluster"
)

// ClusterRefOf returns the reference to a Cluster from an object in a namespace.
func ClusterRefOf(namespace string, key client.ObjectKey) addonsv1.ClusterReference {
	switch {
	case key == clusterlink.Management:
		return addonsv1.ClusterReference{Kind: addonsv1.ClusterKindManagementCluster, Name: key.Name}
	case key.Namespace == namespace:
		return addonsv1.ClusterReference{Name: key.Name}
	}
	return addonsv1.ClusterReference{Namespace: key.Namespace, Name: key.Name}
}

// NewCluster returns an empty Cluster to read into. The Cluster is unstructured. So templates can use all fields that
// the API server serves, also fields that the Cluster API types of this program do not have.
func NewCluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	return u
}

// NewClusterList returns an empty list of unstructured Clusters. The cache holds Clusters in this form.
func NewClusterList() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterList"))
	return u
}

// TypedCluster converts an unstructured Cluster to the type of Cluster API.
func TypedCluster(u *unstructured.Unstructured) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cluster); err != nil {
		return nil, fmt.Errorf("reading Cluster %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return cluster, nil
}

// IsInitialized reports whether the control plane of a Cluster is initialized, so that releases can be installed. Nodes
// need not be ready: they may need a chart of HelmOp first, for example a CNI.
func IsInitialized(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// IsClusterPaused reports whether a user has paused a Cluster, with spec.paused or with the annotation. If HelmOp has
// set spec.paused to hold the deletion of the Cluster, only the annotation counts.
func IsClusterPaused(cluster *clusterv1.Cluster) bool {
	if HoldOf(cluster).IsOn() {
		return annotations.HasPaused(cluster)
	}
	return annotations.IsPaused(cluster, cluster)
}
