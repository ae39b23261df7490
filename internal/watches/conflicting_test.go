// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestConflictingReleasesAreEnqueued checks that the other HelmOpReleases of a release are enqueued when one of them
// has a new Helm revision or is deleted. Unrelated releases are not enqueued.
func TestConflictingReleasesAreEnqueued(t *testing.T) {
	t.Parallel()
	named := func(helmOp, cluster, release string) *addonsv1.HelmOpRelease {
		r := controllertest.ReleaseFor("default", helmOp, addonsv1.ClusterReference{Name: cluster})
		r.UID = types.UID(helmOp + cluster)
		r.Spec.Release = addonsv1.ReleaseIdentity{Name: release, Namespace: "kube-system"}
		return r
	}
	loser := named("loser", "one", "cilium")
	store := controllertest.StoreOf(t, loser, named("winner", "one", "cilium"), named("other", "one", "calico"),
		named("far", "two", "cilium"))
	before, after := named("winner", "one", "cilium"), named("winner", "one", "cilium")
	after.Status.Release = &addonsv1.ReleaseObservation{Revision: 2}
	adopted, again := after.DeepCopy(), after.DeepCopy()
	adopted.Status.History = []addonsv1.ReleaseAction{{Action: "Adopt", FromRevision: 2, Succeeded: true}}
	again.Status.History = []addonsv1.ReleaseAction{{Action: "Test", FromRevision: 2, Succeeded: true}}
	want := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(loser)}
	for name, tc := range map[string]struct {
		event    any
		enqueued bool
	}{
		"a new revision": {event: event.UpdateEvent{ObjectOld: before, ObjectNew: after}, enqueued: true},
		"no revision":    {event: event.UpdateEvent{ObjectOld: after, ObjectNew: after}},
		"adopted":        {event: event.UpdateEvent{ObjectOld: after, ObjectNew: adopted}, enqueued: true},
		"adopted before": {event: event.UpdateEvent{ObjectOld: adopted, ObjectNew: adopted}},
		"tested":         {event: event.UpdateEvent{ObjectOld: after, ObjectNew: again}},
		"deleted":        {event: event.DeleteEvent{Object: after}, enqueued: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var outdated []ctrl.Request
			h := ConflictingOnChange(store, func(_ context.Context, request ctrl.Request) {
				outdated = append(outdated, request)
			})
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			defer queue.ShutDown()
			switch e := tc.event.(type) {
			case event.UpdateEvent:
				h.Update(t.Context(), e, queue)
			case event.DeleteEvent:
				h.Delete(t.Context(), e, queue)
			}
			if !tc.enqueued {
				if queue.Len() != 0 || len(outdated) != 0 {
					t.Errorf("%d releases are enqueued, %v outdated", queue.Len(), outdated)
				}
				return
			}
			if queue.Len() != 1 || len(outdated) != 1 || outdated[0] != want {
				t.Fatalf("%d releases are enqueued, %v outdated", queue.Len(), outdated)
			}
			if got, _ := queue.Get(); got != want {
				t.Errorf("%v is enqueued", got)
			}
		})
	}
}
