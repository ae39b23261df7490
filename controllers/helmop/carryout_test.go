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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestClustersThatAnswerAreServedFirst holds it, that several are served at once, and that an error is that of its
// Cluster.
func TestClustersThatAnswerAreServedFirst(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{addonsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	const silent, answering = 6, 6
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
				return errors.New("nobody else is served at the same time")
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
	for i := range silent + answering {
		name := fmt.Sprintf("a-%d", i)
		if i >= silent {
			name = fmt.Sprintf("b-%d", i-silent)
		}
		spec := &addonsv1.HelmOpReleaseSpec{ClusterRef: addonsv1.ClusterReference{Name: name}}
		scope.clusters = append(scope.clusters,
			&clusterScope{name: name, key: client.ObjectKey{Namespace: "default", Name: name}, target: spec})
		scope.plan.Steps = append(scope.plan.Steps, rollout.Step{Cluster: name, Action: rollout.ActionCreate, Revision: 1})
	}

	errs := r.carryOutAll(t.Context(), scope)
	for i, cluster := range scope.clusters {
		failed := cluster.name == "b-0"
		if (errs[i] != nil) != failed || errors.Is(cluster.err, reasons.ErrRecord) != failed ||
			(cluster.child == nil) != failed {
			t.Errorf("%s: %v, %v, child %v", cluster.name, errs[i], cluster.err, cluster.child)
		}
	}
	for _, cluster := range begun[:concurrentWrites] {
		if !strings.HasPrefix(cluster, "b") {
			t.Errorf("served first are %q", begun[:concurrentWrites])
		}
	}
}

// TestWhatLeftIsNotTakenBack has a HelmOp go to another shard while its releases are written: its manager has taken
// along what there was, and that stays so.
func TestWhatLeftIsNotTakenBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// knows is whether the cache shows the HelmOp still, isBack whether it has come back since.
		knows, isBack bool
		// shard is that of the release in the end.
		shard string
	}{
		"the cache knows":           {shard: "b"},
		"the cache is late":         {knows: true, shard: "b"},
		"it is a release that lags": {knows: true, isBack: true, shard: "a"},
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
			if tc.knows {
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
			if err := errors.Join(r.carryOutAll(t.Context(), scope)...); err != nil {
				t.Fatal(err)
			}
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(child), child); err != nil ||
				!apiutil.IsOfShard(child, tc.shard) {
				t.Errorf("the release has %v, %v", child.Labels, err)
			}
			all := &addonsv1.HelmOpReleaseList{}
			if err := live.List(t.Context(), all); err != nil || (len(all.Items) == 2) != tc.knows {
				t.Errorf("%d releases, %v", len(all.Items), err)
			}
		})
	}
}

// TestStraysEndWithTheirHelmOp holds that a HelmOp does not go while a release of it is in another shard, where nobody
// would end it.
func TestStraysEndWithTheirHelmOp(t *testing.T) {
	t.Parallel()
	h, _, stray := controllertest.ShardedObjects("b", "b", "a")
	h.Finalizers = []string{addonsv1.HelmOpFinalizer}
	_, live := controllertest.ShardStores(t, "b", h, stray)
	r := &Reconciler{client: &controllertest.ShardView{Client: live, Shard: "b"}, live: live, now: time.Now, shard: "b"}
	if err := r.reconcileDelete(t.Context(), h); err != nil || len(h.Finalizers) == 0 {
		t.Errorf("it goes: %v, %v", h.Finalizers, err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(stray), stray); err != nil ||
		!apiutil.IsOfShard(stray, "b") {
		t.Errorf("the release has %v, %v", stray.Labels, err)
	}
	if err := live.Delete(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	if err := r.reconcileDelete(t.Context(), h); err != nil || len(h.Finalizers) > 0 {
		t.Errorf("it stays: %v, %v", h.Finalizers, err)
	}
}
