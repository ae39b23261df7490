// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actiongate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
)

// TestAdoptionAwaitsRollout checks that a release of another owner is changed only when the rollout reaches its
// Cluster. Without a rollout, it is changed at once. A new release never waits.
func TestAdoptionAwaitsRollout(t *testing.T) {
	t.Parallel()
	assigned := func(reason addonsv1.ReleaseRolloutReason) *addonsv1.ReleaseRollout {
		return &addonsv1.ReleaseRollout{Revision: 1, Reason: reason}
	}
	for name, tc := range map[string]struct {
		rollout *addonsv1.ReleaseRollout
		state   model.State
		want    bool
	}{
		"a new Cluster":            {assigned(addonsv1.ReleaseRolloutJoined), model.StateForeign, true},
		"the rollout reached it":   {assigned(addonsv1.ReleaseRolloutUpdated), model.StateForeign, false},
		"returned":                 {assigned(addonsv1.ReleaseRolloutReturned), model.StateForeign, false},
		"without a rollout":        {nil, model.StateForeign, false},
		"a release that is absent": {assigned(addonsv1.ReleaseRolloutJoined), model.StateAbsent, false},
		"an own release":           {assigned(addonsv1.ReleaseRolloutJoined), model.StateOutOfSync, false},
	} {
		release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		release.Spec.Rollout = tc.rollout
		for _, action := range []model.Action{model.ActionAdopt, model.ActionUpgrade, model.ActionRecoverThenUpgrade,
			model.ActionUninstall} {
			if got := AwaitsRollout(release, model.Observation{}, model.Desired{}, decide.Decision{State: tc.state,
				Action: action}); got != tc.want {
				t.Errorf("%s, %s: %t, want %t", name, action, got, tc.want)
			}
		}
	}

	existing := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	existing.Spec.Rollout = assigned(addonsv1.ReleaseRolloutUpdated)
	existing.Annotations = map[string]string{addonsv1.FirstAssignedAnnotation: controllertest.Noon.Format(time.RFC3339)}
	for owner, want := range map[string]bool{"fleet.it": true, "fleet.other": false} {
		// The release of this HelmOp may be of a lost HelmOpRelease in another management cluster.
		observation := model.Observation{Records: []model.Record{{Owner: owner}}}
		if got := AwaitsRollout(existing, observation, model.Desired{Owner: "fleet.it"},
			decide.Decision{State: model.StateForeign, Action: model.ActionAdopt}); got != want {
			t.Errorf("a HelmOpRelease for an existing Cluster waits with the release of %s: %t", owner, got)
		}
	}

	recreated := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	recreated.Spec.Rollout = assigned(addonsv1.ReleaseRolloutUpdated)
	recreated.Status.ClusterRecreatedAt = metav1.Now()
	if !AwaitsRollout(recreated, model.Observation{}, model.Desired{}, decide.Decision{State: model.StateForeign,
		Action: model.ActionAdopt}) {
		t.Error("a re-created Cluster does not wait for the rollout")
	}

	for pin, want := range map[string]bool{"1": false, "2": true, "0": true, "newest": true} {
		pinned := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		pinned.Spec.Rollout = assigned(addonsv1.ReleaseRolloutJoined)
		pinned.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: pin}
		if got := AwaitsRollout(pinned, model.Observation{}, model.Desired{}, decide.Decision{State: model.StateForeign,
			Action: model.ActionAdopt}); got != want {
			t.Errorf("a Cluster that is pinned to %q waits for the rollout: %t", pin, got)
		}
	}
}

// TestReleaseOfLostAwaitsRollout checks that a change of a release waits for the rollout if the HelmOpRelease replaces
// a lost one. Each case changes one thing about an outdated release that waits.
func TestReleaseOfLostAwaitsRollout(t *testing.T) {
	t.Parallel()
	type scene struct {
		release *addonsv1.HelmOpRelease
		record  *model.Record
		state   model.State
	}
	created := controllertest.Noon
	inState := func(state model.State) func(*scene) { return func(s *scene) { s.state = state } }
	assigned := func(reason addonsv1.ReleaseRolloutReason) func(*scene) {
		return func(s *scene) { s.release.Spec.Rollout.Reason = reason }
	}
	reached := func(reason addonsv1.ReleaseRolloutReason) func(*scene) {
		return func(s *scene) {
			s.release.Spec.Rollout.Reason = reason
			delete(s.release.Annotations, addonsv1.FirstAssignedAnnotation)
		}
	}
	written := func(at time.Time) func(*scene) { return func(s *scene) { s.record.WrittenAt = at } }
	annotated := func(key, value string) func(*scene) {
		return func(s *scene) { s.release.Annotations[key] = value }
	}
	for name, tc := range map[string]struct {
		change func(*scene)
		want   bool
	}{
		"outdated":                  {func(*scene) {}, true},
		"changed by hand":           {inState(model.StateUnmanaged), true},
		"a pin to another revision": {annotated(addonsv1.PinnedRevisionAnnotation, "2"), true},
		"up to date":                {inState(model.StateInSync), false},
		"an interrupted action":     {inState(model.StatePending), false},
		"failed":                    {inState(model.StateFailed), false},
		"rolled back":               {inState(model.StateRolledBack), false},
		"drifted":                   {inState(model.StateDrifted), false},
		"absent":                    {inState(model.StateAbsent), false},
		"of an existing Cluster":    {assigned(addonsv1.ReleaseRolloutUpdated), true},
		"the rollout reached it":    {reached(addonsv1.ReleaseRolloutUpdated), false},
		"returned":                  {reached(addonsv1.ReleaseRolloutReturned), false},
		"without a rollout":         {func(s *scene) { s.release.Spec.Rollout = nil }, false},
		"pinned to its revision":    {annotated(addonsv1.PinnedRevisionAnnotation, "1"), false},
		"up to date before":         {func(s *scene) { s.release.Status.Release = &addonsv1.ReleaseObservation{} }, false},
		"of this HelmOpRelease":     {func(s *scene) { s.record.UID = string(s.release.UID) }, false},
		"never of a HelmOpRelease":  {func(s *scene) { s.record.UID = "" }, false},
		"installed before a move":   {written(created.Add(time.Minute)), false},
		"installed at once":         {written(created), false},
		"installed at unknown time": {written(time.Time{}), false},
		"of an earlier version of HelmOp": {func(s *scene) {
			delete(s.release.Annotations, addonsv1.FirstAssignedAnnotation)
		}, false},
		"an invalid time": {annotated(addonsv1.FirstAssignedAnnotation, "noon"), false},
	} {
		release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		release.UID = "new"
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 1, Reason: addonsv1.ReleaseRolloutJoined}
		release.Annotations = map[string]string{addonsv1.FirstAssignedAnnotation: created.Format(time.RFC3339)}
		record := &model.Record{UID: "lost", WrittenAt: created.Add(-time.Minute)}
		s := &scene{release, record, model.StateOutOfSync}
		tc.change(s)
		// The newest record may lack the UID: it is the record of a change by an old helm command.
		observation := model.Observation{Records: []model.Record{{WrittenAt: created.Add(time.Hour)}, *record}}
		decision := decide.Decision{State: s.state, Action: model.ActionUpgrade}
		if got := AwaitsRollout(release, observation, model.Desired{Owner: "fleet.it"}, decision); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestNeedsPreconditions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		decision decide.Decision
		want     bool
		ofReturn bool
	}{
		"install":     {decide.Decision{Action: model.ActionInstall}, true, true},
		"upgrade":     {decide.Decision{Action: model.ActionUpgrade}, true, false},
		"return":      {decide.Decision{Action: model.ActionRollback, Reason: decide.ReasonReturn}, false, false},
		"remediation": {decide.Decision{Action: model.ActionRollback, Reason: decide.ReasonUnhealthy}, false, false},
		"interrupted": {decide.Decision{Action: model.ActionRecoverThenUpgrade, Recovery: decide.RecoverReplace}, false,
			false},
		"interrupted, outdated": {decide.Decision{Action: model.ActionRecoverThenUpgrade, Recovery: decide.RecoverFail}, true,
			false},
		"interrupted install": {decide.Decision{Action: model.ActionRecoverThenInstall, Recovery: decide.RecoverFail}, true,
			true},
		"test":      {decide.Decision{Action: model.ActionTest}, false, false},
		"drift":     {decide.Decision{Action: model.ActionCorrectDrift}, false, false},
		"uninstall": {decide.Decision{Action: model.ActionUninstall}, false, false},
	} {
		if got := NeedsPreconditions(tc.decision, false); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if got := NeedsPreconditions(tc.decision, true); got != tc.ofReturn {
			t.Errorf("%s, of a return: %v, want %v", name, got, tc.ofReturn)
		}
	}
}

// TestExemptFromMaintenance checks for each decision whether it is carried out outside of maintenance, for each
// combination of includes in the HelmOp.
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
		// failed is true if no Helm revision ever worked. acted is true if the release was changed after the
		// assignment. corrections is the number of corrections of drift after that.
		failed, acted bool
		corrections   int
		// want has the results without includes, with Installation, with Rollback, and with both.
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
		"change after a pin and corrections of drift": {decision: decided(model.ActionUpgrade), assigned: pinned,
			acted: true, corrections: 5},
		"pin with corrections of drift": {decision: decided(model.ActionUpgrade), assigned: pinned, corrections: 5,
			want: [4]bool{true, true, false, false}},
		"upgrade that was interrupted": {decision: decide.Decision{Action: model.ActionRecoverThenUpgrade,
			Reason: decide.ReasonInterrupted}, assigned: updated, want: [4]bool{true, true, true, true}},
		"change after an interrupted upgrade": {decision: decided(model.ActionRecoverThenUpgrade), assigned: updated},
		"change after an interrupted first installation": {decision: decided(model.ActionRecoverThenUpgrade),
			assigned: joined, failed: true, want: [4]bool{true, false, true, false}},
		"return after an interrupted upgrade": {decision: decided(model.ActionRecoverThenUpgrade), assigned: returned,
			want: [4]bool{true, true, false, false}},
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
			release, observation := controllertest.UpToDateRelease("r"), model.Observation{}
			release.Spec.Rollout, release.Status.History = tc.assigned, nil
			observation.Records = []model.Record{{Status: "failed"}}
			if !tc.failed {
				observation.Records = append(observation.Records, model.Record{Status: "superseded"})
			}
			if tc.acted {
				attempts.Remember(&release.Status, addonsv1.ReleaseAction{Action: attempts.VerbUpgrade, Succeeded: true, Time: at})
			}
			for range tc.corrections {
				attempts.Remember(&release.Status,
					addonsv1.ReleaseAction{Action: attempts.VerbCorrectDrift, Succeeded: true, Time: at})
			}
			for i, includes := range [][]addonsv1.MaintenanceScope{nil, {addonsv1.MaintenanceInstallation},
				{addonsv1.MaintenanceRollback}, {addonsv1.MaintenanceInstallation, addonsv1.MaintenanceRollback}} {
				limits := maintenance.PolicyOf(&addonsv1.Maintenance{Includes: includes}).For(nil)
				if got := IsExempt(limits, release, observation, tc.decision); got != tc.want[i] {
					t.Errorf("with %v: %v", includes, got)
				}
			}
		})
	}
}

// TestChangeAfterInterruptionAwaitsMaintenance checks that an interrupted action is continued outside of maintenance,
// but that a change of the desired state after the interruption waits. This change has never begun.
func TestChangeAfterInterruptionAwaitsMaintenance(t *testing.T) {
	t.Parallel()
	otherValues := func(r *model.Record) { r.ValuesDigest = "1" }
	limits := maintenance.PolicyOf(&addonsv1.Maintenance{
		Includes: []addonsv1.MaintenanceScope{addonsv1.MaintenanceInstallation},
	}).For(nil)
	good := helmtest.Record("deployed", 3, func(r *model.Record) { r.ArtifactDigest = "1" })
	for name, tc := range map[string]struct {
		records []model.Record
		reason  addonsv1.ReleaseRolloutReason
		want    bool
	}{
		"upgrade": {[]model.Record{helmtest.Record("pending-upgrade", 4), good}, addonsv1.ReleaseRolloutUpdated, true},
		"upgrade, other values": {[]model.Record{helmtest.Record("pending-upgrade", 4, otherValues), good},
			addonsv1.ReleaseRolloutUpdated, false},
		"upgrade, other values, return": {[]model.Record{helmtest.Record("pending-upgrade", 4, otherValues), good},
			addonsv1.ReleaseRolloutReturned, true},
		"installation": {[]model.Record{helmtest.Record("pending-install", 1)}, addonsv1.ReleaseRolloutJoined, true},
		"installation, other values": {[]model.Record{helmtest.Record("pending-install", 1, otherValues)},
			addonsv1.ReleaseRolloutJoined, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release, observation := controllertest.UpToDateRelease("r"), model.Observation{Records: tc.records}
			release.Spec.Rollout, release.Status.History = &addonsv1.ReleaseRollout{Reason: tc.reason}, nil
			decision := decide.Next(observation, helmtest.Desired(), model.Policy{}, model.Past{}, helmtest.Now)
			if got := IsExempt(limits, release, observation, decision); got != tc.want {
				t.Errorf("%v for %+v", got, decision)
			}
		})
	}
}
