// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// recordingQueue records the requests that are added to it.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	added  []string
	delays []time.Duration
}

func (q *recordingQueue) Add(request ctrl.Request) { q.added = append(q.added, request.Name) }

func (q *recordingQueue) AddAfter(request ctrl.Request, delay time.Duration) {
	q.Add(request)
	q.delays = append(q.delays, delay)
}

// countingReader counts the objects that are listed.
type countingReader struct {
	client.Reader
	listed int
}

func (r *countingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	r.listed += meta.LenList(list)
	return err
}

// changedRelease returns a release in the state after an event.
func changedRelease(helmOp string, change func(*addonsv1.HelmOpRelease)) *addonsv1.HelmOpRelease {
	return controllertest.ReadyRelease(helmOp, func(r *addonsv1.HelmOpRelease) {
		r.ResourceVersion = "2"
		if change != nil {
			change(r)
		}
	})
}

func pauseRelease(r *addonsv1.HelmOpRelease) {
	r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
}

func TestEventsOfReleasesWakeThoseThatTheyMeanSomethingTo(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	failing := func(message string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.InstallFailedReason, message) }
	}
	needing := func(name string, expr string, change func(*addonsv1.HelmOpRelease)) *addonsv1.HelmOpRelease {
		return controllertest.ReadyRelease(name, func(r *addonsv1.HelmOpRelease) {
			r.Spec.DependsOn = []addonsv1.Dependency{{Name: "cni", ReadyExpr: expr}}
			if change != nil {
				change(r)
			}
		})
	}
	// The sibling "waits" waits for its dependency according to the cache. The sibling "quiet" does not wait, but may do
	// so soon. "new", "changed" and "failed" may be in a pass that has read the old state.
	siblings := []client.Object{
		controllertest.ReadyRelease("other", nil),
		needing("quiet", "", nil),
		needing("waits", "", controllertest.AwaitDependencies),
		needing("expr", "true", nil),
		needing("new", "", func(r *addonsv1.HelmOpRelease) { r.Status.Conditions = nil }),
		needing("changed", "", func(r *addonsv1.HelmOpRelease) { r.Generation++ }),
		needing("failed", "", failing("old")),
		needing("ends", "", func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }),
		needing("elsewhere", "",
			func(r *addonsv1.HelmOpRelease) { r.Spec.ClusterRef.Name = "two"; controllertest.AwaitDependencies(r) }),
	}
	all := []string{"changed-one", "expr-one", "failed-one", "new-one", "quiet-one", "waits-one"}
	explained := []string{"changed-one", "failed-one", "new-one", "waits-one"}
	tests := map[string]struct {
		before, after *addonsv1.HelmOpRelease
		want          []string
	}{
		"became ready": {controllertest.ReadyRelease("cni", failing("a")), changedRelease("cni", nil), all},
		"looked at again": {controllertest.ReadyRelease("cni", func(r *addonsv1.HelmOpRelease) { r.Generation++ }),
			changedRelease("cni", nil), all},
		"another revision is assigned": {controllertest.ReadyRelease("cni", nil),
			changedRelease("cni", func(r *addonsv1.HelmOpRelease) { r.Spec.Rollout.Revision++ }), all},
		"paused": {controllertest.ReadyRelease("cni", nil), changedRelease("cni", pauseRelease),
			append([]string{"changed-one", "ends-one"}, all[1:]...)},
		"unpaused": {controllertest.ReadyRelease("cni", pauseRelease), changedRelease("cni", nil),
			[]string{"ends-one", "expr-one"}},
		"status changed": {controllertest.ReadyRelease("cni", nil),
			changedRelease("cni", func(r *addonsv1.HelmOpRelease) { r.Status.Release.Version = "2" }), []string{"expr-one"}},
		"ceased": {controllertest.ReadyRelease("cni", nil), changedRelease("cni", failing("a")),
			explained},
		"other words": {controllertest.ReadyRelease("cni", failing("a")), changedRelease("cni", failing("b")),
			explained},
		"the same words": {controllertest.ReadyRelease("cni", failing("a")), changedRelease("cni", failing("a")), nil},
		"resync":         {controllertest.ReadyRelease("cni", nil), controllertest.ReadyRelease("cni", nil), nil},
		"ends": {controllertest.ReadyRelease("cni", nil),
			changedRelease("cni", func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }),
			[]string{"changed-one", "ends-one", "failed-one", "new-one", "waits-one"}},
		"depends no more": {controllertest.ReadyRelease("x",
			func(r *addonsv1.HelmOpRelease) { r.Spec.DependsOn = controllertest.DependingOn("ends") }), changedRelease("x", nil),
			[]string{"ends-one"}},
		"waits for images": {controllertest.ReadyRelease("x", failing("a")),
			changedRelease("x",
				func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.ImagesMissingReason, "a") }),
			[]string{"ends-one"}},
		"without dependents": {controllertest.ReadyRelease("cni", failing("a")),
			changedRelease("cni", func(r *addonsv1.HelmOpRelease) { r.OwnerReferences = nil }), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &recordingQueue{}
			SiblingsOnChange(controllertest.StoreOf(t, siblings...)).Update(t.Context(),
				event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			if slices.Sort(q.added); !slices.Equal(q.added, tc.want) {
				t.Errorf("woken %q, want %q", q.added, tc.want)
			}
		})
	}
	t.Run("created and deleted", func(t *testing.T) {
		t.Parallel()
		wake := func(call func(handler.EventHandler, *recordingQueue)) []string {
			q := &recordingQueue{}
			call(SiblingsOnChange(controllertest.StoreOf(t, siblings...)), q)
			slices.Sort(q.added)
			return q.added
		}
		cni, unready := controllertest.ReadyRelease("cni", nil), controllertest.ReadyRelease("cni", failing("a"))
		created := wake(func(h handler.EventHandler, q *recordingQueue) {
			h.Create(t.Context(), event.CreateEvent{Object: unready}, q)
		})
		ready := wake(func(h handler.EventHandler, q *recordingQueue) {
			h.Create(t.Context(), event.CreateEvent{Object: cni}, q)
		})
		listed := wake(func(h handler.EventHandler, q *recordingQueue) {
			h.Create(t.Context(), event.CreateEvent{Object: cni, IsInInitialList: true}, q)
		})
		deleted := wake(func(h handler.EventHandler, q *recordingQueue) {
			h.Delete(t.Context(), event.DeleteEvent{Object: cni}, q)
		})
		if !slices.Equal(created, explained) || !slices.Equal(ready, all) || listed != nil ||
			!slices.Equal(deleted, []string{"changed-one", "ends-one", "failed-one", "new-one", "waits-one"}) {
			t.Errorf("woken by creation %q, Ready %q, at the start %q, by deletion %q", created, ready, listed, deleted)
		}
	})
}

// TestEventsOfReleasesWithoutDependentsListNothing has a Cluster with many releases that do not depend on each other. A
// change of one of them must not read the others, and must not read the HelmOps.
func TestEventsOfReleasesWithoutDependentsListNothing(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range 20 {
		objects = append(objects, controllertest.ReadyRelease(fmt.Sprint("other-", i), nil),
			controllertest.UpToDateHelmOp(t, fmt.Sprint("other-", i), nil))
	}
	reader := &countingReader{Reader: controllertest.StoreOf(t, objects...)}
	before := controllertest.ReadyRelease("cni", func(r *addonsv1.HelmOpRelease) {
		report.SetNotReady(r, addonsv1.InstallFailedReason, "")
	})
	for _, h := range []handler.EventHandler{SiblingsOnChange(reader), HelmOpsOnChange(reader)} {
		q := &recordingQueue{}
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: changedRelease("cni", nil)}, q)
		if q.added != nil || reader.listed != 0 {
			t.Errorf("woken %q, %d objects are listed", q.added, reader.listed)
		}
	}
}

// TestEventsOfReleasesWakeDependentHelmOps checks that the HelmOps that depend on the HelmOp of a release are enqueued,
// and that their delay grows with the number of their Clusters.
func TestEventsOfReleasesWakeDependentHelmOps(t *testing.T) {
	t.Parallel()
	const change, message = 2 * time.Second, 5 * time.Second // of a HelmOp with 1000 Clusters
	depending := func(name, on, expr string) client.Object {
		return controllertest.UpToDateHelmOp(t, name, func(h *addonsv1.HelmOp) {
			h.Spec.DependsOn = []addonsv1.Dependency{{Name: "storage"}, {Name: on, ReadyExpr: expr}}
			h.Status.Clusters = &addonsv1.ClusterCounts{Selected: 1000}
		})
	}
	store := controllertest.StoreOf(t, depending("dns", "cni", ""), depending("expr", "cni", "true"),
		depending("other", "dns", ""))
	ready := controllertest.ReadyRelease("cni", nil)
	for name, tc := range map[string]struct {
		before *addonsv1.HelmOpRelease
		after  func(*addonsv1.HelmOpRelease)
		want   []string
		delay  time.Duration
	}{
		"becomes ready": {before: controllertest.ReadyRelease("cni", controllertest.AwaitDependencies),
			want: []string{"dns", "expr"}, delay: change},
		"is paused": {before: ready, after: pauseRelease, want: []string{"dns", "expr"}, delay: change},
		"status": {before: ready, after: func(r *addonsv1.HelmOpRelease) { r.Status.Release.Version = "2" },
			want: []string{"expr"}, delay: change},
		"ceases to be ready": {before: ready, after: controllertest.AwaitDependencies, want: []string{"dns", "expr"},
			delay: message},
	} {
		q := &recordingQueue{}
		HelmOpsOnChange(store).Update(t.Context(),
			event.UpdateEvent{ObjectOld: tc.before, ObjectNew: changedRelease("cni", tc.after)}, q)
		if slices.Sort(q.added); !slices.Equal(q.added, tc.want) {
			t.Errorf("%s: woken %q, want %q", name, q.added, tc.want)
		}
		for _, delay := range q.delays {
			if delay != tc.delay {
				t.Errorf("%s: collected for %s, want %s", name, delay, tc.delay)
			}
		}
	}
}

func TestEventsOfHelmOpsThatMatterToOthers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*addonsv1.HelmOp)
		want   bool
	}{
		"nothing":      {func(*addonsv1.HelmOp) {}, false},
		"counts":       {func(h *addonsv1.HelmOp) { h.Status.Clusters = &addonsv1.ClusterCounts{Ready: 5} }, false},
		"interval":     {func(h *addonsv1.HelmOp) { h.Spec.Source.Interval.Duration = 5 }, false},
		"spec":         {func(h *addonsv1.HelmOp) { h.Generation++ }, true},
		"source":       {func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "2" }, true},
		"selector":     {func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["x"] = "y" }, true},
		"namespaces":   {func(h *addonsv1.HelmOp) { h.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{} }, true},
		"dependencies": {func(h *addonsv1.HelmOp) { h.Spec.DependsOn = controllertest.DependingOn("b") }, true},
		"resolving": {func(h *addonsv1.HelmOp) {
			report.SetCondition(h, addonsv1.ResolvedCondition, metav1.ConditionUnknown, addonsv1.ResolvingReason, "")
		}, true},
		"spec.paused":    {func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, true},
		"paused":         {func(h *addonsv1.HelmOp) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, true},
		"revision":       {func(h *addonsv1.HelmOp) { h.Status.Rollout.Revision++ }, true},
		"phase":          {func(h *addonsv1.HelmOp) { h.Status.Rollout.Phase = addonsv1.RolloutPhasePaused }, true},
		"rollout":        {func(h *addonsv1.HelmOp) { h.Spec.Rollout = &addonsv1.Rollout{} }, true},
		"under deletion": {func(h *addonsv1.HelmOp) { now := metav1.Now(); h.DeletionTimestamp = &now }, true},
	}
	for name, tc := range tests {
		e := event.UpdateEvent{ObjectOld: controllertest.UpToDateHelmOp(t, "a", nil),
			ObjectNew: controllertest.UpToDateHelmOp(t, "a", tc.change)}
		if got := DependencyChanged().Update(e); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	created := event.CreateEvent{Object: controllertest.UpToDateHelmOp(t, "a", nil)}
	if !DependencyChanged().Create(created) || !DependencyChanged().Delete(event.DeleteEvent{Object: created.Object}) {
		t.Error("a HelmOp that comes or goes matters")
	}
	if created.IsInInitialList = true; DependencyChanged().Create(created) {
		t.Error("at the start, all are looked at anyway")
	}
}

func TestHelmOpsThatDependOnAnother(t *testing.T) {
	t.Parallel()
	depending := func(name string, dependencies ...string) client.Object {
		return controllertest.UpToDateHelmOp(t, name,
			func(h *addonsv1.HelmOp) { h.Spec.DependsOn = controllertest.DependingOn(dependencies...) })
	}
	store := controllertest.StoreOf(t, depending("a"), depending("b", "a"), depending("c", "b"), depending("x", "y"),
		depending("y", "x"),
		controllertest.ReadyRelease("b", nil), controllertest.ReadyRelease("c", controllertest.AwaitDependencies),
		controllertest.ReadyRelease("x", controllertest.AwaitDependencies))
	names := func(requests []ctrl.Request) []string {
		var names []string
		for _, request := range requests {
			names = append(names, request.Name)
		}
		slices.Sort(names)
		return names
	}
	a := depending("a")
	if got := names(DependentHelmOps(store)(t.Context(), a)); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("HelmOps %q depend on a", got)
	}
	if got := names(DependentHelmOps(store)(t.Context(), depending("x"))); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("HelmOps %q depend on x", got)
	}
	if got := names(watches.UnreadyRequests(store, DependentHelmOps(store))(t.Context(), a)); !slices.Equal(got,
		[]string{"c-one"}) {
		t.Errorf("releases %q are woken", got)
	}
}

// A release that waits for what depends on it may be wanted again meanwhile.
func TestChoicesWakeWhatEnds(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	ends := controllertest.ReadyRelease("a", func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now })
	stays := controllertest.ReadyRelease("a",
		func(r *addonsv1.HelmOpRelease) { r.Name, r.Spec.ClusterRef.Name = "a-two", "two" })
	store := controllertest.StoreOf(t, ends, stays)
	cluster := func(name string) client.Object {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name,
			Labels: map[string]string{"l": name}}}
	}
	for _, obj := range []client.Object{controllertest.UpToDateHelmOp(t, "a", nil), cluster("one")} {
		if got := EndingRequests(store)(t.Context(), obj); len(got) != 1 || got[0].Name != "a-one" {
			t.Errorf("%T wakes %v", obj, got)
		}
	}
	if got := EndingRequests(store)(t.Context(), cluster("two")); len(got) != 0 {
		t.Errorf("woken %v", got)
	}
	passes := ChoiceMayChange().Update
	other := controllertest.UpToDateHelmOp(t, "a",
		func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["x"] = "y" })
	if !passes(event.UpdateEvent{ObjectOld: cluster("one"), ObjectNew: cluster("two")}) ||
		passes(event.UpdateEvent{ObjectOld: cluster("one"), ObjectNew: cluster("one")}) ||
		!passes(event.UpdateEvent{ObjectOld: controllertest.UpToDateHelmOp(t, "a", nil), ObjectNew: other}) ||
		passes(event.UpdateEvent{ObjectOld: other, ObjectNew: other}) {
		t.Error("only changes of labels and selectors change the selection")
	}
}
