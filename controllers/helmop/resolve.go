// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
)

// resolve sets the artifacts of the references of the HelmOp. If a registry fails, it uses the last known artifacts.
func (r *Reconciler) resolve(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	input := resolution.Input{Newest: scope.revisions.Newest(),
		Releases: func() ([]*addonsv1.HelmOpRelease, error) { return r.children(ctx, helmOp) }}
	if scope.variants, scope.variantsErr = render.NewVariants(&helmOp.Spec); scope.variantsErr == nil {
		input.Others, input.IsComplete = scope.variants.References(), true
	}
	outcome, err := r.resolver.Resolve(ctx, helmOp, input)
	if err != nil {
		return err
	}
	scope.resolution, scope.artifact = *outcome, outcome.Artifact
	scope.retryWithin(outcome.RequeueAfter)
	for i, change := range outcome.Changes {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.ArtifactResolvedEvent, report.ActionOf("Resolve", i), change)
	}
	isNewlyVerified, hasNewlyFailed := outcome.WriteTo(helmOp)
	if isNewlyVerified {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.VerifiedReason, "Verify",
			conditions.GetMessage(helmOp, addonsv1.VerifiedCondition))
	}
	if hasNewlyFailed {
		r.warn(helmOp, conditions.GetReason(helmOp, addonsv1.ResolvedCondition), "Resolve",
			conditions.GetMessage(helmOp, addonsv1.ResolvedCondition))
	}
	return nil
}
