// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// verbApprove is the action of Events about approvals.
const verbApprove = "Approve"

// decideApproval decides which parts of the rollout wait for an approval, and sets them in the input of the plan.
func decideApproval(scope *helmOpScope, input *rollout.Input) {
	in := approval.Input{
		Required: approval.IsRequired(scope.helmOp),
		Request:  scope.helmOp.Annotations[addonsv1.RolloutApproveAnnotation],
		State:    input.State, Clusters: input.Clusters,
		Revisions: make(map[int64]approval.Revision, len(scope.revisions)),
	}
	for _, revision := range scope.revisions {
		in.Revisions[revision.Spec.Number] = approval.RevisionOf(revision)
	}
	scope.approval = approval.Decide(in)
	scope.approval.Apply(input)
}

// recordApproval writes a new approval into its HelmOp revision.
func (r *Reconciler) recordApproval(ctx context.Context, scope *helmOpScope) error {
	decision := &scope.approval
	if decision.Hashes == nil {
		return nil
	}
	revision := scope.revisions.Numbered(decision.Revision)
	status := revision.Status
	status.Approval = &addonsv1.RevisionApproval{Digest: decision.Digest, ApprovedAt: metav1.NewTime(r.now()),
		Releases: decision.Hashes}
	if err := r.writeRevision(ctx, revision, status); err != nil {
		return err
	}
	r.event(scope.helmOp, corev1.EventTypeNormal, addonsv1.RolloutApprovedEvent, verbApprove,
		fmt.Sprintf("The digest %s of HelmOp revision %d was approved by the annotation %s", decision.Digest,
			decision.Revision, addonsv1.RolloutApproveAnnotation))
	return nil
}

// reportApproval sets the condition Approved. It records an Event when the rollout begins to wait for an approval, and
// when an approval is refused.
func (r *Reconciler) reportApproval(scope *helmOpScope) {
	helmOp, decision := scope.helmOp, &scope.approval
	if !decision.Required {
		conditions.Delete(helmOp, addonsv1.ApprovedCondition)
		return
	}
	known := scope.overview()
	reason, message, waits := helmopstatus.WaitsForApproval(known)
	if !waits {
		report.SetCondition(helmOp, addonsv1.ApprovedCondition, metav1.ConditionTrue, addonsv1.ApprovedReason,
			helmopstatus.ApprovedMessage(known))
		return
	}
	before := conditions.GetMessage(helmOp, addonsv1.ApprovedCondition)
	report.SetCondition(helmOp, addonsv1.ApprovedCondition, metav1.ConditionFalse, reason, message)
	if conditions.GetMessage(helmOp, addonsv1.ApprovedCondition) == before {
		return
	}
	reported := &addonsv1.RolloutApproval{}
	if helmOp.Status.Rollout != nil && helmOp.Status.Rollout.Approval != nil {
		reported = helmOp.Status.Rollout.Approval
	}
	switch isNew := reported.Approved || reported.Revision != decision.Revision || reported.Digest != decision.Digest; {
	case reason == addonsv1.ApprovalRefusedReason:
		r.warn(helmOp, addonsv1.ApprovalRefusedEvent, verbApprove, message)
	case isNew && decision.Digest != "":
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.WaitingForApprovalEvent, verbApprove, message)
	}
}
