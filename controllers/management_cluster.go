/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// managementTitle is what the management cluster is called to people. No Cluster has a name with a space.
const managementTitle = "management cluster"

// isManagement tells whether an object is the one that stands for the management cluster.
func isManagement(cluster metav1.Object) bool {
	return cluster.GetNamespace() == clusterlink.Management.Namespace && cluster.GetName() == clusterlink.Management.Name
}

// placeOf is what a cluster is called in a sentence.
func placeOf(cluster metav1.Object) string {
	if isManagement(cluster) {
		return "the " + managementTitle
	}
	return "Cluster " + cluster.GetName()
}

// readCluster reads a Cluster as the API server serves it. For the management cluster it makes the object that stands for it. It may be
// shared with a cache, and must not be changed.
func readCluster(ctx context.Context, reader client.Reader, key client.ObjectKey, shard string) (*unstructured.Unstructured, error) {
	if key == clusterlink.Management {
		return managementCluster(ctx, reader, shard)
	}
	object := newCluster()
	return object, reader.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
}

// managementCluster is the management cluster in the form of a Cluster: one that is initialized, never paused, and of whatever shard
// asks. Its UID is that of the namespace kube-system, which lives as long as the cluster does: after a move, it is another one.
func managementCluster(ctx context.Context, reader client.Reader, shard string) (*unstructured.Unstructured, error) {
	system, err := systemNamespace(ctx, reader)
	if err != nil {
		return nil, err
	}
	object := newCluster()
	object.SetName(clusterlink.Management.Name)
	object.SetUID(system.UID)
	object.SetCreationTimestamp(system.CreationTimestamp)
	if shard != "" {
		object.SetLabels(map[string]string{addonsv1.ShardLabel: shard})
	}
	err = unstructured.SetNestedField(object.Object, true, "status", "initialization", "controlPlaneInitialized")
	return object, err
}

// systemNamespace reads the namespace kube-system, whose UID identifies the management cluster.
func systemNamespace(ctx context.Context, reader client.Reader) (*metav1.PartialObjectMetadata, error) {
	system := partialOf(kindNamespace)
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		// That it is not found must not pass for a Cluster that is gone.
		return nil, fmt.Errorf("finding out which cluster the management cluster is: %s", err.Error())
	}
	return system, nil
}

// addManagement adds the management cluster, if the HelmOp is to be installed there or was told to be.
func (r *helmOpReconciler) addManagement(ctx context.Context, scope *helmOpScope, children map[client.ObjectKey]*addonsv1.HelmOpRelease) error {
	helmOp, child := scope.helmOp, children[clusterlink.Management]
	delete(children, clusterlink.Management)
	isWanted := helmOp.Spec.ManagementCluster != nil
	if !isWanted && child == nil {
		return nil
	}
	object, err := managementCluster(ctx, r.client, r.shard)
	if err != nil {
		return err
	}
	c := &clusterScope{name: managementTitle, key: clusterlink.Management, object: object, selected: isWanted, child: child}
	if c.cluster, err = typedCluster(object); err != nil {
		return err
	}
	allowed, err := r.guard.allows(ctx, helmOp, clusterlink.Management)
	if err != nil {
		return err
	}
	if isWanted && !allowed {
		c.err = deniedError(helmOp, clusterlink.Management)
		scope.programErr = c.err
	}
	scope.clusters = append(scope.clusters, c)
	return nil
}

// actAs has everything done in the management cluster under the rights of the ServiceAccount that a HelmOp names.
func actAs(options *addonsv1.ReleaseOptions, now *addonsv1.HelmOpSpec) {
	if now.ManagementCluster != nil {
		options.ServiceAccountName = now.ManagementCluster.ServiceAccountName
	}
}
