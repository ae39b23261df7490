// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestRequestForOwnerOfOrphanedRelease checks that the HelmOp is requested at the end of a release whose owner
// reference was removed. Garbage collection removes it for the propagation policy Orphan, and the HelmOp ends after its
// last release.
func TestRequestForOwnerOfOrphanedRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		namespace, helmOp string
		change            func(*addonsv1.HelmOpRelease)
		want              int
	}{
		"has its owner":        {namespace: "fleet", helmOp: "it", want: 1},
		"owner is gone":        {namespace: "fleet", helmOp: "it", change: withoutOwner, want: 1},
		"owner of a long name": {namespace: "fleet", helmOp: strings.Repeat("long", 20), change: withoutOwner, want: 1},
		"another namespace":    {namespace: "other", helmOp: "it", change: withoutOwner},
		"no label and no owner": {namespace: "fleet", helmOp: "it", change: func(r *addonsv1.HelmOpRelease) {
			withoutOwner(r)
			r.Labels = nil
		}},
		"owner of another kind": {namespace: "fleet", helmOp: "it", change: func(r *addonsv1.HelmOpRelease) {
			r.OwnerReferences[0].Kind = "Other"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: tc.helmOp, UID: "u"}}
			another := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "another", UID: "v"}}
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet", Name: "it-one", Labels: apiutil.ChildSelector(helmOp),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
					addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))},
			}}
			if tc.change != nil {
				tc.change(release)
			}
			got := RequestForOwner(controllertest.StoreOf(t, helmOp, another))(t.Context(), release)
			if len(got) != tc.want || tc.want == 1 && got[0].NamespacedName != client.ObjectKeyFromObject(helmOp) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func withoutOwner(release *addonsv1.HelmOpRelease) { release.OwnerReferences = nil }

// TestSpecChanged checks which updates of an object pass. A HelmOpRelease without an owner reference waits until its
// HelmOp sets the reference, so this change must pass.
func TestSpecChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		want   bool
	}{
		"status":          {func(r *addonsv1.HelmOpRelease) { r.Status.Failures++ }, false},
		"spec":            {func(r *addonsv1.HelmOpRelease) { r.Generation++ }, true},
		"owner reference": {withoutOwner, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := controllertest.ReadyRelease("it", nil)
			after := before.DeepCopy()
			tc.change(after)
			for _, e := range []event.UpdateEvent{
				{ObjectOld: before, ObjectNew: after}, {ObjectOld: after, ObjectNew: before},
			} {
				if got := SpecChanged().Update(e); got != tc.want {
					t.Errorf("the update passes: %t", got)
				}
			}
		})
	}
}

func TestClusterReplaced(t *testing.T) {
	t.Parallel()
	cluster := func(name, uid string) client.Object {
		object := apiutil.NewCluster()
		object.SetName(name)
		object.SetUID(types.UID(uid))
		return object
	}
	var forgotten []string
	handler := ClusterReplaced(func(key client.ObjectKey) { forgotten = append(forgotten, key.Name) })
	handler.Create(t.Context(), event.CreateEvent{Object: cluster("new", "1")}, nil)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: cluster("same", "1"), ObjectNew: cluster("same", "1")}, nil)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: cluster("re-created", "1"),
		ObjectNew: cluster("re-created", "2")}, nil)
	handler.Delete(t.Context(), event.DeleteEvent{Object: cluster("gone", "1")}, nil)
	if want := []string{"re-created", "gone"}; !slices.Equal(forgotten, want) {
		t.Errorf("forgotten are %v, want %v", forgotten, want)
	}
}

// TestWaitingRequests checks which releases are requested after a change of a Secret.
func TestWaitingRequests(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	waits := func(reason string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, reason, "") }
	}
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		want   bool
	}{
		"is ready":          {nil, false},
		"is new":            {func(r *addonsv1.HelmOpRelease) { r.Status.Conditions = nil }, false},
		"waits for a slot":  {waits(addonsv1.UpdatingReason), false},
		"waits for its CNI": {waits(addonsv1.WaitingForDependenciesReason), false},
		"waits for images":  {waits(addonsv1.ImagesMissingReason), true},
		"lacks the Secret":  {waits(addonsv1.ReferenceNotFoundReason), true},
		"failed":            {failing, true},
		"under deletion": {func(r *addonsv1.HelmOpRelease) {
			waits(addonsv1.DeletingReason)(r)
			r.DeletionTimestamp = &now
		}, true},
	} {
		store := controllertest.StoreOf(t, controllertest.ReadyRelease("it", tc.change))
		toHelmOp := func(context.Context, client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: "n", Name: "it"}}}
		}
		got := WaitingRequests(store, toHelmOp)(t.Context(), apiutil.PartialOf(apiutil.KindSecret))
		if (len(got) == 1) != tc.want {
			t.Errorf("a release that %s: got %v", name, got)
		}
	}
}

// copyReader records whether lists copy the listed objects.
type copyReader struct {
	client.Reader
	lists, copies int
}

func (r *copyReader) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	applied := (&client.ListOptions{}).ApplyOptions(options)
	r.lists++
	if applied.UnsafeDisableDeepCopy == nil || !*applied.UnsafeDisableDeepCopy {
		r.copies++
	}
	return nil
}

// TestSecretEventsCopyNoHelmOps checks that an event of a Secret does not copy the HelmOps that it may concern: a
// management cluster may have many such events.
func TestSecretEventsCopyNoHelmOps(t *testing.T) {
	t.Parallel()
	reader := &copyReader{}
	RequestsForSecret(reader, nil)(t.Context(), apiutil.PartialOf(apiutil.KindSecret))
	if reader.lists != 3 || reader.copies != 0 {
		t.Errorf("%d of %d lists copy HelmOps", reader.copies, reader.lists)
	}
}

// TestHelmOpThatReturnsToShardPassesPredicate has a HelmOp that leaves the shard and returns: its releases were not
// reconciled meanwhile.
func TestHelmOpThatReturnsToShardPassesPredicate(t *testing.T) {
	t.Parallel()
	for atTheStart, want := range map[bool]bool{true: false, false: true} {
		if got := ReleaseHandlingChanged().Create(event.CreateEvent{Object: &addonsv1.HelmOp{},
			IsInInitialList: atTheStart}); got != want {
			t.Errorf("in the initial list %t: passes %t", atTheStart, got)
		}
	}
}

// TestLimitOfDeletionsPassesPredicate checks that the releases of a HelmOp under deletion are enqueued when the HelmOp
// stops or begins to limit their deletions. Without the limit, HelmOp writes nothing to the releases that wait.
func TestLimitOfDeletionsPassesPredicate(t *testing.T) {
	t.Parallel()
	now, one := metav1.Now(), intstr.FromInt32(1)
	limited := func(h *addonsv1.HelmOp) { h.Spec.Rollout = &addonsv1.Rollout{MaxUnavailable: &one} }
	unlimited := func(h *addonsv1.HelmOp) { h.Spec.Rollout = &addonsv1.Rollout{} }
	for name, tc := range map[string]struct {
		before, after func(*addonsv1.HelmOp)
		deletion      *metav1.Time
		want          bool
	}{
		"removed":            {before: limited, after: unlimited, deletion: &now, want: true},
		"removed with all":   {before: limited, after: func(*addonsv1.HelmOp) {}, deletion: &now, want: true},
		"added":              {before: unlimited, after: limited, deletion: &now, want: true},
		"the same":           {before: limited, after: limited, deletion: &now},
		"not under deletion": {before: limited, after: unlimited},
		"another limit": {before: limited, after: func(h *addonsv1.HelmOp) {
			h.Spec.Rollout = &addonsv1.Rollout{Waves: []addonsv1.Wave{{MaxUnavailable: &one}}}
		}, deletion: &now},
	} {
		before, after := controllertest.UpToDateHelmOp(t, "a", tc.before), controllertest.UpToDateHelmOp(t, "a", tc.after)
		before.DeletionTimestamp, after.DeletionTimestamp = tc.deletion, tc.deletion
		e := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
		if got := ReleaseHandlingChanged().Update(e); got != tc.want {
			t.Errorf("%s: passes %t", name, got)
		}
	}
}

// TestAfterStart checks that only create events of the initial list are dropped.
func TestAfterStart(t *testing.T) {
	t.Parallel()
	after, object := AfterStart(), &addonsv1.HelmOpRelease{}
	if after.Create(event.CreateEvent{Object: object, IsInInitialList: true}) {
		t.Error("passes an object of the initial list")
	}
	if !after.Create(event.CreateEvent{Object: object}) || !after.Delete(event.DeleteEvent{Object: object}) ||
		!after.Update(event.UpdateEvent{ObjectOld: object, ObjectNew: object}) {
		t.Error("drops a later event")
	}
}

// TestServabilityChanged checks that an update passes if releases may no longer be changed, and that a resync does not.
func TestServabilityChanged(t *testing.T) {
	t.Parallel()
	before := apiutil.NewCluster()
	before.SetResourceVersion("1")
	paused := before.DeepCopy()
	paused.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	for version, want := range map[string]bool{"1": false, "2": true} {
		paused.SetResourceVersion(version)
		if got := ServabilityChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: paused}); got != want {
			t.Errorf("version %s passes: %t, want %t", version, got, want)
		}
	}
}
