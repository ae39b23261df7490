// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestExtensionHoldsDeletionWithoutPause checks in which cases the deletion of a Cluster is held with a pause although
// the manager serves the Runtime Extension.
func TestExtensionHoldsDeletionWithoutPause(t *testing.T) {
	t.Parallel()
	deleting := func(reason string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterDeletingCondition, Status: metav1.ConditionTrue,
				Reason: reason})
		}
	}
	for name, tc := range map[string]struct {
		off, withoutClass bool
		change            func(*clusterv1.Cluster)
		paused            bool
	}{
		"Cluster API has not begun": {},
		"Cluster API waits":         {change: deleting(clusterv1.ClusterDeletingWaitingForBeforeDeleteHookReason)},
		"no extension":              {off: true, paused: true},
		"no ClusterClass":           {withoutClass: true, paused: true},
		"Cluster API does not know the extension": {change: func(c *clusterv1.Cluster) {
			c.Annotations[runtimev1.OkToDeleteAnnotation] = ""
		}, paused: true},
		"Cluster API ignores hooks": {change: deleting(clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason),
			paused: true},
	} {
		for _, hold := range []string{"", controllertest.HeldSince + " unpaused"} {
			cluster := controllertest.DeletingCluster(hold, false)
			if !tc.withoutClass {
				cluster.Spec.Topology.ClassRef.Name = "class"
			}
			if tc.change != nil {
				tc.change(cluster)
			}
			r := lifeReconciler(t, cluster, controllertest.HoldingRelease(time.Hour))
			r.extension = !tc.off
			after, _ := r.pass(t)
			if !apiutil.HoldOf(after).IsOn() || ptr.Deref(after.Spec.Paused, false) != tc.paused {
				t.Errorf("%s, hold %q: annotations %v, paused %v", name, hold, after.Annotations, after.Spec.Paused)
			}
		}
	}
}

// TestHoldWithoutPause checks two things for a hold without a pause: a pause during the hold counts as the pause of a
// user, and a pause that a user has ended does not return.
func TestHoldWithoutPause(t *testing.T) {
	t.Parallel()
	const unpaused = controllertest.HeldSince + " unpaused"
	for name, tc := range map[string]struct {
		hold    string
		timeout time.Duration
		paused  bool
		change  func(*clusterv1.Cluster)

		want                     string
		wantPaused, wantDeletion bool
	}{
		"a user pauses":      {hold: unpaused, timeout: time.Hour, paused: true, want: "stopped", wantPaused: true},
		"a user pauses late": {hold: unpaused, timeout: time.Minute, paused: true, want: "stopped", wantPaused: true},
		"a user pauses by the annotation": {hold: unpaused, timeout: time.Hour, change: func(c *clusterv1.Cluster) {
			c.Annotations[clusterv1.PausedAnnotation] = ""
		}, want: "stopped"},
		"the pause lasts": {hold: "stopped", timeout: time.Minute, paused: true, want: "stopped", wantPaused: true},
		"the pause ends": {hold: "stopped", timeout: time.Hour,
			want: controllertest.LifeNow.Format(time.RFC3339) + " unpaused"},
		"the hold is over": {hold: unpaused, timeout: time.Minute, want: "over"},
		"the hold lasts":   {hold: unpaused, timeout: time.Hour, want: unpaused, wantDeletion: true},
		"a user ended the pause of a hold": {hold: controllertest.HeldSince, timeout: time.Hour,
			want: controllertest.HeldSince, wantDeletion: true},
	} {
		cluster := controllertest.DeletingCluster(tc.hold, tc.paused)
		cluster.Spec.Topology.ClassRef.Name = "class"
		if tc.change != nil {
			tc.change(cluster)
		}
		release := controllertest.HoldingRelease(tc.timeout)
		r := lifeReconciler(t, cluster, release)
		r.extension = true
		after, _ := r.pass(t)
		if got := after.Annotations[addonsv1.DeletionHoldAnnotation]; got != tc.want ||
			ptr.Deref(after.Spec.Paused, false) != tc.wantPaused {
			t.Errorf("%s: hold %q, paused %v", name, got, after.Spec.Paused)
		}
		err := r.client.Get(t.Context(), client.ObjectKeyFromObject(release), release)
		if isDeleted := err != nil || !release.DeletionTimestamp.IsZero(); isDeleted != tc.wantDeletion {
			t.Errorf("%s: the release is deleted: %v (%v)", name, isDeleted, err)
		}
	}
}

// TestRestoredHoldWithoutPause checks that a pause of a user is not ended in a Cluster that was restored from a backup.
func TestRestoredHoldWithoutPause(t *testing.T) {
	t.Parallel()
	for hold, ends := range map[string]bool{controllertest.HeldSince: true, controllertest.HeldSince + " unpaused": false,
		"stopped": false} {
		cluster := controllertest.DeletingCluster(hold, true)
		cluster.DeletionTimestamp = nil
		if isRestoredHold(cluster) != ends {
			t.Errorf("%q: the pause ends: %v", hold, !ends)
		}
	}
}
