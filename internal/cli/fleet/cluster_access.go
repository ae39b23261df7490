// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// clusterAccess says which Clusters the user may list.
type clusterAccess struct {
	// namespace is the namespace in which the user may list Clusters; empty for all namespaces.
	namespace string

	// denied is the error for Clusters that the user may not list; nil if there are none. isBlind means that the user may
	// list no Clusters.
	denied  error
	isBlind bool
}

// accessTo returns which Clusters the user may list. list lists the Clusters of a namespace.
func accessTo(w *fleetview.World, namespace string, list func(namespace string) error) (clusterAccess, error) {
	var denied error
	for _, candidate := range clusterNamespaces(w, namespace) {
		err := list(candidate)
		if err == nil || !apierrors.IsForbidden(err) {
			return clusterAccess{namespace: candidate, denied: denied}, err
		}
		denied = err
	}
	return clusterAccess{denied: denied, isBlind: true}, nil
}

// covers reports whether the user may list a Cluster.
func (a *clusterAccess) covers(cluster client.ObjectKey) bool {
	return a.denied == nil || !a.isBlind && cluster.Namespace == a.namespace
}

// warning returns a text about the Clusters that the user may not list.
func (a *clusterAccess) warning() string {
	missing := "Clusters"
	if !a.isBlind {
		missing = "Clusters of other namespaces"
	}
	return fmt.Sprintf("%v. %s without a release are not shown", a.denied, missing)
}

// clusterNamespaces returns the namespaces in which to list Clusters, in order of preference. The caller uses the first
// namespace that the user may list. An empty name means all namespaces.
func clusterNamespaces(w *fleetview.World, namespace string) []string {
	for _, helmOp := range w.HelmOps {
		if helmOp.Spec.ClusterNamespaces != nil && namespace != "" {
			return []string{"", namespace}
		}
	}
	return []string{namespace}
}
