// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

const (
	// referencesIndex is the index of HelmOps by the Secrets and ConfigMaps that they name, as "<kind>/<name>".
	referencesIndex = "spec.references"

	// patternsIndex is the index of HelmOps by the kinds of objects whose names they compute with a template.
	patternsIndex = "spec.referencePatterns"

	// serviceAccountIndex is the index of HelmOps that name a ServiceAccount. Its only value is "true".
	serviceAccountIndex = "spec.source.hasServiceAccountName"
)

// SetupIndexes registers the indexes that the watches use.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &addonsv1.HelmOp{}, referencesIndex, func(obj client.Object) []string {
		return references.Of(obj.(*addonsv1.HelmOp))
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOp{}, patternsIndex, func(obj client.Object) []string {
		var kinds []string
		for _, pattern := range references.Patterns(obj.(*addonsv1.HelmOp)) {
			kinds = append(kinds, pattern.Kind)
		}
		return kinds
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOp{}, serviceAccountIndex, func(obj client.Object) []string {
		if obj.(*addonsv1.HelmOp).Spec.Source.ImagePullServiceAccountName == "" {
			return nil
		}
		return []string{"true"}
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOp{}, selection.ClusterNamespacesIndex, func(obj client.Object) []string {
		if obj.(*addonsv1.HelmOp).Spec.ClusterNamespaces == nil {
			return nil
		}
		return []string{"true"}
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOpRelease{}, apiutil.UIDIndex, apiutil.UIDsOfRelease)
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOpRelease{}, apiutil.HelmOpIndex, apiutil.HelmOpsOfRelease)
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOp{}, apiutil.DependsOnIndex, apiutil.DependenciesOfHelmOp)
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOpRelease{}, apiutil.DependsOnIndex, apiutil.DependenciesOfRelease)
	if err != nil {
		return err
	}
	return indexer.IndexField(ctx, &addonsv1.HelmOpRelease{}, apiutil.ClusterIndex, apiutil.ClustersOfRelease)
}

// SpecChanged passes events that change the desired state of an object. It drops events of status writes by the
// controllers themselves, and of the periodic resync of all objects at the same time: see queue.WithinResync.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return isSpecChanged(e.ObjectOld, e.ObjectNew) },
	}
}

// isSpecChanged reports whether the desired state or the metadata of an object changed.
func isSpecChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
		!slices.Equal(before.GetFinalizers(), after.GetFinalizers()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// RequestsForCluster returns requests for the HelmOps that select a Cluster or have a release for it.
func RequestsForCluster(ctx context.Context, reader client.Reader, lookup *selection.Lookup,
	cluster client.Object,
) []ctrl.Request {
	log := ctrl.LoggerFrom(ctx)
	helmOps, err := lookup.HelmOpsOf(ctx, cluster)
	if err != nil {
		log.Error(err, "Cannot find the HelmOps of a Cluster", "Cluster", client.ObjectKeyFromObject(cluster))
		return nil
	}
	requests := requestsFor(helmOps)
	for _, child := range apiutil.ChildrenOfCluster(ctx, reader, client.ObjectKeyFromObject(cluster)) {
		if owner := metav1.GetControllerOf(&child); owner != nil && owner.Kind == apiutil.HelmOpKind {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: child.Namespace,
				Name: owner.Name}})
		}
	}
	return requests
}

// RequestsForClusterObject returns requests for the HelmOps of the Cluster to which a control-plane, infrastructure or
// other object belongs.
func RequestsForClusterObject(ctx context.Context, reader client.Reader, lookup *selection.Lookup,
	obj client.Object,
) []ctrl.Request {
	if obj.GetObjectKind().GroupVersionKind().Kind == "ClusterClass" {
		return requestsForClass(ctx, reader, lookup, obj)
	}
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Kind == "Cluster" {
			name = owner.Name
		}
	}
	cluster, key := apiutil.NewCluster(), client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}
	if name == "" || reader.Get(ctx, key, cluster, client.UnsafeDisableDeepCopy) != nil {
		return nil // The Cluster does not exist, or was deleted: then its own events request the HelmOps.
	}
	return RequestsForCluster(ctx, reader, lookup, cluster)
}

func requestsForClass(ctx context.Context, reader client.Reader, lookup *selection.Lookup,
	class client.Object,
) []ctrl.Request {
	clusters := apiutil.NewClusterList()
	if err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the Clusters of a ClusterClass")
		return nil
	}
	var requests []ctrl.Request
	for i := range clusters.Items {
		cluster, err := apiutil.TypedCluster(&clusters.Items[i])
		if err != nil || !cluster.Spec.Topology.IsDefined() || cluster.GetClassKey() != client.ObjectKeyFromObject(class) {
			continue
		}
		requests = append(requests, RequestsForCluster(ctx, reader, lookup, cluster)...)
	}
	return requests
}

// RequestsForReference returns requests for the HelmOps that name a Secret, a ConfigMap or a ServiceAccount, or may
// name it for one of their Clusters.
func RequestsForReference(kind string, reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		named, patterned := &addonsv1.HelmOpList{}, &addonsv1.HelmOpList{}
		inNamespace := client.InNamespace(obj.GetNamespace())
		err := reader.List(ctx, named, inNamespace, client.MatchingFields{referencesIndex: kind + "/" + obj.GetName()},
			client.UnsafeDisableDeepCopy)
		if err == nil {
			err = reader.List(ctx, patterned, inNamespace, client.MatchingFields{patternsIndex: kind},
				client.UnsafeDisableDeepCopy)
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that name an object", "kind", kind, "name", obj.GetName())
			return nil
		}
		for i := range patterned.Items {
			mayYield := func(p references.Pattern) bool { return p.MayYield(kind, obj.GetName()) }
			if slices.ContainsFunc(references.Patterns(&patterned.Items[i]), mayYield) {
				named.Items = append(named.Items, patterned.Items[i])
			}
		}
		return requestsForHelmOps(named)
	}
}

// RequestsForSecret returns requests for the HelmOps that refer to a Secret, or whose ServiceAccount names the Secret
// among its image pull secrets.
func RequestsForSecret(reader client.Reader, references *references.Reader) handler.MapFunc {
	return both(RequestsForReference(apiutil.KindSecret, reader), requestsForPullSecret(reader, references))
}

// requestsForPullSecret returns requests for the HelmOps whose ServiceAccount names a Secret among its image pull
// secrets. It reads all HelmOps with a ServiceAccount: they are few, and an index cannot read an object that a HelmOp
// refers to.
func requestsForPullSecret(reader client.Reader, references *references.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		helmOps := &addonsv1.HelmOpList{}
		err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()),
			client.MatchingFields{serviceAccountIndex: "true"}, client.UnsafeDisableDeepCopy)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps with a service account", "Secret",
				client.ObjectKeyFromObject(obj))
			return nil
		}
		helmOps.Items = slices.DeleteFunc(helmOps.Items, func(helmOp addonsv1.HelmOp) bool {
			return !references.PullsWith(helmOp.Namespace, helmOp.Spec.Source.ImagePullServiceAccountName, obj.GetName())
		})
		return requestsForHelmOps(helmOps)
	}
}

func requestsForHelmOps(helmOps *addonsv1.HelmOpList) []ctrl.Request {
	requests := make([]ctrl.Request, 0, len(helmOps.Items))
	for i := range helmOps.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&helmOps.Items[i])})
	}
	return requests
}

func requestsFor(keys []client.ObjectKey) []ctrl.Request {
	requests := make([]ctrl.Request, 0, len(keys))
	for _, key := range keys {
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
}

// RequestForItself returns the request for the object itself.
func RequestForItself(_ context.Context, obj client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

// RequestForOwner returns a request for the HelmOp of a HelmOpRelease. With the propagation policy Orphan, garbage
// collection removes the owner reference while the HelmOp waits for the deletion of its releases. In this case, the
// label names the HelmOp.
func RequestForOwner(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		if owner := metav1.GetControllerOf(obj); owner != nil {
			if owner.Kind != apiutil.HelmOpKind {
				return nil
			}
			return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: owner.Name}}}
		}
		label := obj.GetLabels()[addonsv1.HelmOpNameLabel]
		if label == "" {
			return nil
		}
		helmOps := &addonsv1.HelmOpList{}
		if err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()),
			client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOp of a release", "HelmOpRelease",
				client.ObjectKeyFromObject(obj))
			return nil
		}
		var requests []ctrl.Request
		for i := range helmOps.Items {
			// The label holds a hash if the name is long.
			if apiutil.ChildSelector(&helmOps.Items[i])[addonsv1.HelmOpNameLabel] == label {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&helmOps.Items[i])})
			}
		}
		return requests
	}
}

// ChildRequestsForCluster returns requests for the HelmOpReleases of a Cluster.
func ChildRequestsForCluster(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return RequestsForChildren(apiutil.ChildrenOfCluster(ctx, reader, client.ObjectKeyFromObject(obj)))
	}
}

// ChildRequestsForHelmOp returns requests for the HelmOpReleases of a HelmOp.
func ChildRequestsForHelmOp(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return RequestsForChildren(apiutil.ChildrenOfHelmOp(ctx, reader, obj.(*addonsv1.HelmOp)))
	}
}

// UnreadyRequests returns requests for the HelmOpReleases that are not Ready and whose HelmOp an object concerns. So
// they need not wait for the next attempt after a user corrects the object.
func UnreadyRequests(reader client.Reader, toHelmOps handler.MapFunc) handler.MapFunc {
	return childRequests(reader, toHelmOps, func(release *addonsv1.HelmOpRelease) bool {
		return !apiutil.IsReadyNow(release)
	})
}

// WaitingRequests returns requests for the HelmOpReleases that may wait for another content of a Secret or a
// ServiceAccount, and whose HelmOp the object concerns. The other releases that are not Ready read the object at their
// action anyway. A HelmOp with a templated reference is concerned by the Secrets of all its Clusters: without this
// limit, each new Secret would request all new releases of the HelmOp.
func WaitingRequests(reader client.Reader, toHelmOps handler.MapFunc) handler.MapFunc {
	return childRequests(reader, toHelmOps, func(release *addonsv1.HelmOpRelease) bool {
		if !release.DeletionTimestamp.IsZero() {
			return true // Without the object, HelmOp may not be able to check whether the release is still needed.
		}
		ready := conditions.Get(release, addonsv1.ReadyCondition)
		return ready != nil && !apiutil.IsReadyNow(release) &&
			(!apiutil.ProgressReasons[ready.Reason] || apiutil.WaitsForImages(release))
	})
}

// childRequests returns requests for some HelmOpReleases of the HelmOps that an object concerns.
func childRequests(reader client.Reader, toHelmOps handler.MapFunc,
	waits func(*addonsv1.HelmOpRelease) bool,
) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		var waiting []addonsv1.HelmOpRelease
		for _, request := range toHelmOps(ctx, obj) {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
			for _, child := range apiutil.ChildrenOfHelmOp(ctx, reader, helmOp) {
				if waits(&child) {
					waiting = append(waiting, child)
				}
			}
		}
		return RequestsForChildren(waiting)
	}
}

// RequestsForChildren returns requests for HelmOpReleases.
func RequestsForChildren(children []addonsv1.HelmOpRelease) []ctrl.Request {
	requests := make([]ctrl.Request, 0, len(children))
	for i := range children {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&children[i])})
	}
	return requests
}

// ClusterReplaced returns a handler that calls forget for each Cluster that was deleted, left the shard, or was
// re-created. If a Cluster was re-created while the watch was interrupted, there is an update event with another UID.
// The handler enqueues nothing.
func ClusterReplaced(forget func(cluster client.ObjectKey)) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				forget(client.ObjectKeyFromObject(e.ObjectOld))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { forget(client.ObjectKeyFromObject(e.Object)) },
	}
}

// ClusterObjects returns a Watcher that watches the kinds to which Clusters refer, for the named controller. The watch
// of a kind begins when an object of the kind is read. The Watcher ignores paused objects.
func ClusterObjects(mgr ctrl.Manager, c controller.Controller, kinds *kindcache.Kinds, name string,
	events handler.EventHandler,
) *kindcache.Watcher {
	log := mgr.GetLogger().WithValues("controller", name)
	return kinds.NewWatcher(func(obj client.Object) error {
		return c.Watch(source.Kind(mgr.GetCache(), obj, events, predicates.ResourceNotPaused(mgr.GetScheme(), log)))
	})
}
