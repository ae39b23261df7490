// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
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

// AwaitsCluster reports whether a release whose Cluster does not exist waits for the Cluster. The release comes from
// another management cluster, and HelmOp has not found its Cluster in this management cluster yet: clusterctl move or a
// restore may create the Cluster later. The annotation orphan ends the wait. The result is false if the takeover of the
// release has begun, because the Cluster existed then.
func AwaitsCluster(ctx context.Context, reader client.Reader, release *addonsv1.HelmOpRelease) (bool, error) {
	manager, _, _ := strings.Cut(release.Annotations[addonsv1.ManagementClusterAnnotation], ",")
	manager = strings.TrimSpace(manager)
	if manager == "" || release.Status.ClusterUID != "" || release.Annotations[addonsv1.OrphanAnnotation] == "true" {
		return false, nil
	}
	system, err := SystemNamespace(ctx, reader)
	return err == nil && manager != string(system.UID), err
}
