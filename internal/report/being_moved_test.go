// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestClustersBeingMoved checks the condition ClusterBeingMoved: its command must be complete, and the condition must
// disappear.
func TestClustersBeingMoved(t *testing.T) {
	t.Parallel()
	const annotation = "clusterctl.cluster.x-k8s.io/delete-for-move"
	var many []string
	for n := range 1000 {
		many = append(many, fmt.Sprintf("c%03d", n)+strings.Repeat("x", 59))
	}
	for name, tc := range map[string]struct {
		names       []string
		what, which string
	}{
		"one": {names: []string{"one"}, which: "one",
			what: "HelmOp begins no hold of Cluster one, and does not change its conditions: its annotation "},
		"two": {names: []string{"one", "two"}, which: "one two",
			what: "HelmOp begins no hold of 2 Clusters, and does not change their conditions: their annotation "},
		"many": {names: many, which: strings.Join(many[:5], " "), what: "HelmOp begins no hold of 1000 Clusters"},
	} {
		release := &addonsv1.HelmOpRelease{}
		release.Namespace = strings.Repeat("n", 63)
		ClustersBeingMoved(release, tc.names)
		got := conditions.Get(release, addonsv1.ClusterBeingMovedCondition)
		if got == nil || got.Status != True || got.Reason != addonsv1.BeingMovedReason ||
			!strings.HasPrefix(got.Message, tc.what) || !strings.HasSuffix(got.Message,
			": kubectl -n "+release.Namespace+" annotate clusters.cluster.x-k8s.io "+tc.which+" "+annotation+"-") {
			t.Errorf("%s: %+v", name, got)
		}
		ClustersBeingMoved(release, nil)
		if conditions.Has(release, addonsv1.ClusterBeingMovedCondition) {
			t.Errorf("%s: the condition stays", name)
		}
	}
}

// TestMovedObjectWithNewSpecIsNotReady checks that an object that is being moved is not Ready with a spec that HelmOp
// has not applied.
func TestMovedObjectWithNewSpecIsNotReady(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for generation, want := range map[int64]metav1.ConditionStatus{1: True, 2: metav1.ConditionUnknown} {
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", Generation: 1}}
		SetCondition(helmOp, addonsv1.ReadyCondition, True, addonsv1.ReadyReason, "")
		helmOp.Generation = generation
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(helmOp).WithStatusSubresource(helmOp).Build()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := BeingMoved(t.Context(), c, helmOp, addonsv1.HelmOpResource, nil); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Get(helmOp, addonsv1.ReadyCondition); got.Status != want ||
				!conditions.IsTrue(helmOp, addonsv1.PausedCondition) {
				t.Errorf("generation %d: %+v", generation, helmOp.Status.Conditions)
			}
		}
	}
}
