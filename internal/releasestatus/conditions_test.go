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
