// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestMovedReleaseIsNotCreatedAgain has clusterctl move delete the release of a HelmOp that still exists.
func TestMovedReleaseIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	const cluster = "management-cluster"
	for name, tc := range map[string]struct {
		marked, unmarked, gone bool
		later                  time.Duration
		created                bool
	}{
		"moved":                                  {marked: true, gone: true},
		"moved long ago":                         {marked: true, gone: true, later: 10 * time.Minute, created: true},
		"deleted without a move":                 {gone: true, created: true},
		"annotation removed before the deletion": {marked: true, unmarked: true, gone: true, created: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := controllertest.Noon
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u"}}
			c := controllertest.StoreOf(t, helmOp, controllertest.KubeSystem())
			r := &Reconciler{client: c, live: c, now: func() time.Time { return now }}
			plain := controllertest.ReleaseFor("n", apiutil.ChildName("h", cluster), addonsv1.ClusterReference{Name: cluster})
			marked := plain.DeepCopy()
			marked.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			last, events := plain, r.moved.Handler(r.now)
			if tc.marked {
				last = marked
				events.Update(t.Context(), event.UpdateEvent{ObjectOld: plain, ObjectNew: marked}, nil)
			}
			if tc.unmarked {
				last = plain
				events.Update(t.Context(), event.UpdateEvent{ObjectOld: marked, ObjectNew: plain}, nil)
			}
			if tc.gone {
				events.Delete(t.Context(), event.DeleteEvent{Object: last}, nil)
			}
			now = now.Add(tc.later)
			scope := &helmOpScope{helmOp: helmOp}
			scope.clusters = []*clusterScope{{name: cluster, key: client.ObjectKey{Name: cluster},
				target: plain.Spec.DeepCopy()}}
			scope.plan.Steps = []rollout.Step{{Cluster: cluster, Action: rollout.ActionCreate, Revision: 1}}
			if errs := r.applyPlan(t.Context(), scope); errs[0] != nil {
				t.Fatal(errs)
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(plain), &addonsv1.HelmOpRelease{})
			if created := err == nil; created != tc.created || (scope.requeueAfter > 0) == tc.created {
				t.Errorf("created %t, want %t; looks again after %s", created, tc.created, scope.requeueAfter)
			}
		})
	}
}
