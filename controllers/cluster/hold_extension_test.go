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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestExtensionHoldsDeletionWithoutPause checks when the deletion of a Cluster is held by a pause although the manager
// serves the Runtime Extension.
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
		for _, hold := range []string{"", controllertest.HeldSince} {
			if hold != "" && (tc.off || tc.withoutClass) {
				continue // The hold began with a pause, which a user has ended.
			}
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
