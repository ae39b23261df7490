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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// metadataPage bounds what one answer about the objects of other shards holds.
	metadataPage = 500

	// maxAskedSingly is up to how many Clusters are asked for one by one. A Cluster that is gone is one for each of its HelmOps, and a list of
	// those of all other shards for each of these would be hundreds of megabytes.
	maxAskedSingly = 50
)

// addUnlisted adds the Clusters of children that the selector may not choose from: they are gone, of another shard, or of a namespace
// that is not chosen any more. That the cache does not have a Cluster says nothing yet: it has those of the own shard only.
func (r *helmOpReconciler) addUnlisted(ctx context.Context, scope *helmOpScope, selector labels.Selector,
	children map[client.ObjectKey]*addonsv1.HelmOpRelease,
) error {
	if len(children) == 0 {
		return nil
	}
	absent, err := r.absentClusters(ctx, children)
	if err != nil {
		return err
	}
	elsewhere, err := r.clustersElsewhere(ctx, absent)
	if err != nil {
		return err
	}
	for key, child := range children {
		if object, ok := elsewhere[key]; ok {
			scope.clusters = append(scope.clusters, elsewhereScope(scope.helmOp, key, object, selector, child))
			continue
		}
		c, err := r.unlistedCluster(ctx, scope, key, child)
		if err != nil {
			return err
		}
		scope.clusters = append(scope.clusters, c)
	}
	return nil
}

// absentClusters are the Clusters of children that the cache does not have.
func (r *helmOpReconciler) absentClusters(ctx context.Context, children map[client.ObjectKey]*addonsv1.HelmOpRelease) (sets.Set[client.ObjectKey], error) {
	absent := sets.Set[client.ObjectKey]{}
	for key := range children {
		there, err := exists(ctx, r.client, key, newCluster())
		if err != nil {
			return nil, err
		}
		if !there {
			absent.Insert(key)
		}
	}
	return absent, nil
}

// clustersElsewhere are those of some Clusters that are of other shards. Many are one question for each namespace.
func (r *helmOpReconciler) clustersElsewhere(ctx context.Context, keys sets.Set[client.ObjectKey]) (
	map[client.ObjectKey]*metav1.PartialObjectMetadata, error,
) {
	elsewhere := map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	if keys.Len() <= maxAskedSingly {
		for key := range keys {
			object := partialCluster()
			there, err := exists(ctx, r.live, key, object)
			if err != nil {
				return nil, err
			}
			if there && !isOfShard(object, r.shard) {
				elsewhere[key] = object
			}
		}
		return elsewhere, nil
	}
	namespaces := sets.Set[string]{}
	for key := range keys {
		namespaces.Insert(key.Namespace)
	}
	for namespace := range namespaces {
		err := listMetadata(ctx, r.live, clusterv1.GroupVersion.WithKind(clusterKind), func(object *metav1.PartialObjectMetadata) {
			if key := client.ObjectKeyFromObject(object); keys.Has(key) {
				elsewhere[key] = object.DeepCopy()
			}
		}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: otherShards(r.shard)})
		if err != nil {
			return nil, fmt.Errorf("listing the Clusters of other shards: %w", err)
		}
	}
	return elsewhere, nil
}

// elsewhereScope is a Cluster of another shard. Its labels are what is known of it, so that it stays in its wave.
func elsewhereScope(helmOp *addonsv1.HelmOp, key client.ObjectKey, object *metav1.PartialObjectMetadata, selector labels.Selector,
	child *addonsv1.HelmOpRelease,
) *clusterScope {
	cluster := &clusterv1.Cluster{ObjectMeta: object.ObjectMeta}
	known := newCluster()
	known.SetNamespace(key.Namespace)
	known.SetName(key.Name)
	known.SetLabels(object.Labels)
	return &clusterScope{
		name: titleOf(helmOp.Namespace, key), key: key, cluster: cluster, object: known, child: child,
		selected: selector.Matches(labels.Set(object.Labels)), elsewhere: otherShardMessage(object, helmOp),
	}
}

// isHeldElsewhere tells whether a release is left alone because its Cluster is of another shard. One that is wanted no more may end if
// that means to let go of it.
func isHeldElsewhere(c *clusterScope, policy addonsv1.DeletionPolicy) bool {
	return c.elsewhere != "" && (c.selected || policy != addonsv1.DeletionPolicyOrphan)
}

// exists tells whether an object that the cache does not have is there, and reads it.
func exists(ctx context.Context, live client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := live.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", into.GetObjectKind().GroupVersionKind().Kind, key, err)
	}
	return true, nil
}

// readDependency is the dependency on a HelmOp, be it of another shard: what is there is not told to be missing.
func readDependency(ctx context.Context, live client.Reader, shard, namespace string, named addonsv1.Dependency, helmOps []addonsv1.HelmOp) (dependency, error) {
	d := newDependency(named, findHelmOp(helmOps, named.Name))
	if d.helmOp != nil {
		return d, nil
	}
	other := &metav1.PartialObjectMetadata{}
	other.SetGroupVersionKind(addonsv1.GroupVersion.WithKind(helmOpKind))
	ok, err := exists(ctx, live, client.ObjectKey{Namespace: namespace, Name: named.Name}, other)
	if ok && !isOfShard(other, shard) {
		d.elsewhere = fmt.Sprintf("HelmOp %s is %s: dependsOn works within a shard only", named.Name, shardTitle(other))
	}
	return d, err
}

// partialCluster is the metadata of a Cluster, to read into.
func partialCluster() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(clusterKind))
	return object
}

// otherShardOf tells why a release is left alone because its Cluster, as the API server serves it, is of another shard than its HelmOp;
// empty if it is not.
func otherShardOf(shard string, release *addonsv1.HelmOpRelease, cluster *unstructured.Unstructured) string {
	if isOfShard(cluster, shard) {
		return ""
	}
	return otherShardMessage(cluster, release)
}

// elsewhereRetry is how often it is looked whether a Cluster of another shard is still there, where nothing else is waited for.
const elsewhereRetry = 5 * time.Minute

// leaveElsewhere leaves a release alone whose Cluster is of another shard. The Cluster's way into the shard is an event; its end is none, and
// with it a release under deletion may go.
func (r *releaseReconciler) leaveElsewhere(scope *releaseScope) ctrl.Result {
	r.forget(client.ObjectKeyFromObject(scope.release))
	setPaused(scope.release, false, "")
	setNotReady(scope.release, addonsv1.OtherShardReason, scope.elsewhere)
	if !scope.release.DeletionTimestamp.IsZero() {
		return ctrl.Result{RequeueAfter: spread(downRetry, scope.release)}
	}
	return ctrl.Result{RequeueAfter: spread(elsewhereRetry, scope.release)}
}

// stillServes returns, right before an action begins, the release as it is now, if it is this manager's still; nil if it is not: the manager of
// another shard may have taken it over since the pass began. What was begun is ended by who began it, and known by the record of Helm.
func (r *releaseReconciler) stillServes(ctx context.Context, scope *releaseScope) (*addonsv1.HelmOpRelease, error) {
	now := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(scope.release), now); err != nil {
		scope.isLeaving = apierrors.IsNotFound(err)
		return nil, client.IgnoreNotFound(err)
	}
	return now, nil
}
