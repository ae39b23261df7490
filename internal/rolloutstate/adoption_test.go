// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	"testing"

	"k8s.io/utils/ptr"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestSetAdoption checks what the plan learns of the adoption of a release from the status of its child.
func TestSetAdoption(t *testing.T) {
	t.Parallel()
	notReady := func(reason string) func(*addonsv1.HelmOpRelease) {
		return func(child *addonsv1.HelmOpRelease) {
			child.Status.State = string(model.StateForeign)
			report.SetNotReady(child, reason, "")
		}
	}
	for name, tc := range map[string]struct {
		change  func(*addonsv1.HelmOpRelease)
		want    rollout.Child
		isFirst bool
	}{
		"not observed":                {change: func(*addonsv1.HelmOpRelease) {}, want: rollout.Child{Unobserved: true}},
		"not observed, may not adopt": {change: func(child *addonsv1.HelmOpRelease) { child.Spec.Install = nil }},
		"not observed, first revision": {change: func(child *addonsv1.HelmOpRelease) { child.Spec.Install = nil },
			want: rollout.Child{Unobserved: true}, isFirst: true},
		"observed, first revision": {change: func(child *addonsv1.HelmOpRelease) {
			child.Spec.Install, child.Status.State = nil, string(model.StateAbsent)
		}, isFirst: true},
		"pending": {change: notReady(addonsv1.AdoptionPendingReason), want: rollout.Child{AwaitsAdoption: true}},
		"pending, created for an existing Cluster": {change: func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionPendingReason)(child)
			child.Spec.Rollout.Reason = addonsv1.ReleaseRolloutUpdated
		}, want: rollout.Child{AwaitsAdoption: true}},
		"pending, but the rollout has just reached it": {change: func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionPendingReason)(child)
			child.Spec.Rollout.Reason, child.Annotations = addonsv1.ReleaseRolloutUpdated, nil
		}},
		"pending, may not adopt any more": {change: func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionPendingReason)(child)
			child.Spec.Install = nil
		}},
		"of a lost HelmOpRelease": {change: func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionPendingReason)(child)
			child.Spec.Install, child.Status.State = nil, string(model.StateOutOfSync)
		}, want: rollout.Child{AwaitsAdoption: true}},
		"conflict": {change: notReady(addonsv1.ReleaseConflictReason)},
		"held":     {change: notReady(addonsv1.AdoptionWouldChangeReason), want: rollout.Child{AdoptionHeld: true}},
		"held with an older spec": {change: func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionWouldChangeReason)(child)
			child.Generation++
		}},
	} {
		child := &addonsv1.HelmOpRelease{}
		child.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: ptr.To(true)}
		child.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7, Reason: addonsv1.ReleaseRolloutJoined}
		child.Annotations = map[string]string{addonsv1.FirstAssignedAnnotation: "2026-03-04T05:06:07Z"}
		tc.change(child)
		got := rollout.Child{}
		if SetAdoption(&got, child, tc.isFirst); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
