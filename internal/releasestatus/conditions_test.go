// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasestatus

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestReady(t *testing.T) {
	t.Parallel()
	type gates map[string]metav1.Condition
	healthy := metav1.Condition{Status: report.True, Reason: addonsv1.HealthyReason}
	for name, tc := range map[string]struct {
		gates  gates
		test   *addonsv1.TestOptions
		status metav1.ConditionStatus
		reason string
	}{
		"released": {gates{}, nil, report.True, addonsv1.ReadyReason},
		"healthy":  {gates{addonsv1.HealthyCondition: healthy}, nil, report.True, addonsv1.ReadyReason},
		"progressing": {gates{addonsv1.HealthyCondition: {Status: metav1.ConditionUnknown,
			Reason: addonsv1.HealthProgressingReason}}, nil, report.False, addonsv1.ProgressingReason},
		"unhealthy": {gates{addonsv1.HealthyCondition: {Status: report.False, Reason: addonsv1.HealthTimeoutReason}},
			nil, report.False, addonsv1.HealthTimeoutReason},
		"tests pending": {gates{addonsv1.TestedCondition: {Status: metav1.ConditionUnknown,
			Reason: addonsv1.TestsPendingReason}},
			nil, report.False, addonsv1.ProgressingReason},
		"tests failed": {gates{addonsv1.HealthyCondition: healthy,
			addonsv1.TestedCondition: {Status: report.False, Reason: addonsv1.TestsFailedReason}}, nil, report.False,
			addonsv1.TestsFailedReason},
		"failures ignored": {gates{addonsv1.TestedCondition: {Status: report.False, Reason: addonsv1.TestsFailedReason}},
			&addonsv1.TestOptions{IgnoreFailures: ptr.To(true)}, report.True, addonsv1.ReadyReason},
		"drifted": {gates{addonsv1.DriftedCondition: {Status: report.True, Reason: addonsv1.DriftDetectedReason}},
			nil, report.True, addonsv1.ReadyReason},
	} {
		release := &addonsv1.HelmOpRelease{}
		release.Spec.Test = tc.test
		release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1, Status: "deployed"}
		for name, gate := range tc.gates {
			report.SetCondition(release, name, gate.Status, gate.Reason, "why")
		}
		Released(release)
		ready := conditions.Get(release, addonsv1.ReadyCondition)
		if ready == nil || ready.Status != tc.status || ready.Reason != tc.reason {
			t.Errorf("%s: %+v", name, ready)
		}
	}
}

// TestAdoptedRevisionIsNotTested has an adopted revision that needs no tests to be Ready.
func TestAdoptedRevisionIsNotTested(t *testing.T) {
	t.Parallel()
	for tested, want := range map[string]string{model.TestedAdopted: "", "": addonsv1.TestsPendingReason,
		model.TestedPassed: addonsv1.TestsSucceededReason, model.TestedFailed: addonsv1.TestsFailedReason} {
		release := &addonsv1.HelmOpRelease{}
		report.SetCondition(release, addonsv1.TestedCondition, report.False, addonsv1.TestsFailedReason, "of another one")
		tests(release, model.Record{Revision: 3, Tested: tested}, true)
		if got := conditions.GetReason(release, addonsv1.TestedCondition); got != want {
			t.Errorf("%q: the reason is %q, want %q", tested, got, want)
		}
	}
}

func TestHealthDoesNotMakeUnreleasedReady(t *testing.T) {
	t.Parallel()
	release := &addonsv1.HelmOpRelease{}
	NotReleased(release, addonsv1.RolledBackReason, "why")
	report.SetCondition(release, addonsv1.HealthyCondition, report.True, addonsv1.HealthyReason, "")
	Ready(release)
	if ready := conditions.Get(release, addonsv1.ReadyCondition); ready.Status != report.False ||
		ready.Reason != addonsv1.RolledBackReason {
		t.Errorf("%+v", ready)
	}
}

// TestUnreachableClusterKeepsFirstMessage checks that connections that fail with different errors cause one write.
func TestUnreachableClusterKeepsFirstMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := &addonsv1.HelmOpRelease{}
		reported := func(message string) string {
			report.Unreachable(release, message)
			ready, reachable := conditions.Get(release, addonsv1.ReadyCondition),
				conditions.Get(release, addonsv1.ClusterReachableCondition)
			if ready.Message != reachable.Message {
				t.Errorf("Ready has %q, ClusterReachable has %q", ready.Message, reachable.Message)
			}
			return ready.Message
		}
		if got := reported("connection lost"); got != "Connection lost" {
			t.Errorf("the first message is %q", got)
		}
		<-time.After(report.UnreachableMessagePeriod / 2)
		if got := reported("connection refused"); got != "Connection lost" {
			t.Errorf("the message within the period is %q", got)
		}
		<-time.After(report.UnreachableMessagePeriod)
		if got := reported("connection refused"); got != "Connection refused" {
			t.Errorf("the message after the period is %q", got)
		}
		Reachable(release)
		if got := reported("unknown host"); got != "Unknown host" {
			t.Errorf("the message after the cluster answered is %q", got)
		}
		now := metav1.Now()
		release.DeletionTimestamp = &now
		for range 2 {
			if got := reported("unknown host"); got != "Unknown host"+report.OrphanHint {
				t.Errorf("the message under deletion is %q", got)
			}
		}
	})
}

// TestWaitForSlotHasItsCause checks the condition Ready of releases that wait for a slot. A second pass must change
// nothing.
func TestWaitForSlotHasItsCause(t *testing.T) {
	t.Parallel()
	const wait = "waits for a slot: the concurrency limit of the manager is reached"
	failed := func(reason, message string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			r.Status.LastError = "no"
			NotReleased(r, reason, message)
		}
	}
	notReady := func(reason, message string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, reason, message) }
	}
	ready := func(r *addonsv1.HelmOpRelease) {
		report.SetCondition(r, addonsv1.ReadyCondition, report.True, addonsv1.ReadyReason, "it is")
	}
	changedSince := func(change func(*addonsv1.HelmOpRelease)) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			change(r)
			r.Generation++
		}
	}
	action := func(r *addonsv1.HelmOpRelease) { WaitingForSlot(r, decide.Decision{Message: "It failed."}) }
	again := func(r *addonsv1.HelmOpRelease) {
		WaitingForSlot(r, decide.Decision{Message: "It failed.", FromRevision: 2, Failures: 1})
	}
	for name, tc := range map[string]struct {
		before          func(*addonsv1.HelmOpRelease)
		wait            func(*addonsv1.HelmOpRelease)
		reason, message string
	}{
		"new":                {func(*addonsv1.HelmOpRelease) {}, action, addonsv1.UpdatingReason, "The release " + wait},
		"ready":              {ready, action, addonsv1.ReadyReason, "It is"},
		"ready, and changed": {changedSince(ready), action, addonsv1.UpdatingReason, "The release " + wait},
		"failed, and changed": {changedSince(failed(addonsv1.UpgradeFailedReason, "old")), action,
			addonsv1.UpdatingReason, "The release " + wait},
		"failed": {failed(addonsv1.UpgradeFailedReason, "the next attempt is at 12:00"), action,
			addonsv1.UpgradeFailedReason, "It failed; the next try " + wait + "; the last error: no"},
		"its artifact was fetched": {failed(addonsv1.FetchingArtifactReason, "it is being fetched"), action,
			addonsv1.UpdatingReason, "The release " + wait},
		"another action ended": {failed(addonsv1.ReleasePendingReason, "until 12:00"), action, addonsv1.UpdatingReason,
			"The release " + wait},
		"the Cluster answers again": {notReady(addonsv1.ClusterUnreachableReason, "no answer"), action,
			addonsv1.UpdatingReason, "The release " + wait},
		"it failed, and the Cluster answers again": {func(r *addonsv1.HelmOpRelease) {
			failed(addonsv1.UpgradeFailedReason, "at 12:00")(r)
			report.Unreachable(r, "no answer")
		}, again, addonsv1.UpgradeFailedReason, "It failed; the next try " + wait + "; the last error: no"},
		"an admitted deletion": {notReady(addonsv1.DeletingReason, "until maxUnavailable permits it"),
			UninstallWaitsForSlot, addonsv1.DeletingReason, "The uninstallation " + wait},
		"a failed uninstallation": {failed(addonsv1.UninstallFailedReason, "no"), UninstallWaitsForSlot,
			addonsv1.UninstallFailedReason, "The uninstallation " + wait + "; the last error: no"},
	} {
		release := &addonsv1.HelmOpRelease{}
		tc.before(release)
		for range 2 {
			tc.wait(release)
			if got := conditions.Get(release, addonsv1.ReadyCondition); got.Reason != tc.reason ||
				got.Message != tc.message {
				t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
			}
		}
	}
}
