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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sharding"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
)

// clusterScope holds the state of one Cluster during a pass over a HelmOp.
type clusterScope struct {
	// name is the title of the Cluster: its name, or namespace/name if the Cluster is of another namespace than the
	// HelmOp.
	name string
	key  client.ObjectKey

	// cluster is the Cluster, and object is the same object as the API server serves it. Both are nil if the Cluster does
	// not exist.
	cluster  *clusterv1.Cluster
	object   *unstructured.Unstructured
	selected bool

	// otherShard is the message for a Cluster that is of another shard than the HelmOp, so that its release is left alone.
	// It is empty if both are of the same shard.
	otherShard string

	// child is the HelmOpRelease of the Cluster; nil if there is none.
	child *addonsv1.HelmOpRelease

	// target is the spec of the release under the newest revision, good its spec under the last known good revision, and
	// own its spec under the revision of the child. A spec is nil if it is not known or not needed. Set by render.
	target, good, own *addonsv1.HelmOpReleaseSpec

	// pinned is the spec of the release under the revision to which a user has pinned it; nil if it is not pinned, or if
	// it cannot have that revision. pinErr is why it cannot. Set by render.
	pinned *addonsv1.HelmOpReleaseSpec
	pinErr error

	// rendered is when target was rendered. Set by render.
	rendered tracing.Span

	// err is why target is not known, or for a pinned release, why it is not known whether it can have its revision. Set
	// by render.
	err error

	// references are the objects of the Cluster from which target was rendered. Set by render.
	references []render.ClusterReference

	// blocked is why the dependencies in the Cluster are not ready; empty if they are. Set by checkDependencies.
	blocked string

	// defers is which changes of the release wait for maintenance, and limits is why. Set by checkMaintenance.
	defers rollout.Deferral
	limits maintenance.State

	// step is the step of the plan. Set by record.
	step rollout.Step
}

// selectClusters sets the Clusters of the scope: the selected Clusters, and the Clusters that have a release although
// they are no longer selected.
func (r *Reconciler) selectClusters(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	var selector *selection.Selector
	if scope.selectorErr == nil {
		selector, scope.selectorErr = selection.SelectorOf(helmOp)
	}
	if selector == nil {
		return nil // No Cluster is selected or unselected: the releases stay as they are.
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
			// The release of a Cluster that cannot be read is not changed.
			cluster, selected = &clusterv1.Cluster{}, true
		}
		scope.clusters = append(scope.clusters, &clusterScope{
			name: apiutil.TitleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: object, selected: selected,
			child: child, err: err,
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

// eligibleClusters returns the Clusters of the selected namespaces, except the Clusters that the HelmOp selects but may
// not access. The objects are shared with the cache: read only.
func (r *Reconciler) eligibleClusters(ctx context.Context, scope *helmOpScope,
	selector *selection.Selector,
) ([]unstructured.Unstructured, error) {
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
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading Namespace %s: %w", namespace, err)
			}
			// If the cache does not have the Namespace yet, the event of the Namespace starts another pass.
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
			scope.retryWithin(selection.FailedTTL)
		case !allowed:
			scope.denied++
			scope.retryWithin(selection.DeniedTTL)
		default:
			eligible = append(eligible, *object)
		}
	}
	return eligible, nil
}

// unlistedCluster returns the scope of a Cluster that has a child and is not eligible. Either the Cluster does not
// exist, or its namespace is no longer selected, or the HelmOp may not access the Cluster any more, or the check of the
// access failed.
func (r *Reconciler) unlistedCluster(ctx context.Context, scope *helmOpScope, key client.ObjectKey,
	child *addonsv1.HelmOpRelease,
) (*clusterScope, error) {
	helmOp := scope.helmOp
	c := &clusterScope{name: apiutil.TitleOf(helmOp.Namespace, key), key: key, child: child}
	object := apiutil.NewCluster()
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		// A Cluster that exists has just entered the shard: the cache does not have the Cluster yet.
		exists, err := dependencies.Exists(ctx, r.live, key, sharding.PartialCluster())
		scope.stale = scope.stale || exists
		return c, err
	}
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	if key.Namespace == helmOp.Namespace {
		// The Cluster was created after the list was read.
		scope.stale = true
		return c, nil
	}
	allowed, accessErr := r.guard.Allows(ctx, helmOp, key)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if c.cluster, err = apiutil.TypedCluster(object); err != nil {
		return nil, err
	}
	c.object = object
	// A release stays if its HelmOp lost the access, or if the check of the access failed.
	switch {
	case accessErr != nil:
		c.selected, c.err = true, accessErr
	case !allowed:
		c.selected, c.err = true, selection.DeniedError(helmOp, key)
	}
	return c, nil
}

// addManagement adds the management cluster to the scope, if the HelmOp installs there or has a release there.
func (r *Reconciler) addManagement(ctx context.Context, scope *helmOpScope,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) error {
	helmOp, child := scope.helmOp, children[clusterlink.Management]
	delete(children, clusterlink.Management)
	isWanted := helmOp.Spec.ManagementCluster != nil
	if !isWanted && child == nil {
		return nil
	}
	object, err := clusterview.ManagementCluster(ctx, r.client, r.shard)
	if err != nil {
		return err
	}
	c := &clusterScope{name: apiutil.ManagementTitle, key: clusterlink.Management, object: object, selected: isWanted,
		child: child}
	if c.cluster, err = apiutil.TypedCluster(object); err != nil {
		return err
	}
	allowed, err := r.guard.Allows(ctx, helmOp, clusterlink.Management)
	if err != nil {
		return err
	}
	if isWanted && !allowed {
		c.err = selection.DeniedError(helmOp, clusterlink.Management)
		scope.programErr = c.err
	}
	scope.clusters = append(scope.clusters, c)
	return nil
}
