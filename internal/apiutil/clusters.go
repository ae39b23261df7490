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
	// DefaultReleaseNamespace is where a release goes whose namespace is not set.
	DefaultReleaseNamespace = "default"

	// ClusterKind is the kind of a Cluster.
	ClusterKind = "Cluster"
)

// ClusterRefOf is the reference to a Cluster from a namespace.
func ClusterRefOf(namespace string, key client.ObjectKey) addonsv1.ClusterReference {
	switch {
	case key == clusterlink.Management:
		return addonsv1.ClusterReference{Kind: addonsv1.ClusterKindManagementCluster, Name: key.Name}
	case key.Namespace == namespace:
		return addonsv1.ClusterReference{Name: key.Name}
	}
	return addonsv1.ClusterReference{Namespace: key.Namespace, Name: key.Name}
}

// NewCluster is an empty Cluster to read into. Clusters are read as the API server serves them, not as the types of the
// Cluster API version that this program was built with: templates see the fields that users see.
func NewCluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	return u
}

// NewClusterList is an empty list of Clusters, as the cache has them.
func NewClusterList() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterList"))
	return u
}

// TypedCluster is the Cluster in the types of Cluster API, for decisions.
func TypedCluster(u *unstructured.Unstructured) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cluster); err != nil {
		return nil, fmt.Errorf("reading Cluster %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return cluster, nil
}

// IsInitialized tells whether the control plane of a Cluster can be served. Nodes need not be ready: it may be our
// chart, a CNI for example, that makes them so.
func IsInitialized(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// IsClusterPaused tells whether nothing may be done for a Cluster. While its deletion is held, spec.paused is part of
// that.
func IsClusterPaused(cluster *clusterv1.Cluster) bool {
	if HoldOf(cluster).IsOn() {
		return annotations.HasPaused(cluster)
	}
	return annotations.IsPaused(cluster, cluster)
}
