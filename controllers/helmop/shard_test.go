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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// TestPausedHelmOpClearsShardReason checks that a paused HelmOp loses an outdated reason about its shard.
func TestPausedHelmOpClearsShardReason(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{addonsv1.ShardNotServedReason, addonsv1.ShardChangedReason} {
		testPausedHelmOpClearsShardReason(t, reason)
	}
}

func testPausedHelmOpClearsShardReason(t *testing.T, reason string) {
	t.Helper()
	h, _, _ := controllertest.ShardedObjects("", "", "")
	h.Spec.Paused, h.Finalizers = true, []string{addonsv1.HelmOpFinalizer}
	report.SetCondition(h, addonsv1.ReadyCondition, metav1.ConditionUnknown, reason, "")
	_, c := controllertest.ShardStores(t, "", h)
	r := &Reconciler{client: c, live: c, lookup: selection.NewLookup(c), now: time.Now,
		resolver:     resolution.New(resolution.Options{Concurrency: 1}),
		resyncPeriod: time.Hour}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)})
	if err != nil || result.RequeueAfter < 54*time.Minute || result.RequeueAfter > 66*time.Minute {
		t.Errorf("%+v, %v", result, err)
	}
	current := &addonsv1.HelmOp{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(h), current); err != nil {
		t.Fatal(err)
	}
	if got := conditions.GetReason(current, addonsv1.ReadyCondition); got != addonsv1.PausedReason {
		t.Errorf("Ready says %q", got)
	}
}

// TestEnterShard changes the shard label of a HelmOp from a to b.
func TestEnterShard(t *testing.T) {
	t.Parallel()
	h, c, release := controllertest.ShardedObjects("b", "b", "a")
	h.Status.Shard = ptr.To("a")
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h-1",
		Labels: apiutil.ChildSelector(h), OwnerReferences: release.OwnerReferences}}
	foreign := controllertest.ReadyRelease("other", func(r *addonsv1.HelmOpRelease) {
		r.ResourceVersion = ""
		r.Labels[addonsv1.HelmOpNameLabel] = "h" // Two HelmOps with long names can have the same label value.
	})
	_, live := controllertest.ShardStores(t, "b", h, c, release, revision, foreign)
	r := &Reconciler{client: live, live: live, shard: "b", now: time.Now}
	isOfShard := func(obj client.Object) bool {
		t.Helper()
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		return apiutil.IsOfShard(obj, "b")
	}
	result, entered, err := r.enterShard(t.Context(), h)
	if err != nil || entered || !result.IsZero() ||
		conditions.GetReason(h, addonsv1.ReadyCondition) != addonsv1.ShardChangedReason {
		t.Errorf("not paused: entered %t, result %v, err = %v, conditions %v", entered, result, err, h.Status.Conditions)
	}
	if isOfShard(release) || isOfShard(revision) {
		t.Error("objects of a HelmOp that is not paused were relabelled")
	}
	h.Spec.Paused = true
	result, entered, err = r.enterShard(t.Context(), h)
	if err != nil || entered || result.RequeueAfter != requeue.StaleRetry || h.Status.Shard != nil || isOfShard(release) {
		t.Errorf("paused: entered %t, result %v, err = %v, shard %v, want none before the first relabelling", entered,
			result, err, h.Status.Shard)
	}
	// All objects are relabelled, even if the status was lost or the label got its old value in between.
	result, entered, err = r.enterShard(t.Context(), h)
	if err != nil || entered || result.RequeueAfter != requeue.StaleRetry || h.Status.Shard != nil {
		t.Errorf("relabelling: entered %t, result %v, err = %v, shard %v", entered, result, err, h.Status.Shard)
	}
	if !isOfShard(release) || !isOfShard(revision) || isOfShard(foreign) {
		t.Errorf("labels of release %v, revision %v, other release %v", release.Labels, revision.Labels, foreign.Labels)
	}
	for _, want := range []string{"relabelled", "entered"} {
		if _, entered, err = r.enterShard(t.Context(), h); err != nil || !entered || *h.Status.Shard != "b" {
			t.Errorf("%s: entered %t, err = %v, shard %v", want, entered, err, h.Status.Shard)
		}
	}
	h.Status.Shard, h.Spec.Paused = ptr.To("a"), false
	h.DeletionTimestamp = ptr.To(metav1.Now())
	if _, entered, err = r.enterShard(t.Context(), h); err != nil || entered || h.Status.Shard != nil {
		t.Errorf("under deletion: entered %t, err = %v, shard %v, want none: its objects are relabelled", entered, err,
			h.Status.Shard)
	}
}

// TestEnterShardContinuesAfterFailedRelabel has one release that cannot be changed. The other objects must be
// relabelled, and the HelmOp must wait.
func TestEnterShardContinuesAfterFailedRelabel(t *testing.T) {
	t.Parallel()
	h, _, bad := controllertest.ShardedObjects("b", "b", "a")
	good, revision := bad.DeepCopy(), &addonsv1.HelmOpRevision{}
	bad.Name, good.Name = "a-bad", "b-good"
	revision.ObjectMeta = metav1.ObjectMeta{Namespace: "n", Name: "h-1", Labels: apiutil.ChildSelector(h),
		OwnerReferences: bad.OwnerReferences}
	_, live := controllertest.ShardStores(t, "b", h, bad, good, revision)
	refused := errors.New("refused")
	r := &Reconciler{live: live, shard: "b", now: time.Now,
		client: interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
				options ...client.PatchOption) error {
				if obj.GetName() == bad.Name {
					return refused
				}
				return c.Patch(ctx, obj, patch, options...)
			},
		})}
	if _, entered, err := r.enterShard(t.Context(), h); entered || !errors.Is(err, refused) || h.Status.Shard != nil {
		t.Errorf("entered %t, err = %v, shard %v", entered, err, h.Status.Shard)
	}
	if message := conditions.GetMessage(h, addonsv1.ReadyCondition); !strings.Contains(message, "HelmOpRelease a-bad") {
		t.Errorf("Ready says %q", message)
	}
	for _, obj := range []client.Object{bad, good, revision} {
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		if want := obj != client.Object(bad); apiutil.IsOfShard(obj, "b") != want {
			t.Errorf("%s has the labels %v", obj.GetName(), obj.GetLabels())
		}
	}
}

func TestReleasesOfClustersInOtherShardsAreHeld(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster          string
		missing          bool
		policy           addonsv1.DeletionPolicy
		selects          bool
		otherShard, held bool
		stale            bool
	}{
		"of another shard":               {cluster: "b", selects: true, otherShard: true, held: true},
		"of another shard, not selected": {cluster: "b", selects: false, otherShard: true, held: true},
		"of another shard, not selected, with Orphan": {cluster: "b", selects: false, policy: addonsv1.DeletionPolicyOrphan,
			otherShard: true},
		"of another shard, selected, with Orphan": {cluster: "b", selects: true, policy: addonsv1.DeletionPolicyOrphan,
			otherShard: true, held: true},
		"just entered the shard": {cluster: "a", selects: true, stale: true},
		"missing":                {missing: true, selects: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c, release := controllertest.ShardedObjects("a", tc.cluster, "a")
			h.Spec.DeletionPolicy = tc.policy
			objects := []client.Object{h, release}
			if !tc.missing {
				objects = append(objects, c)
			}
			_, live := controllertest.ShardStores(t, "a", objects...)
			cached, _ := controllertest.ShardStores(t, "a", h, release)
			r := &Reconciler{client: cached, live: live, shard: "a", now: time.Now}
			scope := &helmOpScope{helmOp: h}
			err := r.addUnlisted(t.Context(), scope, selectorOf(t, tc.selects),
				map[client.ObjectKey]*addonsv1.HelmOpRelease{apiutil.ClusterKey(release): release})
			if err != nil || len(scope.clusters) != 1 {
				t.Fatal(scope.clusters, err)
			}
			got := scope.clusters[0]
			planned, err := plannedCluster(got, 0, h.Spec.DeletionPolicy, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (got.otherShard != "") != tc.otherShard || planned.Paused != tc.held || scope.stale != tc.stale {
				t.Errorf("other shard %q, held %v, stale %v", got.otherShard, planned.Paused, scope.stale)
			}
			if !scope.stale && planned.Gone != tc.missing {
				t.Errorf("missing %v", planned.Gone)
			}
			scope.artifact = &addonsv1.ResolvedArtifact{}
			ready := helmopstatus.Of(scope.statusPass(time.Time{})).Ready
			if tc.held && !strings.Contains(ready.Message, `"b"`) {
				t.Errorf("Ready is %+v", ready)
			}
		})
	}
}

// TestUnlistedClustersNeedFewRequests counts the requests for Clusters that are not in the cache. A missing Cluster
// must not cause a list of all Clusters in other shards.
func TestUnlistedClustersNeedFewRequests(t *testing.T) {
	const maxReads = 50 // More Clusters than this are listed.
	t.Parallel()
	for name, tc := range map[string]struct {
		missing, otherShard, others int
		lists, maxGets              int
	}{
		"one missing":                          {missing: 1, others: 20, maxGets: 2},
		"few in other shards":                  {otherShard: 5, others: 20, maxGets: 5},
		"more than the limit in other shards":  {otherShard: maxReads + 1, lists: 1},
		"as many as the limit in other shards": {otherShard: maxReads, maxGets: maxReads},
		"few of many not cached":               {otherShard: 1, others: 2 * maxReads, maxGets: 1},
	} {
		h, _, _ := controllertest.ShardedObjects("a", "a", "a")
		var objects []client.Object
		children := map[client.ObjectKey]*addonsv1.HelmOpRelease{}
		for i := range tc.missing + tc.otherShard + tc.others {
			_, c, release := controllertest.ShardedObjects("a", "b", "a")
			c.Name = fmt.Sprint("c", i)
			release.Spec.ClusterRef.Name = c.Name
			if i < tc.missing+tc.otherShard {
				children[apiutil.ClusterKey(release)] = release
			}
			if i >= tc.missing {
				objects = append(objects, c)
			}
		}
		cached, live := controllertest.ShardStores(t, "a", objects...)
		lists, gets := 0, 0
		counting := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
				options ...client.GetOption) error {
				gets++
				return c.Get(ctx, key, obj, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				lists++
				return c.List(ctx, list, options...)
			},
		})
		r := &Reconciler{client: cached, live: counting, shard: "a", now: time.Now}
		scope := &helmOpScope{helmOp: h}
		if err := r.addUnlisted(t.Context(), scope, selectorOf(t, true), children); err != nil {
			t.Fatal(err)
		}
		otherShard := 0
		for _, c := range scope.clusters {
			if c.otherShard != "" {
				otherShard++
			}
		}
		if len(scope.clusters) != tc.missing+tc.otherShard || otherShard != tc.otherShard {
			t.Errorf("%s: %d Clusters, %d of them in other shards", name, len(scope.clusters), otherShard)
		}
		if lists != tc.lists || gets > tc.maxGets {
			t.Errorf("%s: %d lists and %d reads", name, lists, gets)
		}
	}
}

// selectorOf returns a selector for all Clusters of the namespace n, or for no Cluster.
func selectorOf(t *testing.T, all bool) *selection.Selector {
	t.Helper()
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
	if all {
		helmOp.Spec.ClusterSelector = &metav1.LabelSelector{}
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}
