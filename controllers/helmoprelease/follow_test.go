// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestNewRevisionClearsDrift(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	checked := metav1.NewTime(b.now)
	b.release.Status.Drift = &addonsv1.DriftStatus{
		Differing: 1, Objects: []addonsv1.DriftedObject{{Kind: "ConfigMap"}}, Fingerprint: "f", LastCheckedAt: checked,
	}
	report.SetCondition(b.release, addonsv1.DriftedCondition, report.True, addonsv1.DriftDetectedReason, "")
	b.deploy(nil)
	if got, want := *b.release.Status.Drift,
		(addonsv1.DriftStatus{LastCheckedAt: checked}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	drifted := conditions.Get(b.release, addonsv1.DriftedCondition)
	if drifted.Status != metav1Unknown || drifted.Reason != addonsv1.DriftCheckPendingReason {
		t.Errorf("Drifted is %v", drifted)
	}
	report.SetCondition(b.release, addonsv1.DriftedCondition, report.False, addonsv1.NoDriftReason, "")
	b.deploy(nil)
	if !conditions.IsFalse(b.release, addonsv1.DriftedCondition) {
		t.Error("that nothing differed stands until something is found")
	}
}
