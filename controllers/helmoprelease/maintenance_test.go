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

// TestExemptFromMaintenance has for each action whether it is carried out outside of maintenance, without and with what
// a HelmOp can include.
func TestExemptFromMaintenance(t *testing.T) {
	t.Parallel()
	returned := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutReturned}
	pinned := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutPinned}
	updated := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutUpdated}
	tests := map[string]struct {
		action            model.Action
		assigned          *addonsv1.ReleaseRollout
		plain, installs   bool
		returns, includes bool
	}{
		"installation":                  {model.ActionInstall, updated, true, false, true, false},
		"after an interruption":         {model.ActionRecoverThenInstall, updated, true, false, true, false},
		"upgrade":                       {model.ActionUpgrade, updated, false, false, false, false},
		"upgrade of unknown revision":   {model.ActionUpgrade, nil, false, false, false, false},
		"return":                        {model.ActionUpgrade, returned, true, true, false, false},
		"pin":                           {model.ActionUpgrade, pinned, true, true, false, false},
		"interrupted upgrade":           {model.ActionRecoverThenUpgrade, updated, true, true, true, true},
		"rollback":                      {model.ActionRollback, updated, true, true, false, false},
		"uninstallation as remediation": {model.ActionUninstall, updated, true, true, false, false},
		"test":                          {model.ActionTest, updated, true, true, true, true},
		"adoption":                      {model.ActionAdopt, updated, false, false, false, false},
		"correction of drift":           {model.ActionCorrectDrift, updated, false, false, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				includes []addonsv1.MaintenanceScope
				want     bool
			}{
				{nil, tc.plain},
				{[]addonsv1.MaintenanceScope{addonsv1.MaintenanceInstallation}, tc.installs},
				{[]addonsv1.MaintenanceScope{addonsv1.MaintenanceRollback}, tc.returns},
				{[]addonsv1.MaintenanceScope{addonsv1.MaintenanceInstallation, addonsv1.MaintenanceRollback}, tc.includes},
			} {
				limits := limitsOf(&releaseScope{helmOp: &addonsv1.HelmOp{Spec: addonsv1.HelmOpSpec{
					Maintenance: &addonsv1.Maintenance{Includes: c.includes}}}, object: apiutil.NewCluster()})
				if got := isExempt(limits, decide.Decision{Action: tc.action}, tc.assigned); got != c.want {
					t.Errorf("with %v: %v", c.includes, got)
				}
			}
		})
	}
}

// maintained returns a pass over a release in a Cluster with a window from 22:00, and a reconciler with a time.
func maintained(now time.Time) (*Reconciler, *releasePass) {
	cluster := apiutil.NewCluster()
	cluster.SetAnnotations(map[string]string{addonsv1.MaintenanceWindowsAnnotation: "0 22 * * * 2h"})
	release := controllertest.UpToDateRelease("r")
	return &Reconciler{now: func() time.Time { return now }},
		&releasePass{releaseScope: &releaseScope{release: release, object: cluster}}
}

// TestReleaseWaitsForMaintenance checks what a release reports, and when its next pass is.
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

	// A failure stays one.
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

// TestCorrectionsWaitForMaintenance checks that drift is reported and not corrected outside of a window.
func TestCorrectionsWaitForMaintenance(t *testing.T) {
	t.Parallel()
	opens := time.Date(2026, 11, 26, 22, 0, 0, 0, time.UTC)
	for _, correcting := range []bool{true, false} {
		for now, closed := range map[time.Time]bool{opens.Add(-time.Minute): true, opens: false} {
			r, p := maintained(now)
			p.policy.CorrectDrift = correcting
			p.release.Status.Drift = &addonsv1.DriftStatus{Differing: 1}
			why := r.deferCorrections(p)
			if (why != "") != (correcting && closed) || p.policy.CorrectDrift != (correcting && !closed) ||
				(p.requeueAfter == time.Minute) != (why != "") {
				t.Errorf("correcting %v, closed %v: %q, %+v, after %s", correcting, closed, why, p.policy, p.requeueAfter)
			}
		}
	}
}
