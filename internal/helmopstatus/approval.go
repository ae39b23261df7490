// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"fmt"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxQuotedDigest is the maximum length of an annotation in a message.
const maxQuotedDigest = 64

// WaitsForApproval reports whether something waits for an approval. It returns the reason and the message for
// conditions.
func WaitsForApproval(p *Pass) (reason, message string, waits bool) {
	decision := &p.Approval
	switch {
	case !decision.Waits():
		return "", "", false
	case decision.Digest == "":
		return addonsv1.WaitingForApprovalReason, waitingApprovals(p) + ", but there is no digest to approve: " +
			"no release is rendered for any Cluster", true
	case decision.Refused != "":
		return addonsv1.ApprovalRefusedReason, fmt.Sprintf("the annotation %s approves the digest %q, but the present "+
			"digest of HelmOp revision %d is %s: the Clusters or the inputs of releases have changed, or the digest was "+
			"mistyped; %s; check the changes with kubectl helmop preview, and approve the present digest%s",
			addonsv1.RolloutApproveAnnotation, apiutil.Truncate(decision.Refused, maxQuotedDigest), decision.Revision,
			decision.Digest, waitingApprovals(p), approveCommands(p)), true
	default:
		return addonsv1.WaitingForApprovalReason, fmt.Sprintf("%s; check the changes with kubectl helmop preview, and "+
			"approve the digest %s%s", waitingApprovals(p), decision.Digest, approveCommands(p)), true
	}
}

// waitingApprovals returns a text that names what waits for an approval.
func waitingApprovals(p *Pass) string {
	decision := &p.Approval
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

// approveCommands returns the commands that give the missing approvals. The text is for the end of a message.
func approveCommands(p *Pass) string {
	helmOp, decision := p.HelmOp, &p.Approval
	return fmt.Sprintf("%s: kubectl -n %s annotate "+addonsv1.HelmOpResource+" %s --overwrite %s=%s",
		approveCommand(helmOp), helmOp.Namespace, helmOp.Name, addonsv1.RolloutApproveAnnotation,
		approval.Request(decision.Revision, decision.Digest))
}

// approveCommand returns the command of kubectl helmop that gives the missing approval, in parentheses.
func approveCommand(helmOp *addonsv1.HelmOp) string {
	return fmt.Sprintf(" (kubectl helmop approve %s -n %s)", helmOp.Name, helmOp.Namespace)
}

// withApproval returns the reason why a rollout waits, and adds the missing approval. The text has only one kubectl
// command, because the status is short.
func withApproval(p *Pass, waitingFor string) string {
	decision := &p.Approval
	if decision.Digest == "" || !decision.Waits() {
		return waitingFor
	}
	if decision.Unapproved {
		return waitingFor + approveCommands(p)
	}
	text := "the approval of changes in " + plural.Count(len(decision.Waiting), "Cluster", "Clusters")
	if waitingFor == "" {
		return text + approveCommands(p)
	}
	return text + approveCommand(p.HelmOp) + "; " + waitingFor
}

// ApprovedMessage returns the reason why no approval is missing.
func ApprovedMessage(p *Pass) string {
	decision := &p.Approval
	if revision := p.Revisions.Numbered(decision.Revision); revision == nil || revision.Status.Approval == nil {
		return fmt.Sprintf("HelmOp revision %d was rolled out before approvals were required", decision.Revision)
	}
	return fmt.Sprintf("the digest %s of HelmOp revision %d is approved", decision.Digest, decision.Revision)
}

// approvalStatus returns the approvals of a rollout; nil if approvals are not required.
func approvalStatus(p *Pass) *addonsv1.RolloutApproval {
	decision := &p.Approval
	if !decision.Required {
		return nil
	}
	status := &addonsv1.RolloutApproval{Revision: decision.Revision, Digest: decision.Digest,
		Approved: !decision.Waits(), Waiting: int32(len(decision.Waiting))}
	if revision := p.Revisions.Numbered(decision.Revision); revision != nil && revision.Status.Approval != nil {
		status.ApprovedAt = revision.Status.Approval.ApprovedAt
	}
	return status
}
