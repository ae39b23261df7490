// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

func TestPriorityOfRelease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		want   int
	}{
		"up to date": {func(*addonsv1.HelmOpRelease) {}, queue.PriorityOfRest},
		"new": {func(r *addonsv1.HelmOpRelease) { r.Status = addonsv1.HelmOpReleaseStatus{} },
			queue.PriorityOfFirst},
		"changed":   {func(r *addonsv1.HelmOpRelease) { r.Generation++ }, queue.PriorityOfWork},
		"not ready": {func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, "x", "") }, queue.PriorityOfWork},
		"just installed, not ready": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(controllertest.Noon.Add(-time.Minute))
		}, queue.PriorityOfFresh},
		"just installed, and ready": {func(r *addonsv1.HelmOpRelease) {
			r.Status.Release.LastDeployed = metav1.NewTime(controllertest.Noon.Add(-time.Minute))
		}, queue.PriorityOfRest},
		"just upgraded, not ready": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, "x", "")
			r.Status.Release.Revision, r.Status.Release.LastDeployed = 2, metav1.NewTime(controllertest.Noon.Add(-time.Minute))
		}, queue.PriorityOfWork},
		"just installed, by a clock that is a bit ahead": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(controllertest.Noon.Add(time.Second))
		}, queue.PriorityOfFresh},
		"installed in the future, not ready": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(controllertest.Noon.Add(time.Hour))
		}, queue.PriorityOfWork},
		"installed long ago, not ready": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(controllertest.Noon.Add(-queue.FreshFor))
		}, queue.PriorityOfWork},
		"under deletion": {func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon} },
			queue.PriorityOfWork},
		"failing": {func(r *addonsv1.HelmOpRelease) { r.Generation++; r.Status.Failures = 1 }, queue.PriorityOfFailure},
		"failing from the start": {func(r *addonsv1.HelmOpRelease) {
			r.Status = addonsv1.HelmOpReleaseStatus{Failures: 3}
		}, queue.PriorityOfFailure},
		"unreachable": {func(r *addonsv1.HelmOpRelease) { r.Generation++; report.Unreachable(r, "") }, queue.PriorityOfRest},
		"new and unreachable": {func(r *addonsv1.HelmOpRelease) {
			r.Status = addonsv1.HelmOpReleaseStatus{}
			report.Unreachable(r, "")
		}, queue.PriorityOfRest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := controllertest.UpToDateRelease("one")
			test.change(release)
			if got := queue.PriorityOf(release, false, controllertest.Noon); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestNewReleasePrecedesUpToDateReleases checks that the release of a new Cluster comes before many releases that are
// only checked.
func TestNewReleasePrecedesUpToDateReleases(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range 1000 {
		objects = append(objects, controllertest.UpToDateRelease(fmt.Sprintf("old-%d", i)))
	}
	changed, begun := controllertest.UpToDateRelease("changed"), controllertest.UpToDateRelease("begun")
	changed.Generation++
	begun.Generation++
	// The API server of this release did not respond at first.
	late := controllertest.ReleaseFor("default", "new", addonsv1.ClusterReference{Name: "new"})
	report.Unreachable(late, "")
	objects = append(objects, changed, begun, late)
	waiting := queue.New(controllertest.StoreOf(t, objects...), func(client.ObjectKey) bool { return true },
		func(release client.ObjectKey) bool { return release.Name == "old-3" })("test",
		requeue.NewLimiter()).(priorityqueue.PriorityQueue[ctrl.Request])
	defer waiting.ShutDown()
	for i := range 1000 {
		old := controllertest.RequestFor(fmt.Sprintf("old-%d", i))
		switch i % 3 {
		case 0:
			waiting.Add(old)
		case 1:
			waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, old)
		default:
			waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(queue.PriorityOfRest)}, old)
		}
	}
	// Unfinished work keeps its priority when a manager starts.
	waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, controllertest.RequestFor("changed"),
		controllertest.RequestFor("new"))
	waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(async.PriorityOfSlot)}, controllertest.RequestFor("old-999"))
	// Begun work raises only the priority of releases that are up to date.
	for _, name := range []string{"old-500", "begun"} {
		waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(async.PriorityOfBegun)}, controllertest.RequestFor(name))
	}
	// "old-3" was granted a slot, and is enqueued at the end of its read.
	for _, want := range []string{"old-3", "old-999", "new", "changed", "begun", "old-500", "old-0"} {
		if got, _ := waiting.Get(); got.Name != want {
			t.Errorf("%s comes, want %s", got.Name, want)
		}
	}
}

// TestReconnectRetry checks that a release is rarely tried again if the link has detected the failure. The link
// enqueues the release when the Cluster responds.
func TestReconnectRetry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state       clusterlink.State
		least, most time.Duration
	}{
		"not tried yet": {clusterlink.State{}, 12 * time.Second, 18 * time.Second},
		"the cluster answered": {clusterlink.State{LastTry: controllertest.Noon, LastAnswer: controllertest.Noon},
			12 * time.Second, 18 * time.Second},
		"the link detected the failure": {clusterlink.State{LastTry: controllertest.Noon, Failures: 1}, 96 * time.Second,
			144 * time.Second},
	} {
		if got := reconnectRetry(controllertest.UpToDateRelease("one"), tc.state); got < tc.least || got > tc.most {
			t.Errorf("%s: after %s", name, got)
		}
	}
}
