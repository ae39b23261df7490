// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"strings"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// TestHelmOpBeingMovedIsPaused checks that a HelmOp with the annotation of clusterctl move is not reconciled. The
// condition Paused must have the reason and the command that removes the annotation.
func TestHelmOpBeingMovedIsPaused(t *testing.T) {
	t.Parallel()
	h, _, _ := controllertest.ShardedObjects("", "", "")
	h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	_, c := controllertest.ShardStores(t, "", h)
	r := &Reconciler{client: c, live: c, lookup: selection.NewLookup(c),
		resolver: resolution.New(resolution.Options{Concurrency: 1})}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(h), h); err != nil {
		t.Fatal(err)
	}
	paused := conditions.Get(h, addonsv1.PausedCondition)
	if paused == nil || paused.Status != report.True || paused.Reason != addonsv1.BeingMovedReason ||
		!strings.Contains(paused.Message,
			"annotate "+addonsv1.HelmOpResource+" "+h.Name+" "+clusterctlv1.DeleteForMoveAnnotation+"-") {
		t.Errorf("the condition Paused is %+v", paused)
	}
	if len(h.Finalizers) != 0 {
		t.Errorf("the HelmOp has finalizers %v", h.Finalizers)
	}
}
