// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestStatusPace(t *testing.T) {
	counting := func(selected, ready int32, reason string) *addonsv1.HelmOp {
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
		helmOp.Status.Clusters = &addonsv1.ClusterCounts{Selected: selected, Ready: ready}
		helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 1, Phase: addonsv1.RolloutPhaseProgressing, Done: ready}
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, reason, fmt.Sprintf("%d of %d Clusters", ready, selected))
		return helmOp
	}
	for name, tc := range map[string]struct {
		selected int32
		since    time.Duration
		change   func(*addonsv1.HelmOp)
		held     bool
	}{
		"numbers, a moment ago":          {selected: 1000, since: time.Second, held: true},
		"numbers, a while ago":           {selected: 1000, since: 9 * time.Second, held: true},
		"numbers, long ago":              {selected: 1000, since: 11 * time.Second},
		"a small fleet":                  {selected: 10, since: 100 * time.Millisecond},
		"another reason":                 {selected: 1000, since: time.Second, change: func(h *addonsv1.HelmOp) { h.Status.Conditions[0].Reason = "Other" }},
		"another phase":                  {selected: 1000, since: time.Second, change: func(h *addonsv1.HelmOp) { h.Status.Rollout.Phase = addonsv1.RolloutPhasePaused }},
		"another wave":                   {selected: 1000, since: time.Second, change: func(h *addonsv1.HelmOp) { h.Status.Rollout.Wave = "two" }},
		"a finalizer":                    {selected: 1000, since: time.Second, change: func(h *addonsv1.HelmOp) { h.Finalizers = []string{"x"} }},
		"for a generation not yet known": {selected: 1000, since: time.Second, change: func(h *addonsv1.HelmOp) { h.Status.Conditions[0].ObservedGeneration = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			pace := NewStatusPace()
			first := counting(tc.selected, 1, "Progressing")
			if wait := pace.hold(&addonsv1.HelmOp{}, first, controllertest.Noon); wait != 0 {
				t.Fatalf("the first status is held back for %s", wait)
			}
			pace.note(first, controllertest.Noon)
			second := counting(tc.selected, 2, "Progressing")
			if tc.change != nil {
				tc.change(second)
			}
			wait := pace.hold(first, second, controllertest.Noon.Add(tc.since))
			if held := wait > 0; held != tc.held || held != (second.Status.Clusters.Ready == 1) {
				t.Errorf("held back for %s with %d ready, want held %t", wait, second.Status.Clusters.Ready, tc.held)
			}
		})
	}
	if wait := NewStatusPace().hold(counting(5, 1, "a"), counting(5, 1, "a"), controllertest.Noon); wait != 0 {
		t.Errorf("nothing new is held back for %s", wait)
	}
}

func TestStaleStatus(t *testing.T) {
	pace, helmOp := NewStatusPace(), &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "1"}}
	before := helmOp.DeepCopy()
	if pace.isStale(before, controllertest.Noon) {
		t.Error("what was never written is stale")
	}
	helmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: 1, StartedAt: metav1.NewTime(controllertest.Noon.Add(123 * time.Microsecond))}
	pace.note(helmOp, controllertest.Noon)
	if !pace.isStale(before, controllertest.Noon.Add(time.Second)) {
		t.Error("what was read before the write is not stale")
	}
	helmOp.Status.Rollout.StartedAt = metav1.NewTime(controllertest.Noon) // as the API server serves it
	if pace.isStale(helmOp, controllertest.Noon.Add(time.Second)) {
		t.Error("what was written is stale")
	}
	another := before.DeepCopy()
	another.UID = "2"
	if pace.isStale(another, controllertest.Noon.Add(time.Second)) || pace.isStale(before, controllertest.Noon.Add(time.Hour)) {
		t.Error("another HelmOp of the name, or one that somebody else wrote, is stale for ever")
	}
}

// TestAFailingPassTellsItsNumbers holds that a status is written which there is no time to come back to: a pass that fails is repeated by
// the queue's own delays, of up to minutes.
func TestAFailingPassTellsItsNumbers(t *testing.T) {
	h, _, _ := controllertest.ShardedObjects("", "", "")
	h.Finalizers, h.DeletionTimestamp = []string{addonsv1.HelmOpFinalizer}, &metav1.Time{Time: controllertest.Noon}
	h.Status.Clusters = &addonsv1.ClusterCounts{Selected: 1000}
	objects := []client.Object{h}
	for _, cluster := range []string{"one", "two"} {
		objects = append(objects, controllertest.ReadyRelease("h", func(r *addonsv1.HelmOpRelease) {
			r.Name, r.ResourceVersion, r.Spec.ClusterRef.Name = apiutil.ChildName("h", cluster), "", cluster
			r.Labels[clusterv1.ClusterNameLabel] = cluster
		}))
	}
	_, c := controllertest.ShardStores(t, "", objects...)
	refusing := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("no")
		},
	})
	r := &Reconciler{Client: refusing, Live: c, Now: func() time.Time { return controllertest.Noon }, Resolution: NewResolutionSchedule(), Pace: NewStatusPace(), Adoptions: NewAdoptions()}
	for i, want := range []string{"2 releases", "1 releases"} {
		if i > 0 {
			controllertest.LetGo(t, c, objects[1].(*addonsv1.HelmOpRelease))
			if err := c.Delete(t.Context(), objects[1]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)}); err == nil {
			t.Fatal("the pass does not fail")
		}
		current := &addonsv1.HelmOp{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(h), current); err != nil {
			t.Fatal(err)
		}
		if got := conditions.GetMessage(current, addonsv1.ReadyCondition); !strings.HasPrefix(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
