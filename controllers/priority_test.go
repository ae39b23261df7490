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
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// settledRelease is one that is as it is wanted.
func settledRelease(name string) *addonsv1.HelmOpRelease {
	release := releaseFor("default", name, addonsv1.ClusterReference{Name: name})
	release.UID, release.Generation = types.UID(name), 1
	release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1}
	release.Status.ObservedGeneration = 1
	setCondition(release, addonsv1.ClusterReachableCondition, metav1True, "Reachable", "")
	setCondition(release, addonsv1.ReadyCondition, metav1True, "Ready", "")
	return release
}

func TestPriorityOfARelease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		want   int
	}{
		"as it is wanted": {func(*addonsv1.HelmOpRelease) {}, priorityOfRest},
		"new":             {func(r *addonsv1.HelmOpRelease) { r.Status = addonsv1.HelmOpReleaseStatus{} }, priorityOfFirst},
		"changed":         {func(r *addonsv1.HelmOpRelease) { r.Generation++ }, priorityOfWork},
		"not ready":       {func(r *addonsv1.HelmOpRelease) { setNotReady(r, "x", "") }, priorityOfWork},
		"just installed, not ready": {func(r *addonsv1.HelmOpRelease) {
			setNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(noon.Add(-time.Minute))
		}, priorityOfFresh},
		"just installed, and ready": {func(r *addonsv1.HelmOpRelease) {
			r.Status.Release.LastDeployed = metav1.NewTime(noon.Add(-time.Minute))
		}, priorityOfRest},
		"just upgraded, not ready": {func(r *addonsv1.HelmOpRelease) {
			setNotReady(r, "x", "")
			r.Status.Release.Revision, r.Status.Release.LastDeployed = 2, metav1.NewTime(noon.Add(-time.Minute))
		}, priorityOfWork},
		"just installed, by a clock that is a bit ahead": {func(r *addonsv1.HelmOpRelease) {
			setNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(noon.Add(time.Second))
		}, priorityOfFresh},
		"installed in the future, not ready": {func(r *addonsv1.HelmOpRelease) {
			setNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(noon.Add(time.Hour))
		}, priorityOfWork},
		"installed long ago, not ready": {func(r *addonsv1.HelmOpRelease) {
			setNotReady(r, "x", "")
			r.Status.Release.LastDeployed = metav1.NewTime(noon.Add(-freshFor))
		}, priorityOfWork},
		"going":   {func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &metav1.Time{Time: noon} }, priorityOfWork},
		"failing": {func(r *addonsv1.HelmOpRelease) { r.Generation++; r.Status.Failures = 1 }, priorityOfFailure},
		"failing from the start": {func(r *addonsv1.HelmOpRelease) {
			r.Status = addonsv1.HelmOpReleaseStatus{Failures: 3}
		}, priorityOfFailure},
		"unreachable": {func(r *addonsv1.HelmOpRelease) { r.Generation++; reportUnreachable(r, "") }, priorityOfRest},
		"new and unreachable": {func(r *addonsv1.HelmOpRelease) {
			r.Status = addonsv1.HelmOpReleaseStatus{}
			reportUnreachable(r, "")
		}, priorityOfRest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := settledRelease("one")
			test.change(release)
			if got := priorityOf(release, false, noon); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestNewReleaseOvertakesAThousand holds that a new Cluster does not wait for those that the manager just looks at, be it for a
// resync, since it has just started, or for their connections have come.
func TestNewReleaseOvertakesAThousand(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range 1000 {
		objects = append(objects, settledRelease(fmt.Sprintf("old-%d", i)))
	}
	changed := settledRelease("changed")
	changed.Generation++
	// Its API server did not answer at first.
	late := releaseFor("default", "new", addonsv1.ClusterReference{Name: "new"})
	reportUnreachable(late, "")
	objects = append(objects, changed, late)
	waiting := newReleaseQueue(storeOf(t, objects...), func(client.ObjectKey) bool { return true }, func(release client.ObjectKey) bool { return release.Name == "old-3" })("test", requeue.NewLimiter()).(priorityqueue.PriorityQueue[ctrl.Request])
	defer waiting.ShutDown()
	for i := range 1000 {
		old := requestFor(fmt.Sprintf("old-%d", i))
		switch i % 3 {
		case 0:
			waiting.Add(old)
		case 1:
			waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, old)
		default:
			waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(priorityOfRest)}, old)
		}
	}
	// What a manager finds unfinished when it starts is no less urgent for that.
	waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, requestFor("changed"), requestFor("new"))
	waiting.AddWithOpts(priorityqueue.AddOpts{Priority: new(priorityOfTurn)}, requestFor("old-999"))
	// "old-3" was given a slot, and comes back since its read ended.
	for _, want := range []string{"old-3", "old-999", "new", "changed"} {
		if got, _ := waiting.Get(); got.Name != want {
			t.Errorf("%s comes, want %s", got.Name, want)
		}
	}
}

// TestReconnectRetry holds that releases of a Cluster whose link saw it break do not ask again and again: the link tells when it answers.
func TestReconnectRetry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state       clusterlink.State
		least, most time.Duration
	}{
		"not tried yet":    {clusterlink.State{}, 12 * time.Second, 18 * time.Second},
		"it answered":      {clusterlink.State{LastTry: noon, LastAnswer: noon}, 12 * time.Second, 18 * time.Second},
		"it was seen down": {clusterlink.State{LastTry: noon, Failures: 1}, 96 * time.Second, 144 * time.Second},
	} {
		if got := reconnectRetry(settledRelease("one"), tc.state); got < tc.least || got > tc.most {
			t.Errorf("%s: after %s", name, got)
		}
	}
}

// TestResyncsSpread holds that what a fleet does again and again it does not do all at once.
func TestResyncsSpread(t *testing.T) {
	t.Parallel()
	const period = 10 * time.Minute
	inMinute := map[int]int{}
	for i := range 1000 {
		release := settledRelease(fmt.Sprintf("%08x", i*7919))
		next := withinResync(0, period, release)
		if next > period*11/10 || next < period*9/10 || next != withinResync(time.Hour, period, release) {
			t.Fatalf("the next pass is due after %s", next)
		}
		inMinute[int((next-period*9/10)/(15*time.Second))]++
		if retry := spread(time.Minute, release); retry < 48*time.Second || retry > 72*time.Second {
			t.Fatalf("a retry is due after %s", retry)
		}
	}
	for slice, n := range inMinute {
		if n > 200 {
			t.Errorf("%d of 1000 come in 15 s (the %dth)", n, slice)
		}
	}
	release := settledRelease("one")
	if soon := withinResync(time.Second, period, release); soon != time.Second {
		t.Errorf("what is due soon comes after %s", soon)
	}
	release.DeletionTimestamp = &metav1.Time{Time: noon}
	if never := withinResync(0, period, release); never != 0 {
		t.Errorf("what is gone comes after %s", never)
	}
	if never := withinResync(0, 0, settledRelease("one")); never != 0 {
		t.Errorf("without a period it comes after %s", never)
	}
}

// TestManagementClusterAnswers holds that what is installed where the manager lives is not left for last: nothing probes that cluster.
func TestManagementClusterAnswers(t *testing.T) {
	t.Parallel()
	answers := answersOf(unprobed{})
	if !answers(clusterlink.Management) || answers(client.ObjectKey{Namespace: "fleet", Name: "one"}) {
		t.Errorf("management cluster: %t, another one: %t", answers(clusterlink.Management), answers(client.ObjectKey{Namespace: "fleet", Name: "one"}))
	}
}

// unprobed are clusters that were never asked.
type unprobed struct{ Clusters }

func (unprobed) State(client.ObjectKey) clusterlink.State { return clusterlink.State{} }
