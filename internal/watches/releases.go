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
	unready := newUnreadyReleases()
	toOwner, isServed := RequestForOwner(reader), OfWatchFilter(watchFilter)
	soon := changeDelay(reader)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requestQueue) {
			release := e.Object.(*addonsv1.HelmOpRelease)
			unready.note(release)
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
				unready.forget(before)
			}
			left, isNews := unready.note(after)
			delay := soon
			if onlyCounts(before, after) {
				delay = countDelay(reader, left, isNews)
			}
			if isServed.Update(e) {
				enqueue(ctx, q, toOwner, delay, before, after)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requestQueue) {
			unready.forget(e.Object.(*addonsv1.HelmOpRelease))
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
	rolloutstate.SetAdoption(&child, release, false)
	state.awaits, state.isHeld = child.AwaitsAdoption, child.AdoptionHeld
	return state
}

func hasFailed(release *addonsv1.HelmOpRelease) bool {
	health, _ := rolloutstate.Health(release)
	return health == rollout.HealthFailed
}

// countDelay returns how long events that only change numbers are collected. left and isNews are the results of
// [unreadyReleases.note].
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

// unreadyReleases counts the releases of each HelmOp that are not Ready.
type unreadyReleases struct {
	all releaseSets

	// underWay has those releases of all that become Ready without a change, see [rolloutstate.IsUnderWay].
	underWay releaseSets
}

func newUnreadyReleases() *unreadyReleases {
	return &unreadyReleases{
		all:      releaseSets{byHelmOp: map[client.ObjectKey]sets.Set[string]{}},
		underWay: releaseSets{byHelmOp: map[client.ObjectKey]sets.Set[string]{}},
	}
}

// note counts a release with its current state. isNews is true if this state is news for the status of the HelmOp. left
// is then the number of releases of the HelmOp that delay its report. Only releases under way delay the report of
// another release that was under way, because the others may never become Ready. All unready releases delay the report
// of a repaired release. Otherwise, after an outage of many Clusters, each repaired release would cause a pass.
func (u *unreadyReleases) note(release *addonsv1.HelmOpRelease) (left int, isNews bool) {
	all, isOther := u.all.set(release, !apiutil.IsReadyNow(release))
	underWay, isNews := u.underWay.set(release, rolloutstate.IsUnderWay(release))
	if isNews {
		return underWay, true
	}
	return all, isOther
}

// forget removes a release that was deleted, or has another HelmOp now.
func (u *unreadyReleases) forget(release *addonsv1.HelmOpRelease) {
	u.all.set(release, false)
	u.underWay.set(release, false)
}

// releaseSets holds the names of some releases, by their HelmOps. It is safe for concurrent use.
type releaseSets struct {
	mu       sync.Mutex
	byHelmOp map[client.ObjectKey]sets.Set[string]
}

// set records whether the set of its HelmOp has a release. The results are the size of this set, and whether the size
// has changed.
func (s *releaseSets) set(release *addonsv1.HelmOpRelease, isMember bool) (size int, isChanged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	helmOp := client.ObjectKey{Namespace: release.Namespace, Name: apiutil.HelmOpOf(release)}
	names := s.byHelmOp[helmOp]
	if names.Has(release.Name) == isMember {
		return len(names), false
	}
	switch {
	case isMember && names == nil:
		s.byHelmOp[helmOp] = sets.New(release.Name)
	case isMember:
		names.Insert(release.Name)
	case len(names) == 1:
		delete(s.byHelmOp, helmOp)
	default:
		names.Delete(release.Name)
	}
	return len(s.byHelmOp[helmOp]), true
}
