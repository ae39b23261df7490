// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// ReleaseEvents returns a handler for HelmOpReleases that enqueues their HelmOps. The delay grows with the number of
// Clusters. The delay is longest for events that only change numbers in the status of the HelmOp. The handler enqueues
// no HelmOp for releases that the watch filter excludes, and for the releases that exist at the start.
//
// The handler must get the events of all releases, without a predicate: it counts the releases that are not Ready.
func ReleaseEvents(reader client.Reader, watchFilter string) handler.EventHandler {
	unready := &unreadyReleases{byHelmOp: map[client.ObjectKey]sets.Set[string]{}}
	toOwner, isServed := RequestForOwner(reader), OfWatchFilter(watchFilter)
	soon := changeDelay(reader)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requestQueue) {
			release := e.Object.(*addonsv1.HelmOpRelease)
			unready.set(release, !apiutil.IsReadyNow(release))
			if isAfterStart(e) && isServed.Create(e) {
				enqueue(ctx, q, toOwner, soon, release)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requestQueue) {
			if isResync(e) {
				return
			}
			before, after := e.ObjectOld.(*addonsv1.HelmOpRelease), e.ObjectNew.(*addonsv1.HelmOpRelease)
			if apiutil.HelmOpOf(before) != apiutil.HelmOpOf(after) {
				unready.set(before, false)
			}
			left, isNews := unready.set(after, !apiutil.IsReadyNow(after))
			delay := soon
			if onlyCounts(before, after) {
				delay = countDelay(reader, left, isNews)
			}
			if isServed.Update(e) {
				enqueue(ctx, q, toOwner, delay, before, after)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requestQueue) {
			unready.set(e.Object.(*addonsv1.HelmOpRelease), false)
			if isServed.Delete(e) {
				enqueue(ctx, q, toOwner, soon, e.Object)
			}
		},
	}
}

// onlyCounts reports whether an update of a release only changes numbers in the status of its HelmOp, if the HelmOp has
// assigned its revision to all Clusters. A failure may pause the rollout, and a release under deletion may hold the
// deletions of others. The release of a re-created Cluster, and a release of another owner, are assigned again.
func onlyCounts(before, after *addonsv1.HelmOpRelease) bool {
	return isStatusOnly(before, after) && after.DeletionTimestamp.IsZero() && (hasFailed(before) || !hasFailed(after)) &&
		before.Status.ClusterRecreatedAt.Equal(&after.Status.ClusterRecreatedAt) && adoptionOf(before) == adoptionOf(after)
}

// adoptionOf returns the state of an adoption, as far as it changes the steps of a plan that has assigned its revision
// to all Clusters.
func adoptionOf(release *addonsv1.HelmOpRelease) (state struct{ awaits, isHeld bool }) {
	child := rollout.Child{}
	rolloutstate.SetAdoption(&child, release)
	state.awaits, state.isHeld = child.AwaitsAdoption, child.AdoptionHeld
	return state
}

func hasFailed(release *addonsv1.HelmOpRelease) bool {
	health, _ := rolloutstate.Health(release)
	return health == rollout.HealthFailed
}

// countDelay returns how long events that only change numbers are collected. left is the number of releases of the
// HelmOp that are not Ready after the event. isNews is true if the event has changed left.
func countDelay(reader client.Reader, left int, isNews bool) delayFunc {
	return func(ctx context.Context, request ctrl.Request) time.Duration {
		selected, isAssigned := progressOf(ctx, reader, request)
		if !isAssigned {
			return collectFor(selected, changePace, maxChangeDelay)
		}
		delay := collectFor(selected, countPace, maxCountDelay)
		if isNews {
			delay = min(delay, collectFor(left, unreadyPace, maxCountDelay))
		}
		return delay
	}
}

// unreadyReleases holds the names of the releases that are not Ready, by their HelmOps. It is safe for concurrent use.
type unreadyReleases struct {
	mu       sync.Mutex
	byHelmOp map[client.ObjectKey]sets.Set[string]
}

// set records whether a release exists that is not Ready. The results are the number of releases of its HelmOp that are
// not Ready, and whether this number has changed.
func (u *unreadyReleases) set(release *addonsv1.HelmOpRelease, isUnready bool) (left int, isNews bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	helmOp := client.ObjectKey{Namespace: release.Namespace, Name: apiutil.HelmOpOf(release)}
	names := u.byHelmOp[helmOp]
	if names.Has(release.Name) == isUnready {
		return len(names), false
	}
	switch {
	case isUnready && names == nil:
		u.byHelmOp[helmOp] = sets.New(release.Name)
	case isUnready:
		names.Insert(release.Name)
	case len(names) == 1:
		delete(u.byHelmOp, helmOp)
	default:
		names.Delete(release.Name)
	}
	return len(u.byHelmOp[helmOp]), true
}
