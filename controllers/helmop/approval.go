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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

const (
	// verbApprove is the action of Events about approvals.
	verbApprove = "Approve"

	// maxQuotedDigest bounds how much of an annotation a message quotes.
	maxQuotedDigest = 64
)

// approvalOf returns what an approval needs to know about a HelmOp revision.
func approvalOf(revision *addonsv1.HelmOpRevision) approval.Revision {
	return approval.Revision{Good: revision.Status.Good, Approval: revision.Status.Approval}
}

// decideApproval decides what of the rollout waits for an approval, and sets it in the input of the plan.
func decideApproval(scope *helmOpScope, input *rollout.Input) {
	in := approval.Input{
		Required: approval.IsRequired(scope.helmOp),
		Request:  scope.helmOp.Annotations[addonsv1.RolloutApproveAnnotation],
		State:    input.State, Clusters: input.Clusters,
		Revisions: make(map[int64]approval.Revision, len(scope.revisions)),
	}
	for _, revision := range scope.revisions {
		in.Revisions[revision.Spec.Number] = approvalOf(revision)
	}
	scope.approval = approval.Decide(in)
	scope.approval.Apply(input)
}

// recordApproval writes what has just been approved into its HelmOp revision.
func (r *Reconciler) recordApproval(ctx context.Context, scope *helmOpScope) error {
	decision := &scope.approval
	if decision.Hashes == nil {
		return nil
	}
	revision := scope.revision(decision.Revision)
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

// reportApproval sets the condition Approved, and records Events when something begins to wait for an approval or an
// approval is refused.
func (r *Reconciler) reportApproval(scope *helmOpScope) {
	helmOp, decision := scope.helmOp, &scope.approval
	if !decision.Required {
		conditions.Delete(helmOp, addonsv1.ApprovedCondition)
		return
	}
	reason, message, waits := waitsForApproval(scope)
	if !waits {
		report.SetCondition(helmOp, addonsv1.ApprovedCondition, metav1.ConditionTrue, addonsv1.ApprovedReason,
			approvedMessage(scope))
		return
	}
	before := conditions.GetMessage(helmOp, addonsv1.ApprovedCondition)
	report.SetCondition(helmOp, addonsv1.ApprovedCondition, metav1.ConditionFalse, reason, message)
	if conditions.GetMessage(helmOp, addonsv1.ApprovedCondition) == before {
		return
	}
	known := &addonsv1.RolloutApproval{}
	if helmOp.Status.Rollout != nil && helmOp.Status.Rollout.Approval != nil {
		known = helmOp.Status.Rollout.Approval
	}
	switch isNew := known.Approved || known.Revision != decision.Revision || known.Digest != decision.Digest; {
	case reason == addonsv1.ApprovalRefusedReason:
		r.warn(helmOp, addonsv1.ApprovalRefusedEvent, verbApprove, message)
	case isNew && decision.Digest != "":
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.WaitingForApprovalEvent, verbApprove, message)
	}
}

// waitsForApproval reports whether something waits for an approval, with the reason and the message of conditions.
func waitsForApproval(scope *helmOpScope) (reason, message string, waits bool) {
	decision := &scope.approval
	switch {
	case !decision.Waits():
		return "", "", false
	case decision.Digest == "":
		return addonsv1.WaitingForApprovalReason, waitingApprovals(scope) + ", but there is no digest to approve: " +
			"no release is rendered for any Cluster", true
	case decision.Refused != "":
		return addonsv1.ApprovalRefusedReason, fmt.Sprintf("the annotation %s approves the digest %q, but the present "+
			"digest of HelmOp revision %d is %s: the Clusters or the inputs of releases have changed, or the digest was "+
			"mistyped; %s; check the changes with kubectl helmop preview, and approve the present digest%s",
			addonsv1.RolloutApproveAnnotation, apiutil.Truncate(decision.Refused, maxQuotedDigest), decision.Revision,
			decision.Digest, waitingApprovals(scope), approveCommands(scope)), true
	default:
		return addonsv1.WaitingForApprovalReason, fmt.Sprintf("%s; check the changes with kubectl helmop preview, and "+
			"approve the digest %s%s", waitingApprovals(scope), decision.Digest, approveCommands(scope)), true
	}
}

// waitingApprovals says what waits for an approval.
func waitingApprovals(scope *helmOpScope) string {
	decision := &scope.approval
	n := len(decision.Waiting)
	of := plural.Count(decision.Total, "Cluster", "Clusters")
	if decision.Unapproved {
		return fmt.Sprintf("HelmOp revision %d waits for an approval: it changes the releases in %d of %s",
			decision.Revision, n, of)
	}
	return fmt.Sprintf("%d of %s %s for an approval, because the inputs of %s changed after HelmOp revision %d was "+
		"approved: %s", n, of, plural.Word(n, "waits", "wait"), plural.Word(n, "the release", "the releases"),
		decision.Revision, plural.Few(decision.Waiting, maxNamedClusters))
}

// approveCommands returns, for the end of a message, the commands that approve what waits.
func approveCommands(scope *helmOpScope) string {
	helmOp, decision := scope.helmOp, &scope.approval
	return fmt.Sprintf("%s: kubectl -n %s annotate "+addonsv1.HelmOpResource+" %s --overwrite %s=%s",
		approveCommand(helmOp), helmOp.Namespace, helmOp.Name, addonsv1.RolloutApproveAnnotation,
		approval.Request(decision.Revision, decision.Digest))
}

// approveCommand returns the command of kubectl helmop that approves what waits, in parentheses.
func approveCommand(helmOp *addonsv1.HelmOp) string {
	return fmt.Sprintf(" (kubectl helmop approve %s -n %s)", helmOp.Name, helmOp.Namespace)
}

// withApproval returns what a rollout waits for, with the approval that it waits for. The text has only one command for
// kubectl, because the status is short.
func withApproval(scope *helmOpScope, waitingFor string) string {
	decision := &scope.approval
	if decision.Digest == "" || !decision.Waits() {
		return waitingFor
	}
	if decision.Unapproved {
		return waitingFor + approveCommands(scope)
	}
	text := "the approval of changes in " + plural.Count(len(decision.Waiting), "Cluster", "Clusters")
	if waitingFor == "" {
		return text + approveCommands(scope)
	}
	return text + approveCommand(scope.helmOp) + "; " + waitingFor
}

// approvedMessage says why nothing waits for an approval.
func approvedMessage(scope *helmOpScope) string {
	decision := &scope.approval
	if revision := scope.revision(decision.Revision); revision == nil || revision.Status.Approval == nil {
		return fmt.Sprintf("HelmOp revision %d was rolled out before approvals were required", decision.Revision)
	}
	return fmt.Sprintf("the digest %s of HelmOp revision %d is approved", decision.Digest, decision.Revision)
}

// approvalStatus returns what of a rollout is approved; nil if approvals are not required.
func approvalStatus(scope *helmOpScope) *addonsv1.RolloutApproval {
	decision := &scope.approval
	if !decision.Required {
		return nil
	}
	status := &addonsv1.RolloutApproval{Revision: decision.Revision, Digest: decision.Digest,
		Approved: !decision.Waits(), Waiting: int32(len(decision.Waiting))}
	if revision := scope.revision(decision.Revision); revision != nil && revision.Status.Approval != nil {
		status.ApprovedAt = revision.Status.Approval.ApprovedAt
	}
	return status
}
