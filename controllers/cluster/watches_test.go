// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
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
		if got := lifeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
