// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// ManagementTitle is the name of the management cluster in messages. No Cluster has this name, because of the space.
const ManagementTitle = "management cluster"

// IsManagement reports whether an object is the Cluster that represents the management cluster.
func IsManagement(cluster metav1.Object) bool {
	return cluster.GetNamespace() == clusterlink.Management.Namespace && cluster.GetName() == clusterlink.Management.Name
}

// PlaceOf returns the name of a cluster for use in a sentence: "Cluster a" or "the management cluster".
func PlaceOf(cluster metav1.Object) string {
	if IsManagement(cluster) {
		return "the " + ManagementTitle
	}
	return "Cluster " + cluster.GetName()
}

// SystemNamespace reads the namespace kube-system, whose UID identifies the management cluster.
func SystemNamespace(ctx context.Context, reader client.Reader) (*metav1.PartialObjectMetadata, error) {
	system := PartialOf(KindNamespace)
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		// The error is not wrapped: a caller would take a NotFound error to mean that the Cluster does not exist.
		return nil, fmt.Errorf("reading the UID of the management cluster: %s", err.Error())
	}
	return system, nil
}
