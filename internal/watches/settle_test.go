// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// passQueue is a queue for one HelmOp with a clock that the test moves. Like the queue of a controller, it keeps only
// the earliest request.
type passQueue struct {
	requestQueue
	now, due time.Duration
	passes   int
}

func (q *passQueue) AddAfter(_ ctrl.Request, after time.Duration) {
	if at := q.now + after; q.due == 0 || at < q.due {
		q.due = at
	}
}

// until moves the clock, and makes the pass if it is due by then.
func (q *passQueue) until(now time.Duration) {
	if q.due != 0 && q.due <= now {
		q.passes, q.due = q.passes+1, 0
	}
	q.now = now
}

// fleetReader reads a HelmOp with a status, and lists nothing.
type fleetReader struct {
	client.Reader
	status addonsv1.HelmOpStatus
}

func (r *fleetReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	helmOp := obj.(*addonsv1.HelmOp)
	helmOp.Namespace, helmOp.Name, helmOp.Status = key.Namespace, key.Name, r.status
	return nil
}

func (r *fleetReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return nil
}

// fleetOf returns a reader of a HelmOp that selects a number of Clusters and has assigned its revision to some of them.
func fleetOf(selected, updated int32) *fleetReader {
	return &fleetReader{status: addonsv1.HelmOpStatus{Clusters: &addonsv1.ClusterCounts{Selected: selected},
		Rollout: &addonsv1.RolloutStatus{Updated: updated}}}
}

// TestClusterEventsUsersWaitFor checks that only changes of the status that no user waits for are collected longer than
// SettleDelay.
func TestClusterEventsUsersWaitFor(t *testing.T) {
	t.Parallel()
	set := func(value any, fields ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
				t.Error(err)
			}
		}
	}
	topology := func(status string, generation int64) func(*unstructured.Unstructured) {
		return set([]any{map[string]any{"type": clusterv1.ClusterTopologyReconciledCondition, "status": status,
			"observedGeneration": generation}}, "status", "conditions")
	}
	now := metav1.Now()
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   time.Duration
	}{
		"conditions": {topology("False", 1), 2 * time.Second},
		"machines":   {set(int64(3), "status", "workers", "replicas"), 2 * time.Second},
		"labels":     {func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, SettleDelay},
		"annotations": {func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
		}, SettleDelay},
		"spec":       {func(u *unstructured.Unstructured) { u.SetGeneration(2) }, SettleDelay},
		"deletion":   {func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&now) }, SettleDelay},
		"finalizers": {func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a"}) }, SettleDelay},
		"re-created": {func(u *unstructured.Unstructured) { u.SetUID("another") }, SettleDelay},
		"owner": {func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Cluster", Name: "one"}})
		}, SettleDelay},
		"initialized": {set(true, "status", "initialization", "controlPlaneInitialized"), SettleDelay},
		"version":     {set("v1.37.0", "status", "version"), SettleDelay},
		"plan": {set([]any{map[string]any{"version": "v1.37.0"}}, "status", "controlPlane", "upgradePlan"),
			SettleDelay},
		"topology processed": {topology("True", 2), SettleDelay},
		"resync":             {func(u *unstructured.Unstructured) { u.SetResourceVersion("1") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := apiutil.NewCluster()
			before.SetNamespace("fleet")
			before.SetGeneration(1)
			before.SetResourceVersion("1")
			topology("True", 1)(before)
			after := before.DeepCopy()
			after.SetResourceVersion("2")
			tc.change(after)
			q := &passQueue{}
			ClusterEvents(NewPace(fleetOf(1000, 1000)), RequestForItself).Update(t.Context(),
				event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
			if q.due != tc.want {
				t.Errorf("the pass is due after %s, want %s", q.due, tc.want)
			}
		})
	}
}

// TestReplayOfKindIsCollected has a busy manager that begins to watch a kind with a thousand objects: their replay
// takes a second and a half.
func TestReplayOfKindIsCollected(t *testing.T) {
	t.Parallel()
	q := &passQueue{}
	events := ClusterEvents(NewPace(fleetOf(1000, 1000)), RequestForItself)
	for i := range 1000 {
		q.until(time.Duration(i) * 1500 * time.Microsecond)
		events.Create(t.Context(), event.CreateEvent{Object: apiutil.NewCluster(), IsInInitialList: true}, q)
	}
	if q.passes != 0 || q.due != 2*time.Second {
		t.Errorf("%d passes during the replay, and the next one is due at %s", q.passes, q.due)
	}
}

// TestClusterStatusCausesFewPasses has a fleet of 10,000 Clusters in which Cluster API writes the status of ten
// Clusters per second. The time of a pass grows with the number of Clusters, so the passes must become fewer.
func TestClusterStatusCausesFewPasses(t *testing.T) {
	t.Parallel()
	q, mapped := &passQueue{}, 0
	events := ClusterEvents(NewPace(fleetOf(10000, 10000)), func(ctx context.Context, obj client.Object) []ctrl.Request {
		mapped++
		return RequestForItself(ctx, obj)
	})
	before := apiutil.NewCluster()
	for i := range 600 {
		q.until(time.Duration(i) * 100 * time.Millisecond)
		after := before.DeepCopy()
		after.SetResourceVersion(fmt.Sprint(i + 1))
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		before = after
	}
	if q.passes > 15 || mapped != 600 {
		t.Errorf("%d passes in a minute, and %d lookups of HelmOps for 600 events", q.passes, mapped)
	}
	q.due = 0
	if events.Create(t.Context(), event.CreateEvent{Object: before}, q); q.due != q.now+SettleDelay {
		t.Errorf("after a new Cluster, the pass is due after %s", q.due-q.now)
	}
}

// arrivals sends the events of a number of new Clusters, one after each interval, and returns the delay of the first
// pass after the last event, and the number of passes before. It runs in a bubble of synctest.
func arrivals(t *testing.T, events handler.EventHandler, number int, interval time.Duration) (last time.Duration,
	passes int,
) {
	t.Helper()
	began, q := time.Now(), &passQueue{}
	for range number {
		time.Sleep(interval)
		q.until(time.Since(began))
		events.Create(t.Context(), event.CreateEvent{Object: apiutil.NewCluster()}, q)
	}
	return q.due - q.now, q.passes
}

// TestArrivalOfFleetCausesFewPasses creates 2,500 Clusters in the course of four minutes: the HelmOps exist already, so
// each pass is a pass over the whole fleet.
func TestArrivalOfFleetCausesFewPasses(t *testing.T) {
	t.Parallel()
	for selected, most := range map[int32]int{2500: 250/4 + soonPasses, 100: 2500} {
		synctest.Test(t, func(t *testing.T) {
			events := ClusterEvents(NewPace(fleetOf(selected, selected)), RequestForItself)
			last, passes := arrivals(t, events, 2500, 100*time.Millisecond)
			if passes > most || last > maxChangeDelay {
				t.Errorf("%d Clusters: %d passes, want at most %d; the last is due after %s", selected, passes, most, last)
			}
			if selected == 100 && (passes < 600 || last > SettleDelay) {
				t.Errorf("a small fleet has %d passes; the last is due after %s", passes, last)
			}
		})
	}
}

// TestSingleClusterIsServedSoon creates a Cluster beside a quiet fleet. Its first events, one after the other, cause
// passes without a wait, also if another Cluster is created later.
func TestSingleClusterIsServedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := ClusterEvents(NewPace(fleetOf(10000, 10000)), RequestForItself)
		for range 2 {
			if last, passes := arrivals(t, events, soonPasses, time.Second); passes != soonPasses-1 || last != SettleDelay {
				t.Errorf("%d passes before the last event, whose pass is due after %s", passes, last)
			}
			time.Sleep(soonPasses * maxChangeDelay)
		}
	})
}

// TestPaceForgetsHelmOps checks that a Pace does not keep HelmOps without events: they may be deleted.
func TestPaceForgetsHelmOps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pace := NewPace(fleetOf(10000, 10000))
		request := func(name string) ctrl.Request {
			return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "fleet", Name: name}}
		}
		pace.delay(t.Context(), request("deleted"))
		time.Sleep(2 * soonPasses * maxChangeDelay)
		pace.delay(t.Context(), request("created"))
		if len(pace.helmOps) != 1 {
			t.Errorf("%d HelmOps, want the last one", len(pace.helmOps))
		}
	})
}
