// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// clustersWithUnselected returns forty Clusters with releases. The first Clusters are no longer selected.
func clustersWithUnselected(leaving int) []rollout.Cluster {
	var clusters []rollout.Cluster
	for i := range 40 {
		clusters = append(clusters, rollout.Cluster{Name: fmt.Sprintf("c%02d", i), Selected: i >= leaving,
			Child: &rollout.Child{}})
	}
	return clusters
}

// brakedFleet is a HelmOp with the releases of forty Clusters.
type brakedFleet struct {
	*testing.T
	r        *Reconciler
	recorder *events.FakeRecorder
	helmOp   *addonsv1.HelmOp

	// room is the number of deletions that a pass begins.
	room int

	// keeps is true while it is not known which Clusters the HelmOp selects.
	keeps bool

	// failing is the name of a HelmOpRelease that cannot be patched.
	failing string

	// refused is true while the status cannot be written.
	refused bool

	// unseen is true while deletions do not show: they fail, or the cache does not have them yet.
	unseen bool

	// creates are Clusters whose missing release each pass tries to create, without success.
	creates []string

	// paused reports which Clusters are paused; nil for none.
	paused func(cluster string) bool
}

func newBrakedFleet(t *testing.T) *brakedFleet {
	t.Helper()
	f := &brakedFleet{T: t, helmOp: &addonsv1.HelmOp{}, recorder: events.NewFakeRecorder(20)}
	f.helmOp.Namespace, f.helmOp.Name, f.helmOp.UID = "n", "calico", "u"
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(f.helmOp).WithStatusSubresource(f.helmOp)
	for _, c := range clustersWithUnselected(0) {
		child := controllertest.ReleaseFor("n", apiutil.ChildName("calico", c.Name),
			addonsv1.ClusterReference{Name: c.Name})
		child.UID = types.UID("uid-" + c.Name)
		builder.WithObjects(child)
	}
	client := interceptor.NewClient(builder.Build(), interceptor.Funcs{Patch: func(ctx context.Context,
		c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption,
	) error {
		if obj.GetName() == f.failing {
			return errors.New("the API server does not answer")
		}
		return c.Patch(ctx, obj, patch, options...)
	}, SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object,
		patch client.Patch, options ...client.SubResourcePatchOption,
	) error {
		if f.refused {
			return errors.New("the API server does not answer")
		}
		return c.SubResource(subResource).Patch(ctx, obj, patch, options...)
	}, Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
		if f.unseen {
			return nil
		}
		return c.Delete(ctx, obj, options...)
	}})
	f.r = &Reconciler{now: func() time.Time { return controllertest.Noon }, recorder: f.recorder, client: client,
		live: client}
	return f
}

// pass makes a pass. unselected reports which Clusters are no longer selected.
func (f *brakedFleet) pass(unselected func(cluster string) bool) (*helmOpScope, error) {
	f.Helper()
	stored := &addonsv1.HelmOp{}
	if err := f.r.client.Get(f.Context(), client.ObjectKeyFromObject(f.helmOp), stored); err != nil {
		f.Fatal(err)
	}
	f.helmOp.ResourceVersion = stored.ResourceVersion
	scope := &helmOpScope{helmOp: f.helmOp}
	var clusters []rollout.Cluster
	for _, c := range clustersWithUnselected(0) {
		child := &addonsv1.HelmOpRelease{}
		key := client.ObjectKey{Namespace: "n", Name: apiutil.ChildName("calico", c.Name)}
		if err := f.r.client.Get(f.Context(), key, child); apierrors.IsNotFound(err) {
			if slices.Contains(f.creates, c.Name) {
				scope.clusters = append(scope.clusters, &clusterScope{name: c.Name, selected: true})
			}
			continue
		} else if err != nil {
			f.Fatal(err)
		}
		scope.clusters = append(scope.clusters,
			&clusterScope{name: c.Name, child: child, selected: f.keeps || !unselected(c.Name), kept: f.keeps})
	}
	for _, c := range scope.clusters {
		planned, err := plannedCluster(c, 0, "", rolloutstate.NewCache())
		if err != nil {
			f.Fatal(err)
		}
		planned.Gone, planned.Paused = false, f.paused != nil && f.paused(c.name)
		clusters = append(clusters, planned)
	}
	unmarked := f.r.decideDeletions(f.Context(), scope, clusters)
	begun := 0
	for i, c := range scope.clusters {
		c.step = rollout.Step{Cluster: c.name}
		switch {
		case c.child == nil:
			c.step.Action = rollout.ActionCreate
		case unselected(c.name) && !scope.deletions.Held && begun < f.room && !clusters[i].Paused:
			c.step.Action = rollout.ActionDelete
			begun++
		}
		scope.plan.Steps = append(scope.plan.Steps, c.step)
		clusters[i].Known = true
	}
	stored.Status.Deletions = f.helmOp.Status.Deletions.DeepCopy()
	if err := f.r.recordDeletions(f.Context(), scope, clusters); err != nil {
		f.helmOp.Status.Deletions = stored.Status.Deletions
		return scope, err
	}
	f.r.reportDeletions(scope)
	for _, c := range scope.clusters {
		if c.step.Action == rollout.ActionDelete {
			if err := f.r.applyStep(f.Context(), scope, c); err != nil {
				f.Fatal(err)
			}
		}
	}
	return scope, unmarked
}

// mustPass makes a pass without an error.
func (f *brakedFleet) mustPass(unselected func(cluster string) bool) *helmOpScope {
	f.Helper()
	scope, err := f.pass(unselected)
	if err != nil {
		f.Fatal(err)
	}
	return scope
}

// confirm sets the annotation that confirms the waiting deletions.
func (f *brakedFleet) confirm() {
	metav1.SetMetaDataAnnotation(&f.helmOp.ObjectMeta, addonsv1.ConfirmDeletionsAnnotation,
		f.helmOp.Status.Deletions.Confirmation)
}

// confirmed returns the number of HelmOpReleases with the mark of a confirmed deletion.
func (f *brakedFleet) confirmed() int {
	f.Helper()
	list, marked := &addonsv1.HelmOpReleaseList{}, 0
	if err := f.r.client.List(f.Context(), list); err != nil {
		f.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[addonsv1.DeletionConfirmedAnnotation] != "" {
			marked++
		}
	}
	return marked
}

// before selects the Clusters with a lower name.
func before(name string) func(string) bool {
	return func(cluster string) bool { return cluster < name }
}

func TestDeletionsAreHeldAndConfirmed(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	helmOp, eleven := f.helmOp, before("c11")
	f.mustPass(eleven)
	status := helmOp.Status.Deletions
	if status == nil || status.Waiting != 11 || status.Confirmation == "" ||
		!conditions.IsTrue(helmOp, addonsv1.DeletionsHeldCondition) {
		t.Fatalf("11 of 40 do not wait: %+v", status)
	}
	message := conditions.GetMessage(helmOp, addonsv1.DeletionsHeldCondition)
	for _, want := range []string{"11 of 40 releases", "allows 10", "c00, c01, c02 and 8 more",
		addonsv1.ConfirmDeletionsAnnotation + "=" + status.Confirmation} {
		if !strings.Contains(message, want) {
			t.Errorf("no %q in %q", want, message)
		}
	}
	if event := <-f.recorder.Events; !strings.Contains(event, addonsv1.DeletionsHeldEvent) {
		t.Error(event)
	}
	// After a restart, the manager has only the status and the annotations.
	again := f.mustPass(eleven)
	if !again.deletions.Held || !equality.Semantic.DeepEqual(helmOp.Status.Deletions, status) {
		t.Errorf("the status changes from %+v to %+v", status, helmOp.Status.Deletions)
	}
	f.confirm()
	confirmed := f.mustPass(eleven)
	if confirmed.deletions.Held || conditions.Get(helmOp, addonsv1.DeletionsHeldCondition) != nil {
		t.Errorf("they are not confirmed: %+v", confirmed.deletions)
	}
	if event := <-f.recorder.Events; !strings.Contains(event, addonsv1.DeletionsConfirmedEvent) {
		t.Error(event)
	}
	if helmOp.Status.Deletions.Confirmed != 11 || f.confirmed() != 11 {
		t.Errorf("%+v, %d releases are marked", helmOp.Status.Deletions, f.confirmed())
	}
	// The marks are enough: clusterctl move does not move the status.
	helmOp.Status = addonsv1.HelmOpStatus{}
	f.room = 4
	if scope := f.mustPass(eleven); scope.deletions.Held || helmOp.Status.Deletions.Confirmed != 7 ||
		helmOp.Status.Deletions.Recent != 0 {
		t.Errorf("%+v", helmOp.Status.Deletions)
	}
	if f.mustPass(before("")); helmOp.Status.Deletions != nil || f.confirmed() != 0 {
		t.Errorf("something is left: %+v, %d releases are marked", helmOp.Status.Deletions, f.confirmed())
	}
}

// TestConfirmationIsForNamedReleases confirms the deletion of the releases of half a fleet. Then these Clusters are
// selected again, and the other half is not selected any more. The confirmation is not valid for the other half.
func TestConfirmationIsForNamedReleases(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	dev := before("c20")
	prod := func(cluster string) bool { return !dev(cluster) }
	f.mustPass(dev)
	f.confirm()
	f.room = 5
	f.mustPass(dev)
	f.room = 40
	if scope := f.mustPass(prod); !scope.deletions.Held || len(scope.clusters) != 35 {
		t.Errorf("20 releases are deleted without a confirmation: %+v", scope.deletions)
	}
	if status := f.helmOp.Status.Deletions; status.Waiting != 20 || status.Confirmed != 0 || f.confirmed() != 0 {
		t.Errorf("%+v, %d releases are marked", status, f.confirmed())
	}
	// The confirmation was valid until the Clusters were selected again.
	if scope := f.mustPass(dev); !scope.deletions.Held || len(scope.clusters) != 35 {
		t.Errorf("15 releases are deleted with an old confirmation: %+v", scope.deletions)
	}
}

// TestConfirmationOutlivesUnknownAccess checks that a confirmation stays valid while it is not known which Clusters the
// HelmOp selects.
func TestConfirmationOutlivesUnknownAccess(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	eleven := before("c11")
	f.mustPass(eleven)
	f.confirm()
	f.mustPass(eleven)
	f.keeps = true
	if scope := f.mustPass(eleven); len(scope.clusters) != 40 || f.confirmed() != 11 {
		t.Errorf("%d releases are left, %d of them are marked", len(scope.clusters), f.confirmed())
	}
	f.keeps, f.room = false, 40
	if scope := f.mustPass(eleven); scope.deletions.Held {
		t.Errorf("the confirmed deletions wait: %+v", scope.deletions)
	}
}

// TestPauseDoesNotEndAWait pauses all Clusters whose releases wait for a confirmation, and then unpauses them one by
// one. No deletion may begin, also after clusterctl move, which moves no status.
func TestPauseDoesNotEndAWait(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	f.room = 40
	eleven := before("c11")
	f.mustPass(eleven)
	waiting := f.helmOp.Status.Deletions.DeepCopy()
	f.paused = before("c20")
	if scope := f.mustPass(eleven); !scope.deletions.Held ||
		!equality.Semantic.DeepEqual(f.helmOp.Status.Deletions, waiting) {
		t.Errorf("a pause changes %+v to %+v", waiting, f.helmOp.Status.Deletions)
	}
	f.helmOp.Status = addonsv1.HelmOpStatus{}
	for i := range 12 {
		unpaused := before(fmt.Sprintf("c%02d", i))
		f.paused = func(cluster string) bool { return !unpaused(cluster) }
		if scope := f.mustPass(eleven); !scope.deletions.Held || len(scope.clusters) != 40 {
			t.Fatalf("%d Clusters are not paused, %d releases are left", i, len(scope.clusters))
		}
	}
	// A confirmation is for the releases in paused Clusters, too.
	f.paused = before("c05")
	f.confirm()
	f.mustPass(eleven)
	if scope := f.mustPass(eleven); len(scope.clusters) != 34 || f.helmOp.Status.Deletions.Confirmed != 5 {
		t.Errorf("%d releases are left, %+v", len(scope.clusters), f.helmOp.Status.Deletions)
	}
	f.paused = nil
	f.mustPass(eleven)
	if scope := f.mustPass(eleven); len(scope.clusters) != 29 || f.helmOp.Status.Deletions != nil {
		t.Errorf("%d releases are left, %+v", len(scope.clusters), f.helmOp.Status.Deletions)
	}
}

// TestConfirmedDeletionsDoNotRaiseTheLimit confirms the deletion of releases in paused Clusters. Later, the others are
// no longer selected, too. They wait for a confirmation of their own.
func TestConfirmedDeletionsDoNotRaiseTheLimit(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	f.room = 40
	f.paused = before("c37")
	f.mustPass(before("c37"))
	f.confirm()
	f.mustPass(before("c37"))
	if scope := f.mustPass(before("z")); !scope.deletions.Held || scope.deletions.Limit != 2 || len(scope.clusters) != 40 {
		t.Errorf("%+v, %d releases are left", scope.deletions, len(scope.clusters))
	}
}

// TestPauseBeginsNoWait checks that a few deletions do not begin to wait because all Clusters are paused.
func TestPauseBeginsNoWait(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	f.room, f.paused = 40, before("z")
	if scope := f.mustPass(before("c10")); scope.deletions.Held || len(scope.clusters) != 40 {
		t.Errorf("in paused Clusters: %+v", scope.deletions)
	}
	f.paused = nil
	f.mustPass(before("c10"))
	if scope := f.mustPass(before("c10")); scope.deletions.Held || len(scope.clusters) != 30 {
		t.Errorf("after the pause: %+v, %d releases are left", scope.deletions, len(scope.clusters))
	}
}

// TestConfirmationIsRepeated checks that no deletion begins until all releases of a confirmation are marked.
func TestConfirmationIsRepeated(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	eleven := before("c11")
	f.mustPass(eleven)
	f.confirm()
	f.room, f.failing = 40, apiutil.ChildName("calico", "c05")
	scope, err := f.pass(eleven)
	if err == nil || !scope.deletions.Held || f.confirmed() != 10 {
		t.Errorf("%+v, error %v, %d releases are marked", scope.deletions, err, f.confirmed())
	}
	f.failing = ""
	if scope := f.mustPass(eleven); scope.deletions.Held || f.confirmed() != 0 {
		t.Errorf("the confirmed deletions wait: %+v", scope.deletions)
	}
	if scope := f.mustPass(before("")); len(scope.clusters) != 29 {
		t.Errorf("%d releases are left", len(scope.clusters))
	}
}

// TestCreationsHideNoLoss removes the labels of Clusters one by one. One release is missing from the start, and each
// pass tries to create it. This must not reduce the number of lost releases. A release that comes back counts once.
func TestCreationsHideNoLoss(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	f.room = 40
	missing := controllertest.ReleaseFor("n", apiutil.ChildName("calico", "c39"), addonsv1.ClusterReference{Name: "c39"})
	if err := f.r.client.Delete(f.Context(), missing); err != nil {
		t.Fatal(err)
	}
	f.creates = []string{"c39"}
	for i := range 9 {
		f.mustPass(before(fmt.Sprintf("c%02d", i+1)))
		f.mustPass(before(fmt.Sprintf("c%02d", i+1)))
	}
	if scope := f.mustPass(before("c10")); !scope.deletions.Held || len(scope.clusters) != 31 {
		t.Errorf("the tenth deletion of 39 does not wait: %+v", f.helmOp.Status.Deletions)
	}
	f.creates = append(f.creates, "c00")
	back := func(cluster string) bool { return cluster != "c00" && cluster < "c09" }
	f.mustPass(back)
	f.mustPass(back)
	if got := f.helmOp.Status.Deletions; got.Recent != 8 {
		t.Errorf("one of nine lost releases comes back: %+v", got)
	}
}

// TestDeletionCountsIfItsRecordFailed checks deletions whose number could not be stored. They must not begin without
// being counted.
func TestDeletionCountsIfItsRecordFailed(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	f.room, f.unseen = 40, true
	f.mustPass(before("c06"))
	f.refused = true
	if _, err := f.pass(before("c10")); err == nil {
		t.Fatal("the status was written")
	}
	f.refused = false
	f.mustPass(before("c10"))
	if got := f.helmOp.Status.Deletions; got.Recent != 10 {
		t.Errorf("10 releases are deleted: %+v", got)
	}
}

// TestDeletionCountsOnce repeats deletions that the cache does not show yet. Each of them counts once.
func TestDeletionCountsOnce(t *testing.T) {
	t.Parallel()
	f := newBrakedFleet(t)
	f.room, f.unseen = 40, true
	for range 3 {
		scope := f.mustPass(before("c06"))
		if got := f.helmOp.Status.Deletions; scope.deletions.Held || got.Recent != 6 || scope.deletions.Total != 40 {
			t.Fatalf("6 of 40 releases are deleted: %+v, of %d", got, scope.deletions.Total)
		}
	}
	if scope := f.mustPass(before("c11")); !scope.deletions.Held || f.helmOp.Status.Deletions.Waiting != 5 {
		t.Errorf("the eleventh release does not wait: %+v", f.helmOp.Status.Deletions)
	}
}

func TestDeletionsThatAreNotHeld(t *testing.T) {
	t.Parallel()
	all := intstr.FromString("100%")
	for name, tc := range map[string]struct {
		helmOp func(*addonsv1.HelmOp)
		change func(*rollout.Cluster)
		held   bool
	}{
		"as a rule, they are": {held: true},
		"releases that are orphaned": {helmOp: func(h *addonsv1.HelmOp) {
			h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		}},
		"without a limit":           {helmOp: func(h *addonsv1.HelmOp) { h.Spec.MaxDeletions = &all }},
		"missing Clusters":          {change: func(c *rollout.Cluster) { c.Gone = true }},
		"Clusters under deletion":   {change: func(c *rollout.Cluster) { c.Deleting = true }},
		"releases of other HelmOps": {change: func(c *rollout.Cluster) { c.Child.Foreign = true }},
		"Clusters of other shards":  {change: func(c *rollout.Cluster) { c.Paused, c.NotServed = true, true }},
		"paused Clusters":           {change: func(c *rollout.Cluster) { c.Paused = true }, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helmOp := &addonsv1.HelmOp{}
			if tc.helmOp != nil {
				tc.helmOp(helmOp)
			}
			clusters := clustersWithUnselected(40)
			for i := range clusters {
				if tc.change != nil {
					tc.change(&clusters[i])
				}
			}
			r := &Reconciler{now: time.Now}
			decision := brake.Decide(r.deletionInput(&helmOpScope{helmOp: helmOp}, clusters))
			if decision.Held != tc.held {
				t.Errorf("%+v", decision)
			}
		})
	}
}

// TestDefaultLimitKeepsARelease unselects all Clusters of a HelmOp with four releases. The deletions wait, also if one
// of the releases cannot be uninstalled now.
func TestDefaultLimitKeepsARelease(t *testing.T) {
	t.Parallel()
	r := &Reconciler{now: time.Now}
	for name, change := range map[string]func(*rollout.Cluster){
		"each can be uninstalled":    func(*rollout.Cluster) {},
		"one belongs to another one": func(c *rollout.Cluster) { c.Child.Foreign = true },
		"one is in a paused Cluster": func(c *rollout.Cluster) { c.Paused = true },
		"one stays in a paused Cluster": func(c *rollout.Cluster) {
			c.Selected, c.Paused = true, true
		},
	} {
		clusters := clustersWithUnselected(40)[:4]
		change(&clusters[0])
		decision := brake.Decide(r.deletionInput(&helmOpScope{helmOp: &addonsv1.HelmOp{}}, clusters))
		if !decision.Held || decision.Limit >= decision.Lost {
			t.Errorf("%s: %+v", name, decision)
		}
	}
}

// TestDeletionStatusKeepsTheState checks that the status contains all inputs of the next decision.
func TestDeletionStatusKeepsTheState(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	for _, decision := range []brake.Decision{
		{},
		{State: brake.State{Recent: 3, LastAt: now}},
		{Held: true, Confirmation: "12-a", State: brake.State{WaitingSince: now, MostLost: 14,
			WaitingTotal: 40}},
	} {
		if got := deletionState(deletionStatus(&decision, 12, 0)); got != decision.State {
			t.Errorf("%+v became %+v", decision.State, got)
		}
	}
}
