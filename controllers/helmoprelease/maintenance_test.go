// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestExemptFromMaintenance has for each decision whether it is carried out outside of maintenance, without and with
// what a HelmOp can include.
func TestExemptFromMaintenance(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	returned := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutReturned, At: at}
	pinned := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutPinned, At: at}
	updated := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutUpdated, At: at}
	joined := &addonsv1.ReleaseRollout{Reason: addonsv1.ReleaseRolloutJoined, At: at}
	decided := func(action model.Action) decide.Decision { return decide.Decision{Action: action} }
	for name, tc := range map[string]struct {
		decision decide.Decision
		assigned *addonsv1.ReleaseRollout
		// failed is true if no Helm revision ever worked, and acted if the release was changed since it was assigned.
		failed, acted bool
		// want is whether the decision is carried out without includes, with Installation, with Rollback, and with both.
		want [4]bool
	}{
		"installation": {decision: decided(model.ActionInstall), assigned: joined, want: [4]bool{true, false, true, false}},
		"installation after a replacement": {decision: decided(model.ActionInstall), assigned: updated,
			want: [4]bool{true, true, true, true}},
		"next try of the first installation": {decision: decided(model.ActionUpgrade), assigned: joined, failed: true,
			want: [4]bool{true, false, true, false}},
		"pending installation of another program": {decision: decided(model.ActionRecoverThenInstall), assigned: joined,
			want: [4]bool{true, false, true, false}},
		"upgrade":                     {decision: decided(model.ActionUpgrade), assigned: updated},
		"upgrade of unknown revision": {decision: decided(model.ActionUpgrade)},
		"return":                      {decision: decided(model.ActionUpgrade), assigned: returned, want: [4]bool{true, true, false, false}},
		"pin":                         {decision: decided(model.ActionUpgrade), assigned: pinned, want: [4]bool{true, true, false, false}},
		"change after a return":       {decision: decided(model.ActionUpgrade), assigned: returned, acted: true},
		"change after a pin":          {decision: decided(model.ActionUpgrade), assigned: pinned, acted: true},
		"upgrade that was interrupted": {decision: decide.Decision{Action: model.ActionRecoverThenUpgrade,
			Reason: decide.ReasonInterrupted}, assigned: updated, want: [4]bool{true, true, true, true}},
		"upgrade that another program left pending": {decision: decide.Decision{Action: model.ActionRecoverThenUpgrade,
			Reason: decide.ReasonPendingTimeout}, assigned: updated},
		"rollback": {decision: decided(model.ActionRollback), assigned: updated, want: [4]bool{true, true, false, false}},
		"uninstallation as remediation": {decision: decided(model.ActionUninstall), assigned: updated,
			want: [4]bool{true, true, false, false}},
		"test":     {decision: decided(model.ActionTest), assigned: updated, want: [4]bool{true, true, true, true}},
		"adoption": {decision: decided(model.ActionAdopt), assigned: updated},
		"adoption of a pending release": {decision: decide.Decision{Action: model.ActionRecoverThenUpgrade,
			State: model.StateForeign, Reason: decide.ReasonInterrupted}, assigned: updated},
		"correction of drift": {decision: decided(model.ActionCorrectDrift), assigned: updated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &releasePass{releaseScope: &releaseScope{release: controllertest.UpToDateRelease("r"),
				object: apiutil.NewCluster(), helmOp: &addonsv1.HelmOp{}}}
			p.release.Spec.Rollout, p.release.Status.History = tc.assigned, nil
			p.observation.Records = []model.Record{{Status: "failed"}}
			if !tc.failed {
				p.observation.Records = append(p.observation.Records, model.Record{Status: "superseded"})
			}
			if tc.acted {
				p.release.Status.History = []addonsv1.ReleaseAction{{Action: "Upgrade", Succeeded: true, Time: at}}
			}
			for i, includes := range [][]addonsv1.MaintenanceScope{nil, {addonsv1.MaintenanceInstallation},
				{addonsv1.MaintenanceRollback}, {addonsv1.MaintenanceInstallation, addonsv1.MaintenanceRollback}} {
				p.helmOp.Spec.Maintenance = &addonsv1.Maintenance{Includes: includes}
				if got := isExempt(limitsOf(p.releaseScope), p, tc.decision); got != tc.want[i] {
					t.Errorf("with %v: %v", includes, got)
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
		&releasePass{releaseScope: &releaseScope{release: release, object: cluster},
			observation: model.Observation{Records: []model.Record{{Status: statusDeployed}}}}
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

// TestCorrectionsWaitForMaintenance checks that drift is reported and not corrected outside of a window, and that the
// pass at its opening corrects drift that was found just before.
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
