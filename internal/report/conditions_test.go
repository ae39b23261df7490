// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestSetConditionReportsChanges checks that SetCondition reports a change of the status or the reason. Callers record
// an Event then: one too few hides a failure, one in each pass floods the management cluster.
func TestSetConditionReportsChanges(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{}
	for _, step := range []struct {
		status          metav1.ConditionStatus
		reason, message string
		changed         bool
	}{
		{metav1.ConditionTrue, addonsv1.ResolvedReason, "1", true},
		{metav1.ConditionTrue, addonsv1.ResolvedReason, "1", false},
		{metav1.ConditionTrue, addonsv1.ResolvedReason, "2", false},
		{metav1.ConditionFalse, addonsv1.RegistryUnreachableReason, "3", true},
		{metav1.ConditionFalse, addonsv1.RegistryUnreachableReason, "4", false},
		{metav1.ConditionFalse, addonsv1.ArtifactNotFoundReason, "4", true},
		{metav1.ConditionTrue, addonsv1.ResolvedReason, "1", true},
	} {
		got := SetCondition(helmOp, addonsv1.ResolvedCondition, step.status, step.reason, step.message)
		if got != step.changed {
			t.Errorf("%s %s %q: want changed %t, got %t", step.status, step.reason, step.message, step.changed, got)
		}
	}
}

// TestNotConnecting checks that a release has no condition ClusterReachable while HelmOp does not connect to the
// Cluster. Only a release under deletion in an unreachable Cluster keeps the condition, with its time.
func TestNotConnecting(t *testing.T) {
	t.Parallel()
	reachable := func(r *addonsv1.HelmOpRelease) {
		SetCondition(r, addonsv1.ClusterReachableCondition, True, addonsv1.ClusterReachableReason, "")
	}
	unreachable := func(r *addonsv1.HelmOpRelease) { Unreachable(r, "no answer") }
	for name, tc := range map[string]struct {
		before   func(*addonsv1.HelmOpRelease)
		deleting bool
		kept     bool
	}{
		"never connected":             {before: func(*addonsv1.HelmOpRelease) {}},
		"reachable":                   {before: reachable},
		"unreachable":                 {before: unreachable},
		"reachable, under deletion":   {before: reachable, deleting: true},
		"unreachable, under deletion": {before: unreachable, deleting: true, kept: true},
	} {
		release := &addonsv1.HelmOpRelease{}
		if tc.deleting {
			release.DeletionTimestamp = new(metav1.Now())
		}
		tc.before(release)
		if !NotConnecting(release, addonsv1.OtherShardReason, "of shard b") {
			t.Errorf("%s: no change", name)
		}
		if NotConnecting(release, addonsv1.OtherShardReason, "of shard b") {
			t.Errorf("%s: a change without a change", name)
		}
		kept := conditions.GetReason(release, addonsv1.ClusterReachableCondition) == addonsv1.ClusterUnreachableReason
		if kept != tc.kept || kept != conditions.Has(release, addonsv1.ClusterReachableCondition) ||
			conditions.GetReason(release, addonsv1.ReadyCondition) != addonsv1.OtherShardReason {
			t.Errorf("%s: %+v", name, release.Status.Conditions)
		}
	}
}

// TestStyleOfMessages checks the style of the messages of conditions.
func TestStyleOfMessages(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"":                                  "",
		"no Cluster is selected":            "No Cluster is selected",
		"no":                                "no",
		"The release is up to date.":        "The release is up to date",
		"the tests failed. Correct them.":   "The tests failed. Correct them.",
		"unhealthy: a. Confirm: kubectl x":  "unhealthy: a. Confirm: kubectl x",
		"still updating ...":                "Still updating ...",
		"prod-1: Unreachable":               "prod-1: Unreachable",
		"north: Unreachable":                "north: Unreachable",
		"spec.values is not valid":          "spec.values is not valid",
		"helmops.addons is not served":      "helmops.addons is not served",
		"clusterctl move moved Cluster one": "clusterctl move moved Cluster one",
		"1 of 3 Clusters is up to date":     "1 of 3 Clusters is up to date",
		"network-policy objects are absent": "Network-policy objects are absent",
	} {
		release := &addonsv1.HelmOpRelease{}
		for range 2 {
			SetCondition(release, addonsv1.ReadyCondition, True, addonsv1.ReadyReason, message)
			got := conditions.GetMessage(release, addonsv1.ReadyCondition)
			if got != want {
				t.Errorf("the message of %q is %q, want %q", message, got, want)
			}
			message = got
		}
	}
}

func TestDeletingHasTheCauseOfReady(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		change          func(*addonsv1.HelmOpRelease)
		reason, message string
	}{
		"not under deletion": {change: func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = nil }},
		"just deleted": {
			change: func(r *addonsv1.HelmOpRelease) { SetNotReady(r, addonsv1.UpgradeFailedReason, "old"); r.Generation++ },
			reason: addonsv1.DeletingReason,
		},
		"waits": {
			change: func(r *addonsv1.HelmOpRelease) { SetNotReady(r, addonsv1.UninstallFailedReason, "no hook") },
			reason: addonsv1.UninstallFailedReason, message: "No hook",
		},
		"paused": {
			change: func(r *addonsv1.HelmOpRelease) {
				SetNotReady(r, addonsv1.DeletingReason, "before")
				SetPaused(r, true, "the Cluster is paused")
			},
			reason: addonsv1.PausedReason, message: "The Cluster is paused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Generation: 2, DeletionTimestamp: &now}}
			tc.change(release)
			Deleting(release)
			got := conditions.Get(release, addonsv1.DeletingCondition)
			switch {
			case tc.reason == "" && got != nil:
				t.Errorf("there is a condition: %v", got)
			case tc.reason != "" && (got == nil || got.Status != True || got.Reason != tc.reason || got.Message != tc.message):
				t.Errorf("got %v, want %s: %s", got, tc.reason, tc.message)
			}
		})
	}
}

func TestOutdatedConditions(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		generation int64
		change     func(*addonsv1.HelmOpRelease)
		ready      string
		stalled    bool
	}{
		"current":          {1, func(*addonsv1.HelmOpRelease) {}, addonsv1.ReadyReason, true},
		"the spec changed": {2, func(*addonsv1.HelmOpRelease) {}, addonsv1.ProgressingReason, false},
		"deleted":          {2, func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }, addonsv1.DeletingReason, false},
		"paused":           {2, func(r *addonsv1.HelmOpRelease) { SetPaused(r, true, "") }, addonsv1.ReadyReason, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			SetCondition(release, addonsv1.ReadyCondition, True, addonsv1.ReadyReason, "")
			SetCondition(release, addonsv1.StalledCondition, True, addonsv1.RetriesExhaustedReason, "")
			release.Generation = tc.generation
			tc.change(release)
			Outdated(release)
			if got := conditions.GetReason(release, addonsv1.ReadyCondition); got != tc.ready {
				t.Errorf("Ready has the reason %s, want %s", got, tc.ready)
			}
			if got := conditions.IsTrue(release, addonsv1.StalledCondition); got != tc.stalled {
				t.Errorf("Stalled is %t, want %t", got, tc.stalled)
			}
		})
	}
}

// TestKeepTimes checks that only a condition that equals the stored one gets the stored time.
func TestKeepTimes(t *testing.T) {
	t.Parallel()
	before, now := metav1.NewTime(time.Unix(1_800_000_000, 0)), metav1.NewTime(time.Unix(1_800_000_001, 0))
	stored := []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: before},
		{Type: "B", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: before},
	}
	current := []metav1.Condition{
		{Type: "C", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: now},
		{Type: "B", Status: metav1.ConditionTrue, Reason: "R", Message: "changed", LastTransitionTime: now},
		{Type: "A", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: now},
	}
	KeepTimes(stored, current)
	for i, want := range []metav1.Time{now, now, before} {
		if got := current[i].LastTransitionTime; got != want {
			t.Errorf("condition %s: %s, want %s", current[i].Type, got, want)
		}
	}
}
