// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// SetAdoption sets the fields of the planned child about the adoption of a release of another owner or of a lost
// HelmOpRelease. The release of another owner counts only if the child may take ownership. isFirst is true if no HelmOp
// revision is known before that of the child: each release may then be the release of a lost HelmOpRelease, because the
// HelmOpRevisions may be lost, too.
func SetAdoption(planned *rollout.Child, child *addonsv1.HelmOpRelease, isFirst bool) {
	takes := releasespec.PolicyOf(&child.Spec).TakeOwnership
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	planned.Unobserved = child.Status.State == "" && (takes || isFirst)
	planned.AwaitsAdoption = apiutil.MustNotAdopt(child) &&
		ready != nil && ready.Reason == addonsv1.AdoptionPendingReason &&
		(takes || child.Status.State != string(model.StateForeign))
	if !takes {
		return
	}
	planned.AdoptionHeld = ready != nil && ready.Reason == addonsv1.AdoptionWouldChangeReason &&
		ready.ObservedGeneration == child.Generation
}
