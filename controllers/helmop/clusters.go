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
	// name is the title of the Cluster: its name, or namespace/name if the Cluster and the HelmOp have different
	// namespaces.
	name string
	key  client.ObjectKey

	// cluster is the Cluster, and object is the same Cluster in unstructured form. Both are nil if the Cluster does not
	// exist. If awaited is true, cluster is empty.
	cluster  *clusterv1.Cluster
	object   *unstructured.Unstructured
	selected bool

	// kept is true if selected is true only to keep the release: whether the HelmOp selects the Cluster is not known, or
	// the HelmOp may not access the Cluster.
	kept bool

	// awaited is true if the Cluster does not exist, and the child waits for it, see [apiutil.AwaitsCluster]. selected and
	// kept are then true.
	awaited bool

	// otherShard is the message for a Cluster of another shard than the HelmOp. The release of such a Cluster is not
	// changed. otherShard is empty if both have the same shard.
	otherShard string

	// child is the HelmOpRelease of the Cluster; nil if there is none.
	child *addonsv1.HelmOpRelease

	// These are specs of the release: target under the newest revision, good under the last known good revision, and
	// own under the revision of the child. A spec is nil if it is not known or not needed. Set by render.
	target, good, own *addonsv1.HelmOpReleaseSpec

	// goodPending is true if good is not known because of a transient error. Set by render.
	goodPending bool

	// pinned is the spec of the release under the revision to which a user has pinned the release; nil if there is no
	// pin. If the release cannot have this revision, pinned is nil and pinErr has the cause. Set by render.
	pinned *addonsv1.HelmOpReleaseSpec
	pinErr error

	// rendered is the time span in which target was rendered. Set by render.
	rendered tracing.Span

	// err is the cause if target is not known. For a pinned release, err is the cause if the check of the pin failed.
	// Set by render.
	err error

	// references are the objects of the Cluster that target depends on. Set by render.
	references []render.ClusterReference

	// blocked is the cause if dependencies in the Cluster are not ready; otherwise it is empty. Set by
	// checkDependencies.
	blocked string

	// defers lists the changes of the release that wait for maintenance, and limits has the causes. Set by
	// checkMaintenance.
	defers rollout.Deferral
	limits maintenance.State

	// step is the step of the plan for this Cluster. Set by record.
	step rollout.Step
}

// selectClusters sets the Clusters of the scope: the selected Clusters, and unselected Clusters that still have a
// release.
func (r *Reconciler) selectClusters(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	var selector *selection.Selector
	if scope.selectorErr == nil {
		selector, scope.selectorErr = selection.SelectorOf(helmOp)
	}
	if selector == nil {
		return nil // Without a selector, no release is created or deleted.
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
		selected, kept := selector.Matches(object), false
		if !selected && child == nil {
			continue
		}
		delete(byCluster, key)
		cluster, err := r.renderer.Objects.Typed(object)
		if err != nil {
			// If the Cluster cannot be read, its release is not changed.
			cluster, selected, kept = &clusterv1.Cluster{}, true, true
		}
		scope.clusters = append(scope.clusters, &clusterScope{
			name: apiutil.TitleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: object, selected: selected,
			kept: kept, child: child, err: err,
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

// eligibleClusters returns the Clusters of the selected namespaces. It leaves out Clusters that the HelmOp selects but
// may not access. The cache shares the objects: callers must not change them.
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
			// The Namespace may be missing in the cache. Its event then starts another pass.
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
// exist, or its namespace is no longer selected. Or the HelmOp has lost the access, or the check of the access failed.
func (r *Reconciler) unlistedCluster(ctx context.Context, scope *helmOpScope, key client.ObjectKey,
	child *addonsv1.HelmOpRelease,
) (*clusterScope, error) {
	helmOp := scope.helmOp
	c := &clusterScope{name: apiutil.TitleOf(helmOp.Namespace, key), key: key, child: child}
	object := apiutil.NewCluster()
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		// A Cluster that exists has just entered the shard, and the cache does not have it yet.
		exists, err := dependencies.Exists(ctx, r.live, key, sharding.PartialCluster())
		scope.stale = scope.stale || exists
		if err == nil && !exists {
			c.awaited, err = apiutil.AwaitsCluster(ctx, r.client, child)
		}
		if c.awaited {
			c.cluster, c.selected, c.kept = &clusterv1.Cluster{}, true, true
		}
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
	// A release stays if its HelmOp has lost the access, or if the check of the access failed.
	switch {
	case accessErr != nil:
		c.selected, c.kept, c.err = true, true, accessErr
	case !allowed:
		c.selected, c.kept, c.err = true, true, selection.DeniedError(helmOp, key)
	}
	return c, nil
}

// addManagement adds the management cluster to the scope if the HelmOp installs a release in it or has a release in it.
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
