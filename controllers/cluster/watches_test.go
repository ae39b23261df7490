// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestLifeOptionsChanged(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		holds  bool
		change func(*addonsv1.HelmOp)
		want   bool
	}{
		"no change":                {holds: true, change: func(*addonsv1.HelmOp) {}},
		"values":                   {holds: true, change: func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate = "a: b" }},
		"paused by spec":           {holds: true, change: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, want: true},
		"paused by spec, no holds": {change: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, want: true},
		"paused by annotation": {holds: true,
			change: func(h *addonsv1.HelmOp) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, want: true},
		"another annotation": {holds: true,
			change: func(h *addonsv1.HelmOp) { h.Annotations = map[string]string{"a": "b"} }},
		"orphaned": {holds: true,
			change: func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }, want: true},
		"deleted": {holds: true, change: func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now },
			want: true},
		"deleted, no conditions or holds": {change: func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now }},
		"hold requested": {change: func(h *addonsv1.HelmOp) {
			h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		}, want: true},
		"condition requested": {change: func(h *addonsv1.HelmOp) { h.Spec.ClusterCondition = "Ready" }, want: true},
		"selector": {holds: true, change: func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, want: true},
		"selector, no conditions or holds": {change: func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
	} {
		before := &addonsv1.HelmOp{}
		if tc.holds {
			before.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
		}
		after := before.DeepCopy()
		tc.change(after)
		if got := lifeOptionsChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestLifeChanged checks which changes of a release may change the conditions or holds of its Cluster.
func TestLifeChanged(t *testing.T) {
	t.Parallel()
	result := func(status metav1.ConditionStatus, generation int64) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			r.Status.Conditions = []metav1.Condition{{Type: addonsv1.KubernetesUpgradeReadyCondition, Status: status,
				Reason: addonsv1.APIRemovedReason, ObservedGeneration: generation}}
		}
	}
	for name, tc := range map[string]struct {
		before, after func(*addonsv1.HelmOpRelease)
		want          bool
	}{
		"no change":              {result(metav1.ConditionTrue, 1), result(metav1.ConditionTrue, 1), false},
		"the first check":        {func(*addonsv1.HelmOpRelease) {}, result(metav1.ConditionTrue, 1), true},
		"another result":         {result(metav1.ConditionFalse, 1), result(metav1.ConditionTrue, 1), true},
		"for another generation": {result(metav1.ConditionTrue, 1), result(metav1.ConditionTrue, 2), true},
		"for another version": {func(*addonsv1.HelmOpRelease) {}, func(r *addonsv1.HelmOpRelease) {
			r.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: "v1.37"}
		}, true},
		"inventory": {func(*addonsv1.HelmOpRelease) {}, func(r *addonsv1.HelmOpRelease) {
			r.Status.Inventory = &addonsv1.Inventory{}
		}, false},
	} {
		before, after := &addonsv1.HelmOpRelease{}, &addonsv1.HelmOpRelease{}
		tc.before(before)
		tc.after(after)
		predicate := lifeChanged(controllertest.StoreOf(t))
		if got := predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestReadinessMatters checks that a release that becomes Ready causes a pass over its Cluster only if a condition or a
// hold of the Cluster may depend on it.
func TestReadinessMatters(t *testing.T) {
	t.Parallel()
	progressing := func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.ProgressingReason, "") }
	for name, tc := range map[string]struct {
		helmOp        func(*addonsv1.HelmOp)
		before, after func(*addonsv1.HelmOpRelease)
		want          bool
	}{
		"nothing is requested": {},
		"condition":            {helmOp: func(h *addonsv1.HelmOp) { h.Spec.ClusterCondition = "Addons" }, want: true},
		"hold of upgrades": {helmOp: func(h *addonsv1.HelmOp) {
			h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		}, want: true},
		"hold of deletions": {helmOp: func(h *addonsv1.HelmOp) {
			h.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
		}, want: true},
		"hold of upgrades, requested before": {after: func(r *addonsv1.HelmOpRelease) {
			r.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		}, want: true},
		"hold of deletions, requested before": {after: func(r *addonsv1.HelmOpRelease) {
			r.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
		}, want: true},
		"HelmOp is not known": {helmOp: func(h *addonsv1.HelmOp) { h.Name = "other" }, want: true},
		"enters the shard": {before: func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, addonsv1.OtherShardReason, "")
		}, want: true},
		"another generation": {after: func(r *addonsv1.HelmOpRelease) { r.Generation++ }, want: true},
		"paused": {after: func(r *addonsv1.HelmOpRelease) {
			r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, want: true},
	} {
		if tc.before == nil {
			tc.before = progressing
		}
		before, after := controllertest.ReadyRelease("a", tc.before), controllertest.ReadyRelease("a", tc.after)
		predicate := lifeChanged(controllertest.StoreOf(t, controllertest.UpToDateHelmOp(t, "a", tc.helmOp)))
		if got := predicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestPassKeepsSharedCluster checks that a pass does not change the Cluster in the cache, which a pass does not copy.
func TestPassKeepsSharedCluster(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]*clusterv1.Cluster{
		"annotation ends": upgradingCluster(map[string]string{addonsv1.DeletionHoldAnnotation: controllertest.HeldSince}),
		"deletion hold":   controllertest.DeletingCluster("", false),
	} {
		r := lifeReconciler(t, cluster, controllertest.HoldingRelease(time.Hour))
		shared := apiutil.NewCluster()
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), shared); err != nil {
			t.Fatal(err)
		}
		before, patched := shared.DeepCopy(), 0
		r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
				options ...client.GetOption) error {
				if u, ok := obj.(*unstructured.Unstructured); ok && u.GetKind() == apiutil.ClusterKind {
					u.Object = shared.Object
					return nil
				}
				return c.Get(ctx, key, obj, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
				options ...client.PatchOption) error {
				patched++
				return c.Patch(ctx, obj, patch, options...)
			},
		})
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)}
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(before, shared) || patched == 0 {
			t.Errorf("%s: the Cluster in the cache changed to %v; %d patches", name, shared.Object, patched)
		}
	}
}
