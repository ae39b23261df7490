// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// Updated returns an UpdateFunc of a predicate for one type of objects. It passes an update if passes returns true for
// the states before and after.
func Updated[T client.Object](passes func(before, after T) bool) func(event.UpdateEvent) bool {
	return func(e event.UpdateEvent) bool {
		before, beforeOK := e.ObjectOld.(T)
		after, afterOK := e.ObjectNew.(T)
		return beforeOK && afterOK && passes(before, after)
	}
}

// ServabilityChanged passes events of Clusters that change whether their releases may be changed, or whether they are
// checked for an upgrade of Kubernetes. Changes of values reach a release through its HelmOp instead.
func ServabilityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: Updated(func(before, after *unstructured.Unstructured) bool {
		return before.GetResourceVersion() != after.GetResourceVersion() && servabilityOf(before) != servabilityOf(after)
	})}
}

type servability struct {
	deleting, paused, initialized, isMoved bool
	hold                                   apiutil.DeletionHold

	// windows, freezes and veto are the maintenance limits of the Cluster.
	windows, freezes, veto string

	// upgrade changes whenever releases may have to be checked for an upgrade of Kubernetes.
	upgrade string
}

func servabilityOf(object *unstructured.Unstructured) servability {
	cluster, err := apiutil.TypedCluster(object)
	if err != nil {
		return servability{}
	}
	return servability{
		deleting:    !cluster.DeletionTimestamp.IsZero(),
		paused:      apiutil.IsClusterPaused(cluster),
		initialized: apiutil.IsInitialized(cluster),
		isMoved:     report.IsBeingMoved(cluster),
		hold:        apiutil.HoldOf(cluster),

		windows: cluster.Annotations[addonsv1.MaintenanceWindowsAnnotation],
		freezes: cluster.Annotations[addonsv1.MaintenanceFreezesAnnotation],
		veto:    cluster.Annotations[addonsv1.MaintenanceVetoAnnotation],
		upgrade: clusterlife.UpgradeTrigger(cluster),
	}
}

// OfWatchFilter passes events of objects that this manager serves, by the label cluster.x-k8s.io/watch-filter. It also
// passes events of objects that the manager served before the event, so that the manager removes their state.
func OfWatchFilter(value string) predicate.Predicate {
	watched := predicate.NewPredicateFuncs(func(obj client.Object) bool { return apiutil.IsWatched(obj, value) })
	watched.UpdateFunc = func(e event.UpdateEvent) bool {
		return apiutil.IsWatched(e.ObjectOld, value) || apiutil.IsWatched(e.ObjectNew, value)
	}
	return watched
}

// AfterStart drops the create events of the objects that exist when a controller starts. The controller enqueues all
// objects that it reconciles, and its workers begin when the informers of all its sources have their first lists. So
// the first passes know these objects. It must not be used for a source that is added later, see [ClusterObjects]: for
// such a source, the objects that exist are in the initial list, too, but passes may have run without them.
func AfterStart() predicate.Predicate {
	return predicate.Funcs{CreateFunc: isAfterStart}
}

func isAfterStart(e event.CreateEvent) bool { return !e.IsInInitialList }

// ReleaseHandlingChanged passes events of HelmOps that change whether their releases may be reconciled, change how they
// are deleted, or request a retry. All other changes reach a release through its spec.
func ReleaseHandlingChanged() predicate.Predicate {
	return predicate.Funcs{
		// If a HelmOp returns to the shard, its releases were not reconciled meanwhile. At the start, all releases are
		// reconciled anyway.
		CreateFunc: isAfterStart,
		UpdateFunc: Updated(func(before, after *addonsv1.HelmOp) bool {
			return before.Spec.Paused != after.Spec.Paused ||
				annotations.HasPaused(before) != annotations.HasPaused(after) ||
				before.Annotations[addonsv1.RetryRequestedAtAnnotation] != after.Annotations[addonsv1.RetryRequestedAtAnnotation] ||
				before.Annotations[addonsv1.ConfirmDeletionsAnnotation] != after.Annotations[addonsv1.ConfirmDeletionsAnnotation] ||
				before.Spec.DeletionPolicy != after.Spec.DeletionPolicy ||
				admissionChanged(before, after) ||
				!equality.Semantic.DeepEqual(before.Spec.Uninstall, after.Spec.Uninstall) ||
				!equality.Semantic.DeepEqual(before.Spec.Maintenance, after.Spec.Maintenance) ||
				!equality.Semantic.DeepEqual(before.Spec.Storage, after.Spec.Storage) ||
				!equality.Semantic.DeepEqual(before.Spec.Preflight, after.Spec.Preflight) ||
				!equality.Semantic.DeepEqual(before.Spec.Overrides, after.Spec.Overrides)
		}),
	}
}

// admissionChanged reports whether the releases of a HelmOp under deletion wait for the admission of their deletions
// only before or only after an event.
func admissionChanged(before, after *addonsv1.HelmOp) bool {
	return !after.DeletionTimestamp.IsZero() && apiutil.LimitsDeletions(before) != apiutil.LimitsDeletions(after)
}

// SourceChanged passes events of HelmOps that change the access to an artifact or the required signatures. These fields
// are not in the spec of a release. A release that failed because of these fields need not wait for its next attempt.
func SourceChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: Updated(func(before, after *addonsv1.HelmOp) bool {
			return !equality.Semantic.DeepEqual(before.Spec.Source, after.Spec.Source)
		}),
	}
}

// ReportedNotServed passes events of HelmOps with the reason ShardNotServed. The reason was set before this manager
// started.
func ReportedNotServed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: Updated(func(_, helmOp *addonsv1.HelmOp) bool {
			return conditions.GetReason(helmOp, addonsv1.ReadyCondition) == addonsv1.ShardNotServedReason
		}),
	}
}
