// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runningactions

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestDeletionStopsRunningAction checks that the deletion of a release stops its running action, unless the release
// stays in the cluster, and that no other change does.
func TestDeletionStopsRunningAction(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	deleted := func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOp, *addonsv1.HelmOpRelease)
		want   bool
	}{
		"deleted": {deleted, true},
		"the HelmOp is gone": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { deleted(h, r); h.Name = "another" },
			true},
		"another spec": {func(_ *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { r.Generation++ }, false},
		"the deletion policy of the HelmOp is Orphan": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
			deleted(h, r)
			h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		}, false},
		"the deletion policy of the release is Orphan": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
			deleted(h, r)
			r.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		}, false},
		"the deletion policy is no longer Orphan": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
			deleted(h, r)
			r.Spec.DeletionPolicy, h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan, addonsv1.DeletionPolicyUninstall
		}, true},
		"the HelmOp is paused": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { deleted(h, r); h.Spec.Paused = true },
			false},
		"paused": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
			deleted(h, r)
			r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, false},
		"being moved": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) {
			deleted(h, r)
			r.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		}, false},
		"another release": {func(h *addonsv1.HelmOp, r *addonsv1.HelmOpRelease) { deleted(h, r); r.Name = "other" },
			false},
	} {
		helmOp := controllertest.UpToDateHelmOp(t, "cni", nil)
		before := controllertest.ReadyRelease("cni", nil)
		after := before.DeepCopy()
		tc.change(helmOp, after)
		var actions Actions
		stop, over := actions.Begin(client.ObjectKeyFromObject(before))
		handler := actions.StopOnDeletion(controllertest.StoreOf(t, helmOp))
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, nil)
		if got := stop.Err() != nil; got != tc.want || got && !errors.Is(context.Cause(stop), errReleaseDeleted) {
			t.Errorf("%s: stopped %t because of %v", name, got, context.Cause(stop))
		}
		over()
		if len(actions.stops) != 0 {
			t.Errorf("%s: %d actions are remembered", name, len(actions.stops))
		}
		// It was deleted before: there is nothing new.
		again, over := actions.Begin(client.ObjectKeyFromObject(before))
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: after, ObjectNew: after}, nil)
		if again.Err() != nil {
			t.Errorf("%s: an old event stops what is new", name)
		}
		over()
	}
}
