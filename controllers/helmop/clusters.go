// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
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

	// otherShard tells that the Cluster is of another shard than the HelmOp, so that its release is left alone; empty if it is not.
	otherShard string

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
func (r *Reconciler) selectClusters(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	if scope.selectorErr != nil {
		return nil
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		// Nothing is selected and nothing unselected: the releases stay as they are.
		scope.selectorErr = err
		return nil
	}
	objects, err := r.eligibleClusters(ctx, scope, selector)
	if err != nil {
		return err
	}
	children, err := r.children(ctx, helmOp)
	if err != nil {
		return err
	}
	byCluster := make(map[client.ObjectKey]*addonsv1.HelmOpRelease, len(children))
	for _, child := range children {
		byCluster[apiutil.ClusterKey(child)] = child
	}
	for i := range objects {
		object := &objects[i]
		key := client.ObjectKeyFromObject(object)
		child := byCluster[key]
		selected := selector.Matches(object)
		if !selected && child == nil {
			continue
		}
		delete(byCluster, key)
		cluster, err := r.renderer.Objects.Typed(object)
		if err != nil {
			// What cannot be read is left as it is.
			cluster, selected = &clusterv1.Cluster{}, true
		}
		scope.clusters = append(scope.clusters, &clusterScope{
			name: apiutil.TitleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: object, selected: selected, child: child, err: err,
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

// eligibleClusters are the Clusters of the selected namespaces, without those that the HelmOp selects and may not access. The objects
// are shared with the cache.
func (r *Reconciler) eligibleClusters(ctx context.Context, scope *helmOpScope, selector *selection.Selector) ([]unstructured.Unstructured, error) {
	helmOp := scope.helmOp
	list := apiutil.NewClusterList()
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if helmOp.Spec.ClusterNamespaces == nil {
		options = append(options, client.InNamespace(helmOp.Namespace))
	}
	if err := r.client.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	if helmOp.Spec.ClusterNamespaces == nil {
		return list.Items, nil
	}
	var eligible []unstructured.Unstructured
	namespaces := map[string]bool{}
	for i := range list.Items {
		object := &list.Items[i]
		namespace := object.GetNamespace()
		if _, known := namespaces[namespace]; !known {
			selected, err := selector.SelectsNamespace(ctx, r.client, namespace)
			if err != nil {
				return nil, fmt.Errorf("reading Namespace %s: %w", namespace, err)
			}
			namespaces[namespace] = selected
		}
		if !namespaces[namespace] {
			continue
		}
		if !selector.Matches(object) {
			eligible = append(eligible, *object)
			continue
		}
		switch allowed, err := r.guard.Allows(ctx, helmOp, client.ObjectKeyFromObject(object)); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			scope.unknownAccess++
			scope.retryWithin(selection.FailedMemory)
		case !allowed:
			scope.denied++
			scope.retryWithin(selection.DeniedMemory)
		default:
			eligible = append(eligible, *object)
		}
	}
	return eligible, nil
}

// unlistedCluster is the Cluster of a child that the selector may not choose: it is gone, its namespace is not chosen any more, it
// may not be accessed any more, or it is not known whether it may.
func (r *Reconciler) unlistedCluster(ctx context.Context, scope *helmOpScope, key client.ObjectKey, child *addonsv1.HelmOpRelease) (*clusterScope, error) {
	helmOp := scope.helmOp
	c := &clusterScope{name: apiutil.TitleOf(helmOp.Namespace, key), key: key, child: child}
	object := apiutil.NewCluster()
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		// One that is there has just come into the shard: the cache is about to show it.
		isThere, err := dependencies.Exists(ctx, r.live, key, partialCluster())
		scope.stale = scope.stale || isThere
		return c, err
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	if key.Namespace == helmOp.Namespace {
		// It came after the list was read.
		scope.stale = true
		return c, nil
	}
	allowed, askErr := r.guard.Allows(ctx, helmOp, key)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if c.cluster, err = apiutil.TypedCluster(object); err != nil {
		return nil, err
	}
	c.object = object
	// What was installed with a right that is gone stays, and so does what nobody knows of whether it is.
	switch {
	case askErr != nil:
		c.selected, c.err = true, askErr
	case !allowed:
		c.selected, c.err = true, selection.DeniedError(helmOp, key)
	}
	return c, nil
}
