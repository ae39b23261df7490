// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// SetAdoption sets the fields of the planned child about the adoption of a release of another owner. It does nothing if
// the child may not take ownership.
func SetAdoption(planned *rollout.Child, child *addonsv1.HelmOpRelease) {
	if !releasespec.PolicyOf(&child.Spec).TakeOwnership {
		return
	}
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	planned.Unobserved = child.Status.State == ""
	planned.AwaitsAdoption = ready != nil && ready.Reason == addonsv1.AdoptionPendingReason
	planned.AdoptionHeld = ready != nil && ready.Reason == addonsv1.AdoptionWouldChangeReason &&
		ready.ObservedGeneration == child.Generation
}
