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
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	helmOpKind = "HelmOp"

	// referencesIndex finds the HelmOps that name a Secret or ConfigMap, by "<kind>/<name>".
	referencesIndex = "spec.references"

	// serviceAccountIndex finds the HelmOps that name a ServiceAccount at all; its only value is "true".
	serviceAccountIndex = "spec.source.hasServiceAccountName"

	// clusterIndex finds the HelmOpReleases of a Cluster, of whatever namespace they are, by its "<namespace>/<name>".
	clusterIndex = "spec.clusterRef"

	// settleDelay is how long events of other objects gather before their HelmOp is looked at. Without it, a thousand
	// releases that turn ready make a thousand passes over a thousand Clusters.
	settleDelay = 250 * time.Millisecond

	// settlePace is how long the events of releases gather for each Cluster of the HelmOp, up to maxSettleDelay: a pass takes the longer,
	// the more there are. While no Cluster waits for its turn, nothing comes of them but numbers, and they gather for as long as countingPace says.
	settlePace, countingPace, maxSettleDelay = 2 * time.Millisecond, 5 * time.Millisecond, 4 * time.Second
)

// setupIndexes registers the indexes that the watches look things up in.
func setupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &addonsv1.HelmOp{}, referencesIndex, func(obj client.Object) []string {
		return referencesOf(obj.(*addonsv1.HelmOp))
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOp{}, serviceAccountIndex, func(obj client.Object) []string {
		if obj.(*addonsv1.HelmOp).Spec.Source.ServiceAccountName == "" {
			return nil
		}
		return []string{"true"}
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &addonsv1.HelmOp{}, clusterNamespacesIndex, func(obj client.Object) []string {
		if obj.(*addonsv1.HelmOp).Spec.ClusterNamespaces == nil {
			return nil
		}
		return []string{"true"}
	})
	if err != nil {
		return err
	}
	return indexer.IndexField(ctx, &addonsv1.HelmOpRelease{}, clusterIndex, clustersOfRelease)
}

// clustersOfRelease is what clusterIndex holds of a HelmOpRelease.
func clustersOfRelease(obj client.Object) []string {
	return []string{clusterKey(obj.(*addonsv1.HelmOpRelease)).String()}
}

func referencesOf(helmOp *addonsv1.HelmOp) []string {
	var references []string
	source := &helmOp.Spec.Source
	secrets := []*addonsv1.SecretReference{source.SecretRef, source.CertSecretRef, source.ProxySecretRef}
	if storage := helmOp.Spec.Storage; storage != nil && storage.Registry != nil {
		secrets = append(secrets, storage.Registry.SecretRef, storage.Registry.CertSecretRef, storage.Registry.ProxySecretRef)
	}
	if source.Verify != nil {
		secrets = append(secrets, source.Verify.SecretRef, source.Verify.TrustedRootSecretRef)
	}
	for _, ref := range secrets {
		if ref != nil {
			references = append(references, kindSecret+"/"+ref.Name)
		}
	}
	if source.ServiceAccountName != "" {
		references = append(references, kindServiceAccount+"/"+source.ServiceAccountName)
	}
	for _, ref := range helmOp.Spec.ValuesFrom {
		references = append(references, ref.Kind+"/"+ref.Name)
	}
	return references
}

// delayed enqueues what an object maps to, for updates both as it was and as it is, after settleDelay.
func delayed(toRequests handler.MapFunc) handler.EventHandler {
	return delayedBy(toRequests, func(context.Context, ctrl.Request) time.Duration { return settleDelay })
}

// settled is how long events of the releases of a HelmOp gather. What else happens does not wait as long.
func settled(reader client.Reader) func(context.Context, ctrl.Request) time.Duration {
	return func(ctx context.Context, request ctrl.Request) time.Duration {
		helmOp := &addonsv1.HelmOp{}
		err := reader.Get(ctx, request.NamespacedName, helmOp, client.UnsafeDisableDeepCopy)
		if err != nil || helmOp.Status.Clusters == nil {
			return settleDelay
		}
		pace := settlePace
		if rollout := helmOp.Status.Rollout; rollout != nil && rollout.Updated >= helmOp.Status.Clusters.Selected {
			pace = countingPace
		}
		return min(max(settleDelay, time.Duration(helmOp.Status.Clusters.Selected)*pace), maxSettleDelay)
	}
}

// delayedBy is delayed with another delay.
func delayedBy(toRequests handler.MapFunc, delay func(context.Context, ctrl.Request) time.Duration) handler.EventHandler {
	enqueue := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request], objects ...client.Object) {
		requests := map[ctrl.Request]struct{}{}
		for _, obj := range objects {
			for _, request := range toRequests(ctx, obj) {
				requests[request] = struct{}{}
			}
		}
		for request := range requests {
			q.AddAfter(request, delay(ctx, request))
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				return // A resync: see withinResync.
			}
			enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { enqueue(ctx, q, e.Object) },
	}
}

// specChanged passes events that change what is wanted of an object. It drops what the controllers themselves write into the status,
// and the periodic resync, which is of all objects at once: see withinResync.
func specChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return before.GetGeneration() != after.GetGeneration() ||
				before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
				len(before.GetFinalizers()) != len(after.GetFinalizers()) ||
				!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) ||
				!maps.Equal(before.GetLabels(), after.GetLabels())
		},
	}
}

// requestsForCluster are the HelmOps that select a Cluster or have a release for it.
func requestsForCluster(ctx context.Context, reader client.Reader, cluster client.Object) []ctrl.Request {
	log := ctrl.LoggerFrom(ctx)
	var requests []ctrl.Request
	helmOps := &addonsv1.HelmOpList{}
	if err := reader.List(ctx, helmOps, client.InNamespace(cluster.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		log.Error(err, "Cannot find the HelmOps of a Cluster", "Cluster", client.ObjectKeyFromObject(cluster))
		return nil
	}
	namespace := partialOf(kindNamespace)
	if err := reader.Get(ctx, client.ObjectKey{Name: cluster.GetNamespace()}, namespace); err == nil {
		helmOps.Items = append(helmOps.Items, roamingHelmOps(ctx, reader, namespace.Labels, cluster.GetNamespace())...)
	}
	for i := range helmOps.Items {
		helmOp := &helmOps.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(helmOp.Spec.ClusterSelector)
		if err != nil {
			continue // The HelmOp's own condition says so.
		}
		if selector.Matches(labels.Set(cluster.GetLabels())) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(helmOp)})
		}
	}
	for _, child := range childrenOfCluster(ctx, reader, client.ObjectKeyFromObject(cluster)) {
		if owner := metav1.GetControllerOf(&child); owner != nil && owner.Kind == helmOpKind {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: child.Namespace, Name: owner.Name}})
		}
	}
	return requests
}

// requestsForClusterObject are the HelmOps of the Cluster that a control-plane, infrastructure or other object
// belongs to.
func requestsForClusterObject(ctx context.Context, reader client.Reader, obj client.Object) []ctrl.Request {
	if obj.GetObjectKind().GroupVersionKind().Kind == "ClusterClass" {
		return requestsForClass(ctx, reader, obj)
	}
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Kind == "Cluster" {
			name = owner.Name
		}
	}
	cluster := newCluster()
	if name == "" || reader.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, cluster) != nil {
		return nil // No Cluster, or one that is gone: its own events tell of it.
	}
	return requestsForCluster(ctx, reader, cluster)
}

func requestsForClass(ctx context.Context, reader client.Reader, class client.Object) []ctrl.Request {
	clusters := newClusterList()
	if err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the Clusters of a ClusterClass")
		return nil
	}
	var requests []ctrl.Request
	for i := range clusters.Items {
		cluster, err := typedCluster(&clusters.Items[i])
		if err != nil || !cluster.Spec.Topology.IsDefined() || cluster.GetClassKey() != client.ObjectKeyFromObject(class) {
			continue
		}
		requests = append(requests, requestsForCluster(ctx, reader, cluster)...)
	}
	return requests
}

// both are the requests of two maps.
func both(a, b handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return append(a(ctx, obj), b(ctx, obj)...)
	}
}

// requestsForReference are the HelmOps that name a Secret, a ConfigMap or a ServiceAccount.
func requestsForReference(kind string, reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		helmOps := &addonsv1.HelmOpList{}
		err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()), client.MatchingFields{referencesIndex: kind + "/" + obj.GetName()})
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that name an object", "kind", kind, "name", obj.GetName())
			return nil
		}
		return requestsForHelmOps(helmOps)
	}
}

// requestsForPullSecret are the HelmOps whose ServiceAccount names a Secret among its image pull secrets. There are few
// HelmOps with one, and an index cannot look into an object that they refer to.
func requestsForPullSecret(reader client.Reader, references *referenceReader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		helmOps := &addonsv1.HelmOpList{}
		err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()), client.MatchingFields{serviceAccountIndex: "true"})
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps with a service account", "Secret", client.ObjectKeyFromObject(obj))
			return nil
		}
		helmOps.Items = slices.DeleteFunc(helmOps.Items, func(helmOp addonsv1.HelmOp) bool {
			return !references.pullsWith(helmOp.Namespace, helmOp.Spec.Source.ServiceAccountName, obj.GetName())
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

// requestForItself is an object's own.
func requestForItself(_ context.Context, obj client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

// requestForOwner finds the HelmOp of a HelmOpRelease. For the propagation policy Orphan, garbage collection takes the owner
// references away while the HelmOp waits for the end of its releases: then the label names the HelmOp.
func requestForOwner(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		if owner := metav1.GetControllerOf(obj); owner != nil {
			if owner.Kind != helmOpKind {
				return nil
			}
			return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: owner.Name}}}
		}
		label := obj.GetLabels()[addonsv1.HelmOpNameLabel]
		if label == "" {
			return nil
		}
		helmOps := &addonsv1.HelmOpList{}
		if err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOp of a release", "HelmOpRelease", client.ObjectKeyFromObject(obj))
			return nil
		}
		var requests []ctrl.Request
		for i := range helmOps.Items {
			// The label of a long name holds a hash.
			if childSelector(&helmOps.Items[i])[addonsv1.HelmOpNameLabel] == label {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&helmOps.Items[i])})
			}
		}
		return requests
	}
}

// childrenOfCluster are the HelmOpReleases of a Cluster, those of other namespaces among them. They must not be changed.
func childrenOfCluster(ctx context.Context, reader client.Reader, cluster client.ObjectKey) []addonsv1.HelmOpRelease {
	children := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, children, client.MatchingFields{clusterIndex: cluster.String()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the releases of a Cluster", "Cluster", cluster)
		return nil
	}
	return children.Items
}

// childRequestsForCluster are the HelmOpReleases of a Cluster.
func childRequestsForCluster(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return requestsForChildren(childrenOfCluster(ctx, reader, client.ObjectKeyFromObject(obj)))
	}
}

// childrenOfHelmOp are the HelmOpReleases of a HelmOp. They must not be changed.
func childrenOfHelmOp(ctx context.Context, reader client.Reader, helmOp *addonsv1.HelmOp) []addonsv1.HelmOpRelease {
	children := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, children, client.InNamespace(helmOp.Namespace), client.MatchingLabels(childSelector(helmOp)),
		client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the releases of a HelmOp", "HelmOp", client.ObjectKeyFromObject(helmOp))
		return nil
	}
	return children.Items
}

// childRequestsForHelmOp are the HelmOpReleases of a HelmOp.
func childRequestsForHelmOp(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return requestsForChildren(childrenOfHelmOp(ctx, reader, obj.(*addonsv1.HelmOp)))
	}
}

// unreadyRequests are the HelmOpReleases, of the HelmOps that an object maps to, that are not as they are wanted: corrected
// credentials need not wait for the next try.
func unreadyRequests(reader client.Reader, toHelmOps handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		var unready []addonsv1.HelmOpRelease
		for _, request := range toHelmOps(ctx, obj) {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
			for _, child := range childrenOfHelmOp(ctx, reader, helmOp) {
				if !isReadyNow(&child) {
					unready = append(unready, child)
				}
			}
		}
		return requestsForChildren(unready)
	}
}

func requestsForChildren(children []addonsv1.HelmOpRelease) []ctrl.Request {
	requests := make([]ctrl.Request, 0, len(children))
	for i := range children {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&children[i])})
	}
	return requests
}

// partialOf is the metadata of a core kind, to watch.
func partialOf(kind string) *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return partial
}
