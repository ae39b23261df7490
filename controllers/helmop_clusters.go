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
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// clusterScope is what a pass over a HelmOp knows of one Cluster.
type clusterScope struct {
	// name is what the Cluster is called to people: its name, or namespace/name where it is of another namespace than the HelmOp.
	name string
	key  client.ObjectKey

	// cluster is nil if the Cluster is gone; object is the same as the API server serves it.
	cluster  *clusterv1.Cluster
	object   *unstructured.Unstructured
	selected bool

	// elsewhere tells that the Cluster is of another shard than the HelmOp, so that its release is left alone; empty if it is not.
	elsewhere string

	// child is what the Cluster was told; nil if nothing.
	child *addonsv1.HelmOpRelease

	// target is what the Cluster is to have under the revision that is wanted, good under the last good one, and own under that which
	// its child is made from; nil if that is not known or not needed. Set by render.
	target, good, own *addonsv1.HelmOpReleaseSpec

	// err tells why target is not known. Set by render.
	err error

	// blocked is why what comes before is not ready in the Cluster; empty if it is. Set by checkDependencies.
	blocked string

	// step is what is done. Set by record.
	step rollout.Step
}

// selectClusters finds the Clusters that are selected, and those that have a release from when they were.
func (r *helmOpReconciler) selectClusters(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	selector := scope.selectorOf("spec.clusterSelector", helmOp.Spec.ClusterSelector)
	if scope.isMalformed() {
		return nil
	}
	objects, err := r.eligibleClusters(ctx, scope, selector)
	if err != nil || scope.isMalformed() {
		return err
	}
	children, err := r.children(ctx, helmOp)
	if err != nil {
		return err
	}
	byCluster := make(map[client.ObjectKey]*addonsv1.HelmOpRelease, len(children))
	for _, child := range children {
		byCluster[clusterKey(child)] = child
		scope.stale = scope.stale || r.told.isStale(child, r.now())
	}
	for i := range objects {
		object := &objects[i]
		key := client.ObjectKeyFromObject(object)
		child := byCluster[key]
		selected := selector.Matches(labels.Set(object.GetLabels()))
		if !selected && child == nil {
			continue
		}
		delete(byCluster, key)
		cluster, err := r.renderer.objects.typed(object)
		if err != nil {
			// What cannot be read is left as it is.
			cluster, selected = &clusterv1.Cluster{}, true
		}
		scope.clusters = append(scope.clusters, &clusterScope{
			name: titleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: object, selected: selected, child: child, err: err,
		})
	}
	if err := r.addManagement(ctx, scope, byCluster); err != nil {
		return err
	}
	if err := r.addUnlisted(ctx, scope, selector, byCluster); err != nil {
		return err
	}
	slices.SortFunc(scope.clusters, func(a, b *clusterScope) int { return cmp.Compare(a.name, b.name) })
	return nil
}

// selectorOf is a label selector of the spec. With one that is malformed nothing is selected and nothing unselected: releases stay as they
// are.
func (s *helmOpScope) selectorOf(field string, selector *metav1.LabelSelector) labels.Selector {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil && s.selectorErr == nil {
		s.selectorErr = fmt.Errorf("%s: %w", field, err)
	}
	return compiled
}

// isMalformed tells whether a selector is.
func (s *helmOpScope) isMalformed() bool { return s.selectorErr != nil }

// titleOf names a Cluster to people who look from a namespace.
func titleOf(namespace string, cluster client.ObjectKey) string {
	if cluster == clusterlink.Management {
		return managementTitle
	}
	if cluster.Namespace == namespace {
		return cluster.Name
	}
	return cluster.String()
}
