// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestUninstallBeforeDeletionTimesOut checks the Event of a release that was not uninstalled before the hold of the
// deletion of its Cluster ended.
func TestUninstallBeforeDeletionTimesOut(t *testing.T) {
	t.Parallel()
	for beforeDelete, want := range map[bool]string{true: "was not uninstalled in time", false: ""} {
		recorder := events.NewFakeRecorder(2)
		r := &Reconciler{recorder: recorder, now: func() time.Time { return controllertest.LifeNow },
			budgets: report.NewEventBudgets(time.Now)}
		scope := &releaseScope{
			release: controllertest.HoldingRelease(time.Minute), helmOp: controllertest.HoldingHelmOp(),
			cluster: controllertest.DeletingCluster(controllertest.HeldSince, true),
		}
		if !beforeDelete {
			scope.release.Spec.BeforeClusterDelete, scope.helmOp.Spec.BeforeClusterDelete = nil, nil
		}
		if _, err := r.reconcileDelete(t.Context(), scope); err != nil || len(scope.release.Finalizers) != 0 {
			t.Fatalf("finalizers %v, err = %v", scope.release.Finalizers, err)
		}
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("beforeClusterDelete %t: event %q", beforeDelete, got)
		}
	}
}

// TestWaitingUninstallationsAreLimited checks that uninstallations that wait for their objects take at most a third of
// the slots.
func TestWaitingUninstallationsAreLimited(t *testing.T) {
	t.Parallel()
	now := controllertest.LifeNow
	r := &Reconciler{slots: newActionSlots(8, 0, &async.Waker{}), now: func() time.Time { return now }}
	take := func(cluster string, hold string) (done func(), ok, waits bool) {
		options := &model.UninstallOptions{}
		release := controllertest.HoldingRelease(20 * time.Minute)
		release.Name = cluster
		scope := &releaseScope{release: release, cluster: controllertest.DeletingCluster(hold, true)}
		done, _ = r.uninstallSlot(scope, options, cluster, "h")
		return done, done != nil, options.Wait
	}
	first, ok, waits := take("a", controllertest.HeldSince)
	if _, second, _ := take("b", controllertest.HeldSince); !ok || !waits || !second {
		t.Fatal("two of eight workers may wait for objects")
	}
	if _, ok, _ := take("c", controllertest.HeldSince); ok {
		t.Error("a third worker waits, too")
	}
	if _, ok, waits := take("d", ""); !ok || waits {
		t.Error("an uninstallation that does not wait for objects is limited, too")
	}
	now = controllertest.LifeNow.Add(10 * time.Minute) // Of 20 minutes, 15 are over.
	if _, ok, waits := take("c", controllertest.HeldSince); !ok || waits {
		t.Error("the release is not uninstalled at all")
	}
	first()
	if _, ok, waits := take("e", controllertest.HeldSince); !ok || !waits {
		t.Error("the slot is not released")
	}
}
