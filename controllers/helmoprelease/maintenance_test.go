// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// maintained returns a pass over a release in a Cluster with a window from 22:00. The clock of the reconciler is fixed.
func maintained(now time.Time) (*Reconciler, *releasePass) {
	cluster := apiutil.NewCluster()
	cluster.SetAnnotations(map[string]string{addonsv1.MaintenanceWindowsAnnotation: "0 22 * * * 2h"})
	release := controllertest.UpToDateRelease("r")
	return &Reconciler{now: func() time.Time { return now }},
		&releasePass{releaseScope: &releaseScope{release: release, object: cluster},
			observation: model.Observation{Records: []model.Record{{Status: model.StatusDeployed}}}}
}

// TestReleaseWaitsForMaintenance checks the report of a release and the time of its next pass.
func TestReleaseWaitsForMaintenance(t *testing.T) {
	t.Parallel()
	opens := time.Date(2026, 11, 26, 22, 0, 0, 0, time.UTC)
	upgrade := decide.Decision{Action: model.ActionUpgrade, FromRevision: 3}
	r, p := maintained(opens.Add(-time.Hour))
	if !r.waitsForMaintenance(p, upgrade) || p.requeueAfter != time.Hour || !p.release.Status.NextTryAt.Time.Equal(opens) {
		t.Errorf("due after %s, at %s", p.requeueAfter, p.release.Status.NextTryAt)
	}
	ready := conditions.Get(p.release, addonsv1.ReadyCondition)
	if ready.Reason != addonsv1.WaitingForMaintenanceReason || !strings.Contains(ready.Message, "2026-11-26T22:00:00Z") ||
		!apiutil.IsDeferred(p.release) {
		t.Errorf("%+v", ready)
	}

	// After an interrupted action, another change waits, and the message names the interrupted Helm revision.
	r, p = maintained(opens.Add(-time.Hour))
	interrupted := decide.Decision{Action: model.ActionRecoverThenUpgrade, State: model.StatePending, FromRevision: 3,
		Message: "Helm revision 3 was interrupted."}
	if !r.waitsForMaintenance(p, interrupted) || !apiutil.IsDeferred(p.release) || !strings.HasSuffix(
		conditions.GetMessage(p.release, addonsv1.ReadyCondition), "2026-11-26T22:00:00Z. Helm revision 3 was interrupted") {
		t.Errorf("%+v", conditions.Get(p.release, addonsv1.ReadyCondition))
	}

	// A failed release stays failed.
	r, p = maintained(opens.Add(-time.Hour))
	report.SetNotReady(p.release, addonsv1.UpgradeFailedReason, "")
	p.release.Status.LastError = "boom"
	upgrade.Failures = 1
	if !r.waitsForMaintenance(p, upgrade) || conditions.GetReason(p.release, addonsv1.ReadyCondition) !=
		addonsv1.UpgradeFailedReason || !strings.Contains(conditions.GetMessage(p.release, addonsv1.ReadyCondition),
		"next try waits for maintenance") {
		t.Errorf("%+v", conditions.Get(p.release, addonsv1.ReadyCondition))
	}

	r, p = maintained(opens)
	if r.waitsForMaintenance(p, upgrade) {
		t.Error("it waits in the window")
	}
}

// TestCorrectionsWaitForMaintenance checks that drift outside of a window is reported and not corrected. The pass at
// the start of the window must correct drift that was found just before.
func TestCorrectionsWaitForMaintenance(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	b.pass()
	b.now = time.Date(2026, 11, 26, 21, 59, 0, 0, time.UTC)
	b.p.object = apiutil.NewCluster()
	b.p.object.SetAnnotations(map[string]string{addonsv1.MaintenanceWindowsAnnotation: "0 22 * * * 2h"})
	b.edit("c1")
	b.p.requeueAfter = 0
	b.pass()
	b.want(report.True, addonsv1.DriftDetectedReason, "The correction waits for maintenance: the maintenance windows of "+
		"the Cluster are closed until 2026-11-26T22:00:00Z")
	if b.patches != 0 || b.p.requeueAfter > time.Minute {
		t.Errorf("%d corrections, the next pass is after %s", b.patches, b.p.requeueAfter)
	}
	b.now = b.now.Add(time.Minute)
	b.p.policy.CorrectDrift = true
	b.pass()
	if b.patches != 1 {
		t.Errorf("%d corrections", b.patches)
	}
}
