// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func progressing(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.ProgressingReason, "") }

func failing(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.InstallFailedReason, "") }

// numbered returns one of the releases of a HelmOp.
func numbered(number int, version string, change func(*addonsv1.HelmOpRelease)) *addonsv1.HelmOpRelease {
	return controllertest.ReadyRelease("it", func(r *addonsv1.HelmOpRelease) {
		r.Name, r.ResourceVersion = fmt.Sprint("it-", number), version
		if change != nil {
			change(r)
		}
	})
}

// eventsOf returns the handler of a manager that starts with a number of releases that are not Ready.
func eventsOf(t *testing.T, reader client.Reader, watchFilter string, unready int) handler.EventHandler {
	t.Helper()
	events, q := ReleaseEvents(reader, watchFilter), &passQueue{}
	for i := range unready {
		events.Create(t.Context(), event.CreateEvent{Object: numbered(i, "1", progressing), IsInInitialList: true}, q)
	}
	if q.due != 0 {
		t.Error("a release that exists at the start enqueues its HelmOp")
	}
	return events
}

// TestReleaseEventsAreCollected checks how long an event of a release is collected. Before the event, 300 releases are
// not Ready.
func TestReleaseEventsAreCollected(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	ready := func(before, after func(*addonsv1.HelmOpRelease)) [2]*addonsv1.HelmOpRelease {
		return [2]*addonsv1.HelmOpRelease{numbered(0, "1", before), numbered(0, "2", after)}
	}
	message := func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.ProgressingReason, "other") }
	adopting := func(reason string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			r.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: ptr.To(true)}
			r.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutJoined}
			report.SetNotReady(r, reason, "")
		}
	}
	for name, tc := range map[string]struct {
		selected, updated int32
		unready           int
		change            [2]*addonsv1.HelmOpRelease
		want              time.Duration
	}{
		"few Clusters":                      {4, 4, 4, ready(progressing, message), SettleDelay},
		"some Clusters wait for their turn": {1000, 999, 300, ready(progressing, message), 2 * time.Second},
		"very many, some wait":              {10000, 1, 300, ready(progressing, message), maxChangeDelay},
		"some are not selected any longer":  {200, 201, 300, ready(progressing, message), time.Second},
		"all are assigned":                  {1000, 1000, 300, ready(progressing, message), 5 * time.Second},
		"all of very many are assigned":     {10000, 10000, 300, ready(progressing, message), maxCountDelay},
		"one of few becomes ready":          {1000, 1000, 100, ready(progressing, nil), 99 * unreadyPace},
		"one of many becomes ready":         {10000, 10000, 2000, ready(progressing, nil), maxCountDelay},
		"the last becomes ready":            {10000, 10000, 1, ready(progressing, nil), SettleDelay},
		"the first is not ready any longer": {10000, 10000, 0, ready(nil, progressing), SettleDelay},
		"fails":                             {10000, 10000, 300, ready(progressing, failing), maxChangeDelay},
		"fails again":                       {10000, 10000, 300, ready(failing, failing), maxCountDelay},
		"a failed one becomes ready":        {10000, 10000, 1, ready(failing, nil), SettleDelay},
		"a failed one of few becomes ready": {10000, 10000, 300, ready(failing, nil), 299 * unreadyPace},
		"must be adopted": {10000, 10000, 300, ready(adopting(addonsv1.ProgressingReason),
			adopting(addonsv1.AdoptionPendingReason)), maxChangeDelay},
		"is adopted": {10000, 10000, 300, ready(adopting(addonsv1.AdoptionPendingReason),
			adopting(addonsv1.UpdatingReason)), maxChangeDelay},
		"may be adopted again": {10000, 10000, 300, ready(adopting(addonsv1.AdoptionWouldChangeReason),
			adopting(addonsv1.UpdatingReason)), maxChangeDelay},
		"the Cluster was re-created": {10000, 10000, 300, ready(progressing, func(r *addonsv1.HelmOpRelease) {
			progressing(r)
			r.Status.ClusterRecreatedAt = now
		}), maxChangeDelay},
		"new spec": {10000, 10000, 300, ready(nil, func(r *addonsv1.HelmOpRelease) { r.Generation++ }),
			maxChangeDelay},
		"deleted": {10000, 10000, 300, ready(nil, func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }),
			maxChangeDelay},
		"annotated": {10000, 10000, 300, ready(nil, func(r *addonsv1.HelmOpRelease) {
			r.Annotations = map[string]string{"a": "b"}
		}), maxChangeDelay},
		"orphaned": {10000, 10000, 300, ready(nil, withoutOwner), maxChangeDelay},
		"resync":   {10000, 10000, 300, [2]*addonsv1.HelmOpRelease{numbered(0, "1", nil), numbered(0, "1", nil)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, events := &passQueue{}, eventsOf(t, fleetOf(tc.selected, tc.updated), "", tc.unready)
			events.Create(t.Context(), event.CreateEvent{Object: tc.change[0], IsInInitialList: true}, q)
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.change[0], ObjectNew: tc.change[1]}, q)
			if q.due != tc.want {
				t.Errorf("the pass is due after %s, want %s", q.due, tc.want)
			}
		})
	}
}

// TestEndOfRolloutIsReportedAfterFewPasses has a rollout in which all Clusters have the revision. 50 releases become
// Ready per second.
func TestEndOfRolloutIsReportedAfterFewPasses(t *testing.T) {
	t.Parallel()
	for fleet, most := range map[int]int{1000: 6, 10000: 12, 20000: 18} {
		q := &passQueue{}
		events := eventsOf(t, fleetOf(int32(fleet), int32(fleet)), "", fleet)
		for i := range fleet {
			q.until(time.Duration(i) * 20 * time.Millisecond)
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(i, "1", progressing),
				ObjectNew: numbered(i, "2", nil)}, q)
		}
		if q.passes > most || q.due > q.now+SettleDelay {
			t.Errorf("%d Clusters: %d passes, want at most %d, and the end is reported after %s", fleet, q.passes, most,
				q.due-q.now)
		}
	}
}

// TestUnreadyReleasesDoNotDelayTheEnd has 800 releases that may never become Ready. They do not delay the report of the
// last release that becomes Ready, or can no longer become Ready.
func TestUnreadyReleasesDoNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	unreachable := func(r *addonsv1.HelmOpRelease) { report.Unreachable(r, "no answer") }
	for name, last := range map[string]func(*addonsv1.HelmOpRelease){"ready": nil, "unreachable": unreachable} {
		events, q := eventsOf(t, fleetOf(10000, 10000), "", 801), &passQueue{}
		for i := range 800 {
			stuck := failing
			if i%2 == 0 {
				stuck = unreachable
			}
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(i, "1", progressing),
				ObjectNew: numbered(i, "2", stuck)}, q)
		}
		q = &passQueue{}
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(800, "1", progressing),
			ObjectNew: numbered(800, "2", last)}, q)
		if q.due != SettleDelay {
			t.Errorf("%s: the end is reported after %s", name, q.due)
		}
	}
}

// TestRepairedReleasesCauseFewPasses has a fleet in which all releases failed with their current specs. 50 of them are
// tried again and become Ready per second, so at any time only few are under way.
func TestRepairedReleasesCauseFewPasses(t *testing.T) {
	t.Parallel()
	const fleet, most = 10000, 12
	failed := func(reason string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, reason, "")
			r.Status.Failures, r.Status.LastAttemptedGeneration = 1, r.Generation
		}
	}
	waits, works := failed(addonsv1.InstallFailedReason), failed(addonsv1.UpdatingReason)
	events, q := ReleaseEvents(fleetOf(fleet, fleet), ""), &passQueue{}
	for i := range fleet {
		events.Create(t.Context(), event.CreateEvent{Object: numbered(i, "1", waits), IsInInitialList: true}, q)
	}
	for i := range fleet {
		q.until(time.Duration(i) * 20 * time.Millisecond)
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(i, "1", waits),
			ObjectNew: numbered(i, "2", works)}, q)
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(i, "2", works),
			ObjectNew: numbered(i, "3", nil)}, q)
	}
	if q.passes > most || q.due > q.now+SettleDelay {
		t.Errorf("%d passes, want at most %d, and the end is reported after %s", q.passes, most, q.due-q.now)
	}
}

// TestDeletedReleasesDoNotCount checks that a release that was deleted, or has another HelmOp, does not count as not
// Ready: the last Ready release of the others would be reported late.
func TestDeletedReleasesDoNotCount(t *testing.T) {
	t.Parallel()
	events, q := eventsOf(t, fleetOf(10000, 10000), "", 500), &passQueue{}
	for i := range 250 {
		events.Delete(t.Context(), event.DeleteEvent{Object: numbered(i, "2", progressing)}, q)
	}
	for i := range 249 {
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(250+i, "1", progressing),
			ObjectNew: numbered(250+i, "2", func(r *addonsv1.HelmOpRelease) {
				progressing(r)
				withoutOwner(r)
			})}, q)
	}
	q = &passQueue{}
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(499, "1", progressing),
		ObjectNew: numbered(499, "2", nil)}, q)
	if q.due != SettleDelay {
		t.Errorf("the end is reported after %s", q.due)
	}
}

// TestReleaseEventsOfOtherManagers checks that releases that the watch filter excludes enqueue nothing.
func TestReleaseEventsOfOtherManagers(t *testing.T) {
	t.Parallel()
	events, q := eventsOf(t, fleetOf(1, 1), "mine", 1), &passQueue{}
	events.Create(t.Context(), event.CreateEvent{Object: numbered(1, "1", nil)}, q)
	events.Update(t.Context(), event.UpdateEvent{ObjectOld: numbered(1, "1", nil),
		ObjectNew: numbered(1, "2", failing)}, q)
	events.Delete(t.Context(), event.DeleteEvent{Object: numbered(1, "2", failing)}, q)
	if q.due != 0 {
		t.Error("a release of another manager enqueues its HelmOp")
	}
}
