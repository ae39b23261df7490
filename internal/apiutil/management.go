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

// ManagementTitle is what the management cluster is called to people. No Cluster has a name with a space.
const ManagementTitle = "management cluster"

// IsManagement tells whether an object is the one that stands for the management cluster.
func IsManagement(cluster metav1.Object) bool {
	return cluster.GetNamespace() == clusterlink.Management.Namespace && cluster.GetName() == clusterlink.Management.Name
}

// PlaceOf is what a cluster is called in a sentence.
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
		// That it is not found must not pass for a Cluster that is gone.
		return nil, fmt.Errorf("reading the UID of the management cluster: %s", err.Error())
	}
	return system, nil
}
