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

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// isAwaiting tells whether a release says that it waits for others.
func isAwaiting(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionFalse && blockedReasons[ready.Reason]
}

// isReadyNow tells whether a release is ready as it was last told.
func isReadyNow(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == release.Generation &&
		release.DeletionTimestamp.IsZero()
}

// releaseNews is what an event of a release means to those that depend on it.
type releaseNews struct {
	// mends: it may be what they waited for.
	mends bool

	// mendsExpressions: the same of those with an expression.
	mendsExpressions bool

	// explains: there is something else to be said by those that wait.
	explains bool

	// frees: something may end by now that it depended on.
	frees bool
}

// newsOf compares a release before and after an event.
func newsOf(before, after *addonsv1.HelmOpRelease) releaseNews {
	ready, wasReady := isReadyNow(after), isReadyNow(before)
	isTold := toldRevision(before) != toldRevision(after)
	isChanged := before.ResourceVersion != after.ResourceVersion
	return releaseNews{
		mends:            ready && (!wasReady || isTold),
		mendsExpressions: ready && isChanged,
		explains:         isChanged && sayingOf(before) != sayingOf(after),
		frees: before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			isChildPaused(before) != isChildPaused(after) || isAwaiting(before) != isAwaiting(after) ||
			!equality.Semantic.DeepEqual(before.Spec.ClusterOptions, after.Spec.ClusterOptions),
	}
}

func toldRevision(release *addonsv1.HelmOpRelease) int64 {
	if release.Spec.Rollout == nil {
		return 0
	}
	return release.Spec.Rollout.Revision
}

// saying is what those that wait for a release say of it.
type saying struct {
	isEnding, isOutdated bool
	reason, message      string
	status               metav1.ConditionStatus
}

func sayingOf(release *addonsv1.HelmOpRelease) saying {
	said := saying{isEnding: !release.DeletionTimestamp.IsZero()}
	if ready := conditions.Get(release, addonsv1.ReadyCondition); ready != nil {
		said.status, said.reason, said.message = ready.Status, ready.Reason, ready.Message
		said.isOutdated = ready.ObservedGeneration != release.Generation
	}
	return said
}

// onReleaseNews calls enqueue with each event of a release that means something to others in its Cluster.
func onReleaseNews(enqueue func(context.Context, requestQueue, *addonsv1.HelmOpRelease, releaseNews)) handler.EventHandler {
	call := func(ctx context.Context, q requestQueue, obj client.Object, news releaseNews) {
		if release, ok := obj.(*addonsv1.HelmOpRelease); ok && ownerName(release) != "" {
			enqueue(ctx, q, release, news)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requestQueue) {
			if !e.IsInInitialList {
				call(ctx, q, e.Object, releaseNews{explains: true})
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requestQueue) {
			before, beforeOK := e.ObjectOld.(*addonsv1.HelmOpRelease)
			after, afterOK := e.ObjectNew.(*addonsv1.HelmOpRelease)
			if !beforeOK || !afterOK {
				return
			}
			if news := newsOf(before, after); news != (releaseNews{}) {
				call(ctx, q, after, news)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requestQueue) {
			call(ctx, q, e.Object, releaseNews{explains: true, frees: true})
		},
	}
}

type requestQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// siblingsOnNews enqueues the releases of the same Cluster to which an event of a release means something. Whether one waits is asked of the
// cache only where it is about words: what it says may not be in the cache yet.
func siblingsOnNews(reader client.Reader) handler.EventHandler {
	return onReleaseNews(func(ctx context.Context, q requestQueue, release *addonsv1.HelmOpRelease, news releaseNews) {
		siblings, err := siblingsOf(ctx, reader, release)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the releases that depend on one")
			return
		}
		name := ownerName(release)
		for _, sibling := range siblings {
			if concerns(news, name, sibling) {
				q.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(sibling)})
			}
		}
	})
}

// concerns tells whether news of the release of a HelmOp means something to another one in the same Cluster.
func concerns(news releaseNews, helmOp string, sibling *addonsv1.HelmOpRelease) bool {
	if news.frees && !sibling.DeletionTimestamp.IsZero() {
		return true
	}
	for _, dependency := range sibling.Spec.DependsOn {
		if dependency.Name == helmOp {
			return news.mends || news.mendsExpressions && dependency.ReadyExpr != "" || news.explains && isAwaiting(sibling)
		}
	}
	return false
}

// helmOpsOnNews enqueues, after settleDelay, the HelmOps that depend on the HelmOp of a release: they may tell its Cluster what they
// kept back.
func helmOpsOnNews(reader client.Reader) handler.EventHandler {
	return onReleaseNews(func(ctx context.Context, q requestQueue, release *addonsv1.HelmOpRelease, news releaseNews) {
		if !news.mends && !news.mendsExpressions && !news.explains {
			return
		}
		helmOps := &addonsv1.HelmOpList{}
		if err := reader.List(ctx, helmOps, client.InNamespace(release.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that depend on one")
			return
		}
		name := ownerName(release)
		for i := range helmOps.Items {
			for _, dependency := range helmOps.Items[i].Spec.DependsOn {
				if dependency.Name == name && (news.mends || news.explains || dependency.ReadyExpr != "") {
					q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&helmOps.Items[i])}, settleDelay)
				}
			}
		}
	})
}

// orderFacets is what those that depend on a HelmOp see of it.
type orderFacets struct {
	deleting, paused bool
	unsettled        string
	revision         int64
	phase            addonsv1.RolloutPhase
	isRolledOut      bool
}

func orderFacetsOf(helmOp *addonsv1.HelmOp) orderFacets {
	facets := orderFacets{
		deleting: !helmOp.DeletionTimestamp.IsZero(), paused: isHelmOpPaused(helmOp),
		unsettled: unsettled(helmOp), isRolledOut: helmOp.Spec.Rollout != nil,
	}
	if rollout := helmOp.Status.Rollout; rollout != nil {
		facets.revision, facets.phase = rollout.Revision, rollout.Phase
	}
	return facets
}

// dependencyChanged passes events of HelmOps that may let others go on, or keep them from it.
func dependencyChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }, // At the start all are looked at anyway.
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, beforeOK := e.ObjectOld.(*addonsv1.HelmOp)
			after, afterOK := e.ObjectNew.(*addonsv1.HelmOp)
			if !beforeOK || !afterOK {
				return true
			}
			return orderFacetsOf(before) != orderFacetsOf(after) || choiceChanged(before, after) ||
				!equality.Semantic.DeepEqual(before.Spec.DependsOn, after.Spec.DependsOn)
		},
	}
}

// choiceChanged tells whether a HelmOp may select other Clusters than before.
func choiceChanged(before, after *addonsv1.HelmOp) bool {
	return !equality.Semantic.DeepEqual(before.Spec.ClusterSelector, after.Spec.ClusterSelector) ||
		!equality.Semantic.DeepEqual(before.Spec.ClusterNamespaces, after.Spec.ClusterNamespaces) ||
		(before.Spec.ManagementCluster == nil) != (after.Spec.ManagementCluster == nil)
}

// dependentHelmOps are the HelmOps that depend on one, be it by way of others: what it depends on may have closed, or opened, a cycle.
func dependentHelmOps(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		helmOps := &addonsv1.HelmOpList{}
		if err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that depend on one", "HelmOp", client.ObjectKeyFromObject(obj))
			return nil
		}
		var requests []ctrl.Request
		for name := range graphOf(helmOps.Items).dependents(obj.GetName()) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}})
		}
		return requests
	}
}

// endingRequests are the HelmOpReleases of a HelmOp or of a Cluster that are under deletion: they may be wanted again.
func endingRequests(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		var releases, ending []addonsv1.HelmOpRelease
		if helmOp, ok := obj.(*addonsv1.HelmOp); ok {
			releases = childrenOfHelmOp(ctx, reader, helmOp)
		} else {
			releases = childrenOfCluster(ctx, reader, client.ObjectKeyFromObject(obj))
		}
		for _, release := range releases {
			if !release.DeletionTimestamp.IsZero() {
				ending = append(ending, release)
			}
		}
		return requestsForChildren(ending)
	}
}

// choiceMayChange passes events of HelmOps and Clusters after which other Clusters may be selected.
func choiceMayChange() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, beforeOK := e.ObjectOld.(*addonsv1.HelmOp)
			after, afterOK := e.ObjectNew.(*addonsv1.HelmOp)
			if beforeOK && afterOK {
				return choiceChanged(before, after)
			}
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
		},
	}
}
