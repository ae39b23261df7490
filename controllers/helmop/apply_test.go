// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestApplyPlanWritesReachableClustersFirst checks three properties: reachable Clusters come first, several releases
// are written at the same time, and an error affects only its Cluster.
func TestApplyPlanWritesReachableClustersFirst(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{addonsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	const unreachable, reachable = 6, 6
	var mu sync.Mutex
	var begun []string
	together := make(chan struct{})
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "calico", UID: "1"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(helmOp,
		controllertest.KubeSystem()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
			cluster := obj.(*addonsv1.HelmOpRelease).Spec.ClusterRef.Name
			mu.Lock()
			begun = append(begun, cluster)
			if len(begun) == concurrentWrites {
				close(together)
			}
			mu.Unlock()
			select {
			case <-together:
			case <-time.After(time.Minute):
				return errors.New("no other release is written at the same time")
			}
			if cluster == "b-0" {
				return errors.New("the quota is spent")
			}
			return c.Create(ctx, obj, options...)
		},
	}).Build()
	r := &Reconciler{client: c, live: c, now: time.Now,
		answers: func(cluster client.ObjectKey) bool { return strings.HasPrefix(cluster.Name, "b") }}
	scope := &helmOpScope{helmOp: helmOp}
	for i := range unreachable + reachable {
		name := fmt.Sprintf("a-%d", i)
		if i >= unreachable {
			name = fmt.Sprintf("b-%d", i-unreachable)
		}
		spec := &addonsv1.HelmOpReleaseSpec{ClusterRef: addonsv1.ClusterReference{Name: name}}
		scope.clusters = append(scope.clusters,
			&clusterScope{name: name, key: client.ObjectKey{Namespace: "default", Name: name}, target: spec})
		scope.plan.Steps = append(scope.plan.Steps, rollout.Step{Cluster: name, Action: rollout.ActionCreate, Revision: 1})
	}

	err := r.applyPlan(t.Context(), scope)
	if err == nil || strings.Count(err.Error(), "in Cluster") != 1 {
		t.Errorf("err = %v, want the error of one Cluster", err)
	}
	for _, cluster := range scope.clusters {
		failed := cluster.name == "b-0"
		if errors.Is(cluster.err, reasons.ErrRecord) != failed || (cluster.child == nil) != failed {
			t.Errorf("%s: %v, child %v", cluster.name, cluster.err, cluster.child)
		}
	}
	for _, cluster := range begun[:concurrentWrites] {
		if !strings.HasPrefix(cluster, "b") {
			t.Errorf("written first are %q", begun[:concurrentWrites])
		}
	}
}

// TestTurnOf checks the order of steps: new releases come before changed ones, and changed ones before those that only
// get another number of a HelmOp revision.
func TestTurnOf(t *testing.T) {
	t.Parallel()
	specOf := func(values string, revision int64) addonsv1.HelmOpReleaseSpec {
		return addonsv1.HelmOpReleaseSpec{ValuesDigest: values, Rollout: &addonsv1.ReleaseRollout{Revision: revision}}
	}
	same, changed := specOf("old", 2), specOf("new", 2)
	for name, tc := range map[string]struct {
		action rollout.Action
		target *addonsv1.HelmOpReleaseSpec
		silent bool
		want   turn
	}{
		"new":                      {action: rollout.ActionCreate, target: &changed, want: turnNew},
		"changed":                  {action: rollout.ActionUpdate, target: &changed, want: turnChanged},
		"another number":           {action: rollout.ActionUpdate, target: &same, want: turnSame},
		"not rendered":             {action: rollout.ActionUpdate, want: turnChanged},
		"deleted":                  {action: rollout.ActionDelete, target: &same, want: turnChanged},
		"new, unreachable":         {action: rollout.ActionCreate, target: &changed, silent: true, want: turnUnreachable},
		"deleted, and unreachable": {action: rollout.ActionDelete, silent: true, want: turnUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{answers: func(client.ObjectKey) bool { return !tc.silent }}
			c := &clusterScope{target: tc.target, step: rollout.Step{Action: tc.action, Revision: 2}}
			if tc.action != rollout.ActionCreate {
				c.child = &addonsv1.HelmOpRelease{Spec: specOf("old", 1)}
			}
			if got := r.turnOf(&helmOpScope{}, c); got != tc.want {
				t.Errorf("turn %d, want %d", got, tc.want)
			}
		})
	}
}

// TestCreateChildKeepsReleaseOfOtherShard changes the shard of a HelmOp while its releases are written. The manager of
// the other shard has relabelled the existing release. The release must stay in that shard.
func TestCreateChildKeepsReleaseOfOtherShard(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// isCached is true if the cache still has the HelmOp, and isBack is true if the HelmOp is in its first shard again.
		isCached, isBack bool
		// shard is the shard of the release at the end of the test.
		shard string
	}{
		"the cache has the change of the shard": {shard: "b"},
		"the cache has the former shard":        {isCached: true, shard: "b"},
		"the HelmOp is back in the shard":       {isCached: true, isBack: true, shard: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shard := "b"
			if tc.isBack {
				shard = "a"
			}
			before, _, child := controllertest.ShardedObjects("a", "a", "b")
			child.Name = apiutil.ChildName("h", "one")
			now := before.DeepCopy()
			now.Labels = controllertest.OfShard(shard)
			_, live := controllertest.ShardStores(t, "a", now, child)
			shown, _ := controllertest.ShardStores(t, "a")
			if tc.isCached {
				shown, _ = controllertest.ShardStores(t, "a", before)
			}
			stale := &controllertest.StaleClient{Client: live, Shown: shown}
			r := &Reconciler{client: stale, live: live, now: time.Now, shard: "a"}
			scope := &helmOpScope{helmOp: before, clusters: []*clusterScope{
				{name: "one", key: client.ObjectKey{Namespace: "n", Name: "one"}, target: &child.Spec},
				{name: "two", key: client.ObjectKey{Namespace: "n", Name: "two"},
					target: &addonsv1.HelmOpReleaseSpec{ClusterRef: addonsv1.ClusterReference{Name: "two"}}},
			}}
			for _, c := range scope.clusters {
				scope.plan.Steps = append(scope.plan.Steps,
					rollout.Step{Cluster: c.name, Action: rollout.ActionCreate, Revision: 1})
			}
			if err := r.applyPlan(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(child), child); err != nil ||
				!apiutil.IsOfShard(child, tc.shard) {
				t.Errorf("the release has %v, %v", child.Labels, err)
			}
			all := &addonsv1.HelmOpReleaseList{}
			if err := live.List(t.Context(), all); err != nil || (len(all.Items) == 2) != tc.isCached {
				t.Errorf("%d releases, %v", len(all.Items), err)
			}
		})
	}
}

// TestHelmOpKeepsFinalizerWhileOtherShardHasReleases checks that a HelmOp with a release in another shard is not
// deleted: no manager would delete that release.
func TestHelmOpKeepsFinalizerWhileOtherShardHasReleases(t *testing.T) {
	t.Parallel()
	h, _, release := controllertest.ShardedObjects("b", "b", "a")
	h.Finalizers = []string{addonsv1.HelmOpFinalizer}
	_, live := controllertest.ShardStores(t, "b", h, release)
	r := &Reconciler{client: &controllertest.ShardView{Client: live, Shard: "b"}, live: live, now: time.Now, shard: "b"}
	if err := r.reconcileDelete(t.Context(), h); err != nil || len(h.Finalizers) == 0 {
		t.Errorf("the finalizer is removed: %v, %v", h.Finalizers, err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(release), release); err != nil ||
		!apiutil.IsOfShard(release, "b") {
		t.Errorf("the release has %v, %v", release.Labels, err)
	}
	if err := live.Delete(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	if err := r.reconcileDelete(t.Context(), h); err != nil || len(h.Finalizers) > 0 {
		t.Errorf("the finalizer stays: %v, %v", h.Finalizers, err)
	}
}

// TestMovedReleaseIsNotCreatedAgain simulates clusterctl move: it deletes the release of a HelmOp that still exists.
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
			if err := r.applyPlan(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(plain), &addonsv1.HelmOpRelease{})
			if created := err == nil; created != tc.created || (scope.requeueAfter > 0) == tc.created {
				t.Errorf("created %t, want %t; looks again after %s", created, tc.created, scope.requeueAfter)
			}
		})
	}
}

func TestIsLookupOf(t *testing.T) {
	t.Parallel()
	started := controllertest.Noon
	revision := &addonsv1.HelmOpRevision{}
	revision.Status.StartedAt = metav1.NewTime(started)
	for name, tc := range map[string]struct {
		revision *addonsv1.HelmOpRevision
		ended    time.Time
		want     bool
	}{
		"it ended just before":                 {revision, started.Add(-time.Second), true},
		"it ended in the second of the start":  {revision, started.Add(900 * time.Millisecond), true},
		"it ended long before":                 {revision, started.Add(-time.Hour), false},
		"it belongs to a later revision":       {revision, started.Add(time.Hour), false},
		"there was no lookup since the start":  {revision, time.Time{}, false},
		"the revision does not exist any more": {nil, started, false},
	} {
		if got := isLookupOf(tc.revision, tc.ended); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
