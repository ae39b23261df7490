// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestAdoptionAwaitsRollout checks that a release of another owner is not changed before the rollout reaches its
// Cluster. Without a rollout, or when the rollout has reached the Cluster, it is; and a new release never waits.
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
			if got := awaitsRollout(release, decide.Decision{State: tc.state, Action: action}); got != tc.want {
				t.Errorf("%s, %s: %t, want %t", name, action, got, tc.want)
			}
		}
	}

	for pin, want := range map[string]bool{"1": false, "2": true, "0": true, "newest": true} {
		pinned := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		pinned.Spec.Rollout = assigned(addonsv1.ReleaseRolloutJoined)
		pinned.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: pin}
		if got := awaitsRollout(pinned, decide.Decision{State: model.StateForeign, Action: model.ActionAdopt}); got != want {
			t.Errorf("a Cluster that is pinned to %q waits for the rollout: %t", pin, got)
		}
	}

	// The Reconciler has no engine, so an action would fail.
	release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	release.Spec.Rollout = assigned(addonsv1.ReleaseRolloutJoined)
	p := &releasePass{releaseScope: &releaseScope{release: release}, decision: decide.Decision{
		State: model.StateForeign, Action: model.ActionAdopt, Reason: decide.ReasonAdopt,
	}}
	if end, err := (&Reconciler{}).carryOut(t.Context(), p); end != nil || err != nil {
		t.Errorf("%v, %v", end, err)
	}
	for _, name := range []string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition} {
		if reason := conditions.GetReason(release, name); reason != addonsv1.AdoptionPendingReason {
			t.Errorf("%s has the reason %s", name, reason)
		}
	}
}

// TestRefusedAdoption checks the reasons for a release of another owner that is left alone.
func TestRefusedAdoption(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		decide.ReasonConflict:    addonsv1.ReleaseConflictReason,
		decide.ReasonWouldChange: addonsv1.AdoptionWouldChangeReason,
	} {
		recorder := events.NewFakeRecorder(9)
		release := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
		p := &releasePass{releaseScope: &releaseScope{release: release}, decision: decide.Decision{
			State: model.StateForeign, Action: model.ActionRefuse, Reason: reason, Message: "why",
		}}
		for range 2 {
			if _, err := (&Reconciler{recorder: recorder}).carryOut(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if got := conditions.GetReason(release, addonsv1.ReadyCondition); got != want || len(recorder.Events) != 1 {
			t.Errorf("%s: %s and %d Events, want %s and one Event", reason, got, len(recorder.Events), want)
		}
		if p.requeueAfter != conflictRetry {
			t.Errorf("%s: the next check is after %s", reason, p.requeueAfter)
		}
	}
}
