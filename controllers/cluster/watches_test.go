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
		asks   bool
		change func(*addonsv1.HelmOp)
		want   bool
	}{
		"nothing":                 {asks: true, change: func(*addonsv1.HelmOp) {}},
		"values":                  {asks: true, change: func(h *addonsv1.HelmOp) { h.Spec.ValuesTemplate = "a: b" }},
		"suspended":               {asks: true, change: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, want: true},
		"suspended, asks no more": {change: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }, want: true},
		"paused": {asks: true,
			change: func(h *addonsv1.HelmOp) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, want: true},
		"annotated otherwise": {asks: true,
			change: func(h *addonsv1.HelmOp) { h.Annotations = map[string]string{"a": "b"} }},
		"orphaned": {asks: true,
			change: func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }, want: true},
		"deleted": {asks: true, change: func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now },
			want: true},
		"deleted, and asks nothing": {change: func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now }},
		"it asks from now on": {change: func(h *addonsv1.HelmOp) {
			h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		}, want: true},
		"a condition": {change: func(h *addonsv1.HelmOp) { h.Spec.ClusterCondition = "Ready" }, want: true},
		"selector": {asks: true, change: func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, want: true},
		"selector of one without wish": {change: func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
	} {
		before := &addonsv1.HelmOp{}
		if tc.asks {
			before.Spec.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
		}
		after := before.DeepCopy()
		tc.change(after)
		if got := lifeOptionsChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
