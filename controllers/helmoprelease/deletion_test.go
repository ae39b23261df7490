// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestWhatEndsUnseenIsNoted(t *testing.T) {
	t.Parallel()
	gone := &releaseScope{release: controllertest.LeavingRelease(time.Minute), cluster: controllertest.GoingCluster(controllertest.HeldSince, true)}
	r := &Reconciler{Unseen: &clusterlife.UnseenReleases{}}
	r.noteUnseen(gone, lastUninstallFailed(gone.release))
	if noted := r.Unseen.Take(apiutil.ClusterKey(gone.release)); len(noted) != 0 {
		t.Errorf("nothing failed, but noted are %v", noted)
	}
	gone.release.Status.History = []addonsv1.ReleaseAction{{Action: verbUninstall}}
	r.noteUnseen(gone, lastUninstallFailed(gone.release))
	if noted := r.Unseen.Take(apiutil.ClusterKey(gone.release)); len(noted) != 1 {
		t.Errorf("noted are %v", noted)
	}
}

func TestWhatIsForgottenWhenItsTimeIsOverIsNamed(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Unseen: &clusterlife.UnseenReleases{}, Now: func() time.Time { return controllertest.LifeNow }}
	scope := &releaseScope{release: controllertest.LeavingRelease(time.Minute), helmOp: controllertest.LeavingHelmOp(), cluster: controllertest.GoingCluster(controllertest.HeldSince, true)}
	if _, err := r.reconcileDelete(t.Context(), scope); err != nil || len(scope.release.Finalizers) != 0 {
		t.Fatalf("it is not forgotten: %v", err)
	}
	if noted := r.Unseen.Take(apiutil.ClusterKey(scope.release)); len(noted) != 1 {
		t.Errorf("noted are %v", noted)
	}
}

func TestUninstallationsThatWaitTakeAThirdOfTheWorkers(t *testing.T) {
	t.Parallel()
	now := controllertest.LifeNow
	r := &Reconciler{Slots: NewActionSlots(8, 0, &async.Waker{}), Now: func() time.Time { return now }}
	take := func(cluster string, hold string) (done func(), ok, waits bool) {
		options := &model.UninstallOptions{}
		release := controllertest.LeavingRelease(20 * time.Minute)
		release.Name = cluster
		done, _ = r.uninstallSlot(&releaseScope{release: release, cluster: controllertest.GoingCluster(hold, true)}, options, cluster, "h")
		return done, done != nil, options.Wait
	}
	first, ok, waits := take("a", controllertest.HeldSince)
	if _, second, _ := take("b", controllertest.HeldSince); !ok || !waits || !second {
		t.Fatal("two of eight may wait")
	}
	if _, ok, _ := take("c", controllertest.HeldSince); ok {
		t.Error("a third one waits, too")
	}
	if _, ok, waits := take("d", ""); !ok || waits {
		t.Error("what does not wait has to")
	}
	now = controllertest.LifeNow.Add(10 * time.Minute) // Of 20 minutes, 15 are over.
	if _, ok, waits := take("c", controllertest.HeldSince); !ok || waits {
		t.Error("it is not uninstalled at all")
	}
	first()
	if _, ok, waits := take("e", controllertest.HeldSince); !ok || !waits {
		t.Error("the place is not given back")
	}
}
