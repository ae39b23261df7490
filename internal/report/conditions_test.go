// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
