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
		change func(*addonsv1.HelmOpRelease)
		want   rollout.Child
	}{
		"not observed": {func(*addonsv1.HelmOpRelease) {}, rollout.Child{Unobserved: true}},
		"not observed, may not adopt": {func(child *addonsv1.HelmOpRelease) { child.Spec.Install = nil },
			rollout.Child{}},
		"not observed, first revision": {func(child *addonsv1.HelmOpRelease) {
			child.Spec.Install, child.Spec.Rollout = nil, &addonsv1.ReleaseRollout{Revision: 1}
		}, rollout.Child{Unobserved: true}},
		"observed, first revision": {func(child *addonsv1.HelmOpRelease) {
			child.Spec.Install, child.Spec.Rollout = nil, &addonsv1.ReleaseRollout{Revision: 1}
			child.Status.State = string(model.StateAbsent)
		}, rollout.Child{}},
		"pending": {notReady(addonsv1.AdoptionPendingReason), rollout.Child{AwaitsAdoption: true}},
		"pending, may not adopt any more": {func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionPendingReason)(child)
			child.Spec.Install = nil
		}, rollout.Child{}},
		"of a lost HelmOpRelease": {func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionPendingReason)(child)
			child.Spec.Install, child.Status.State = nil, string(model.StateOutOfSync)
		}, rollout.Child{AwaitsAdoption: true}},
		"conflict": {notReady(addonsv1.ReleaseConflictReason), rollout.Child{}},
		"held":     {notReady(addonsv1.AdoptionWouldChangeReason), rollout.Child{AdoptionHeld: true}},
		"held with an older spec": {func(child *addonsv1.HelmOpRelease) {
			notReady(addonsv1.AdoptionWouldChangeReason)(child)
			child.Generation++
		}, rollout.Child{}},
	} {
		child := &addonsv1.HelmOpRelease{}
		child.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: ptr.To(true)}
		tc.change(child)
		got := rollout.Child{}
		if SetAdoption(&got, child); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
