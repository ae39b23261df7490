// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// releaseChange says how a change of a release concerns the releases that depend on it, and the releases on which it
// depends.
type releaseChange struct {
	// mends is true if dependents without an expression may now find their dependency met.
	mends bool

	// mendsExpressions is true if dependents with an expression may now find their dependency met.
	mendsExpressions bool

	// explains is true if the message of waiting dependents changes.
	explains bool

	// frees is true if a release on which this release depended may now be uninstalled.
	frees bool
}

// changeOf compares a release before and after an event.
func changeOf(before, after *addonsv1.HelmOpRelease) releaseChange {
	ready, wasReady := apiutil.IsReadyNow(after), apiutil.IsReadyNow(before)
	isTold := assignedRevision(before) != assignedRevision(after)
	isPaused := !apiutil.IsChildPaused(before) && apiutil.IsChildPaused(after) // Then it needs no newer revision.
	isChanged := before.ResourceVersion != after.ResourceVersion
	return releaseChange{
		mends:            ready && (!wasReady || isTold || isPaused),
		mendsExpressions: ready && isChanged,
		explains:         isChanged && readyStateOf(before) != readyStateOf(after),
		frees: before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			apiutil.IsChildPaused(before) != apiutil.IsChildPaused(after) ||
			apiutil.IsAwaiting(before) != apiutil.IsAwaiting(after) ||
			apiutil.WaitsForImages(before) != apiutil.WaitsForImages(after) ||
			!equality.Semantic.DeepEqual(before.Spec.ClusterOptions, after.Spec.ClusterOptions),
	}
}

func assignedRevision(release *addonsv1.HelmOpRelease) int64 {
	if release.Spec.Rollout == nil {
		return 0
	}
	return release.Spec.Rollout.Revision
}

// readyState holds the facts about a release that the messages of its dependents contain.
type readyState struct {
	isEnding, isOutdated bool
	reason, message      string
	status               metav1.ConditionStatus
}

func readyStateOf(release *addonsv1.HelmOpRelease) readyState {
	state := readyState{isEnding: !release.DeletionTimestamp.IsZero()}
	if ready := conditions.Get(release, addonsv1.ReadyCondition); ready != nil {
		state.status, state.reason, state.message = ready.Status, ready.Reason, ready.Message
		state.isOutdated = ready.ObservedGeneration != release.Generation
	}
	return state
}

// onReleaseChange calls enqueue for each event of a release that concerns other releases in its Cluster.
func onReleaseChange(enqueue func(context.Context, async.RequestQueue, *addonsv1.HelmOpRelease,
	releaseChange)) handler.EventHandler {
	call := func(ctx context.Context, q async.RequestQueue, obj client.Object, change releaseChange) {
		if release, ok := obj.(*addonsv1.HelmOpRelease); ok && apiutil.HelmOpOf(release) != "" {
			enqueue(ctx, q, release, change)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q async.RequestQueue) {
			if release, ok := e.Object.(*addonsv1.HelmOpRelease); ok && !e.IsInInitialList {
				// A release that comes from another shard may be Ready.
				change := changeOf(&addonsv1.HelmOpRelease{}, release)
				change.explains = true
				call(ctx, q, release, change)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q async.RequestQueue) {
			before, beforeOK := e.ObjectOld.(*addonsv1.HelmOpRelease)
			after, afterOK := e.ObjectNew.(*addonsv1.HelmOpRelease)
			if !beforeOK || !afterOK {
				return
			}
			if change := changeOf(before, after); change != (releaseChange{}) {
				call(ctx, q, after, change)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q async.RequestQueue) {
			call(ctx, q, e.Object, releaseChange{explains: true, frees: true})
		},
	}
}

// SiblingsOnChange enqueues the releases in the same Cluster that an event of a release concerns. If only their message
// changes, it enqueues the releases that are not ready according to the cache: each of them may wait, or be in a pass
// that has read the old message. Otherwise it enqueues all of them, because the cache may be stale.
func SiblingsOnChange(reader client.Reader) handler.EventHandler {
	return onReleaseChange(func(ctx context.Context, q async.RequestQueue, release *addonsv1.HelmOpRelease,
		change releaseChange) {
		cluster, name := apiutil.ClusterKey(release), apiutil.HelmOpOf(release)
		siblings := client.MatchingFields{apiutil.DependsOnIndex: apiutil.DependencyKey(cluster, name)}
		if change.frees {
			// The releases on which this release depended are not in the index of its dependents.
			siblings = client.MatchingFields{apiutil.ClusterIndex: cluster.String()}
		}
		list := &addonsv1.HelmOpReleaseList{}
		err := reader.List(ctx, list, client.InNamespace(release.Namespace), siblings, client.UnsafeDisableDeepCopy)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the releases that depend on one")
			return
		}
		for i := range list.Items {
			sibling := &list.Items[i]
			if sibling.Name != release.Name && apiutil.HelmOpOf(sibling) != "" && concerns(change, name, sibling) {
				q.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(sibling)})
			}
		}
	})
}

// concerns reports whether a change of the release of a HelmOp concerns another release in the same Cluster.
func concerns(change releaseChange, helmOp string, sibling *addonsv1.HelmOpRelease) bool {
	if !sibling.DeletionTimestamp.IsZero() {
		return change.frees
	}
	for _, dependency := range sibling.Spec.DependsOn {
		if dependency.Name == helmOp {
			return change.mends || change.mendsExpressions && dependency.ReadyExpr != "" ||
				change.explains && !apiutil.IsReadyNow(sibling)
		}
	}
	return false
}

// HelmOpsOnChange enqueues the HelmOps that depend on the HelmOp of a release: these HelmOps may now assign a revision
// that waited for the release. The delay grows with the number of their Clusters. It is longer if only the message of
// the HelmOps changes.
func HelmOpsOnChange(reader client.Reader) handler.EventHandler {
	return onReleaseChange(func(ctx context.Context, q async.RequestQueue, release *addonsv1.HelmOpRelease,
		change releaseChange) {
		if !change.mends && !change.mendsExpressions && !change.explains {
			return
		}
		helmOps, name := &addonsv1.HelmOpList{}, apiutil.HelmOpOf(release)
		if err := reader.List(ctx, helmOps, client.InNamespace(release.Namespace),
			client.MatchingFields{apiutil.DependsOnIndex: name}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that depend on one")
			return
		}
		for i := range helmOps.Items {
			dependent := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&helmOps.Items[i])}
			for _, dependency := range helmOps.Items[i].Spec.DependsOn {
				switch {
				case dependency.Name != name:
				case change.mends, change.mendsExpressions && dependency.ReadyExpr != "":
					q.AddAfter(dependent, watches.ChangeDelay(ctx, reader, dependent))
				case change.explains:
					q.AddAfter(dependent, watches.MessageDelay(ctx, reader, dependent))
				}
			}
		}
	})
}

// orderFacets holds the facts about a HelmOp that its dependents need.
type orderFacets struct {
	deleting, paused bool
	unsettled        string
	revision         int64
	phase            addonsv1.RolloutPhase
	hasRollout       bool
}

func orderFacetsOf(helmOp *addonsv1.HelmOp) orderFacets {
	facets := orderFacets{
		deleting: !helmOp.DeletionTimestamp.IsZero(), paused: apiutil.IsHelmOpPaused(helmOp),
		unsettled: Unsettled(helmOp), hasRollout: helmOp.Spec.Rollout != nil,
	}
	if rollout := helmOp.Status.Rollout; rollout != nil {
		facets.revision, facets.phase = rollout.Revision, rollout.Phase
	}
	return facets
}

// DependencyChanged passes events of HelmOps after which dependents may continue or must wait.
func DependencyChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }, // the start reconciles all objects anyway
		UpdateFunc: watches.Updated(func(before, after *addonsv1.HelmOp) bool {
			return orderFacetsOf(before) != orderFacetsOf(after) || choiceChanged(before, after) ||
				!equality.Semantic.DeepEqual(before.Spec.DependsOn, after.Spec.DependsOn)
		}),
	}
}

// choiceChanged reports whether a HelmOp may select other Clusters than before.
func choiceChanged(before, after *addonsv1.HelmOp) bool {
	return !equality.Semantic.DeepEqual(before.Spec.ClusterSelector, after.Spec.ClusterSelector) ||
		!equality.Semantic.DeepEqual(before.Spec.ClusterNamespaces, after.Spec.ClusterNamespaces) ||
		(before.Spec.ManagementCluster == nil) != (after.Spec.ManagementCluster == nil)
}

// DependentHelmOps maps a HelmOp to the HelmOps that depend on it, directly or through others. A change of its
// dependencies may close or open a cycle.
func DependentHelmOps(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		helmOps := &addonsv1.HelmOpList{}
		if err := reader.List(ctx, helmOps, client.InNamespace(obj.GetNamespace()),
			client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that depend on one", "HelmOp",
				client.ObjectKeyFromObject(obj))
			return nil
		}
		var requests []ctrl.Request
		for name := range GraphOf(helmOps.Items).dependents(obj.GetName()) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(),
				Name: name}})
		}
		return requests
	}
}

// EndingRequests maps a HelmOp or a Cluster to its HelmOpReleases under deletion: they may be selected again.
func EndingRequests(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		var releases, ending []addonsv1.HelmOpRelease
		if helmOp, ok := obj.(*addonsv1.HelmOp); ok {
			releases = apiutil.ChildrenOfHelmOp(ctx, reader, helmOp)
		} else {
			releases = apiutil.ChildrenOfCluster(ctx, reader, client.ObjectKeyFromObject(obj))
		}
		for _, release := range releases {
			if !release.DeletionTimestamp.IsZero() {
				ending = append(ending, release)
			}
		}
		return watches.RequestsForChildren(ending)
	}
}

// ChoiceMayChange passes events of HelmOps and Clusters after which other Clusters may be selected.
func ChoiceMayChange() predicate.Predicate {
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
