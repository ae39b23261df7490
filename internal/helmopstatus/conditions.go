// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// rollingOutCondition returns the condition RollingOut of a HelmOp. It is Unknown while the Clusters or the artifact
// are not known, and while selected Clusters have no revision. A desired state that cannot be rendered has no revision
// either. The condition then describes the previous revision, and Ready has the cause.
func rollingOutCondition(p *Pass, s summary) metav1.Condition {
	if p.SelectorErr != nil {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: addonsv1.InvalidSelectorReason,
			Message: p.SelectorErr.Error()}
	}
	newest := p.Revisions.Newest()
	if p.Artifact != nil && newest == nil && s.counts.Selected == 0 {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: addonsv1.NotRollingOutReason,
			Message: "no Cluster is selected" + leftOut(p)}
	}
	if p.Artifact == nil || newest == nil {
		reason := conditions.GetReason(p.HelmOp, addonsv1.ResolvedCondition)
		if reason == "" || reason == addonsv1.ResolvedReason {
			reason = addonsv1.ProgressingReason
		}
		message := "there is no HelmOp revision to roll out yet"
		if newest != nil {
			message = "the source is not resolved"
		}
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message + leftOut(p)}
	}
	condition := metav1.Condition{Status: metav1.ConditionFalse, Reason: addonsv1.NotRollingOutReason}
	heldReason, heldMessage, held := isHeld(p)
	if isRollingOut(p, s) {
		condition.Status, condition.Reason = metav1.ConditionTrue, addonsv1.RollingOutReason
		switch progress := p.Plan.Progress; {
		case p.Strategy.Paused:
			condition.Reason = addonsv1.RolloutPausedReason
		case progress.InFlight == 0 && !progress.Opens.IsZero():
			condition.Reason = addonsv1.WaitingForMaintenanceReason
		case progress.Promote != "":
			condition.Reason = addonsv1.RolloutPausedReason
		}
		if reason, _, waits := WaitsForApproval(p); waits {
			condition.Reason = reason
		}
	}
	if held {
		condition.Reason, condition.Message = heldReason, heldMessage
	} else {
		condition.Message = fmt.Sprintf("HelmOp revision %d is assigned to %d of %s", newest.Spec.Number,
			s.assigned, plural.Count(s.servable(), "Cluster", "Clusters"))
		if needed := waitingFor(p); needed != "" {
			condition.Message += "; waiting for " + needed
		}
		condition.Message += pinnedClusters(s.pinned)
	}
	condition.Message += leftOut(p)
	return condition
}

// isRollingOut reports whether some Clusters still wait for the desired revision or are installing it. A rollout that
// its failure budget has paused is not finished. A rollout that was rolled back or aborted is finished when all its
// Clusters have the last known good revision again.
func isRollingOut(p *Pass, s summary) bool {
	if s.counts.Selected == 0 {
		return false
	}
	if s.assigned < s.servable() || p.Plan.Progress.InFlight > 0 {
		return true
	}
	switch rollout.Phase(p.Revisions.Newest().Status.Phase) {
	case rollout.PhaseComplete, rollout.PhaseRolledBack, rollout.PhaseAborted:
		return false
	default:
		return true
	}
}

// leftOut returns the Clusters in other namespaces that the HelmOp does not serve. The text is for the end of a
// message.
func leftOut(p *Pass) string {
	message := ""
	if n := p.Denied; n > 0 {
		message += fmt.Sprintf("; %s: ServiceAccount %s may not get %s; grant the right to get the Secret",
			plural.Count(n, "Cluster in another namespace is not selected", "Clusters in other namespaces are not selected"),
			p.HelmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName,
			plural.Word(n, "its kubeconfig", "their kubeconfigs"))
	}
	if n := p.UnknownAccess; n > 0 {
		message += fmt.Sprintf("; %s: the API server did not answer whether the HelmOp may access %s",
			plural.Count(n, "Cluster in another namespace is not selected yet",
				"Clusters in other namespaces are not selected yet"),
			plural.Word(n, "it", "them"))
	}
	return message
}

// isStalled reports whether the HelmOp stays in its state until a user acts. It is false for failed releases that have
// retries left, and for Clusters that are being updated. It is also false for a rollout that waits as its author
// specified: for the end of a pause, a promotion or an approval.
func isStalled(p *Pass, ready metav1.Condition, s summary) bool {
	if ready.Status != metav1.ConditionFalse || reasons.IsPassing(ready.Reason) ||
		p.Plan.Progress.InFlight > 0 {
		return false
	}
	switch ready.Reason {
	case addonsv1.WaitingForApprovalReason, addonsv1.ApprovalRefusedReason:
		return false
	case addonsv1.InvalidMaintenanceReason:
		// Clusters with other limits have a known time for their changes.
		return p.Plan.Progress.Opens.IsZero()
	case addonsv1.ReleasesFailedReason:
		return s.final == s.failed && s.counts.Waiting+s.counts.Unreachable+s.counts.Blocked == 0
	case addonsv1.RolloutRolledBackReason, addonsv1.RolloutAbortedReason:
		return s.assigned == s.servable()
	default:
		return true
	}
}

// isFailure reports whether a change to this Ready condition deserves a Warning Event.
func isFailure(ready metav1.Condition) bool {
	return ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason] &&
		ready.Reason != addonsv1.WaitingForClustersReason && ready.Reason != addonsv1.RolloutAbortedReason &&
		ready.Reason != addonsv1.WaitingForApprovalReason && ready.Reason != addonsv1.ApprovalRefusedReason
}

// ofClusters returns the beginning of a message: "1 of 3 Clusters is".
func ofClusters(n, all int32) string {
	return fmt.Sprintf("%d of %s %s", n, plural.Count(all, "Cluster", "Clusters"), plural.Word(n, "is", "are"))
}

// pinnedClusters returns how many Clusters a user has pinned to a HelmOp revision. The text is for the end of a
// message.
func pinnedClusters(n int32) string {
	if n == 0 {
		return ""
	}
	return "; " + plural.Count(n, "Cluster is", "Clusters are") + " pinned to a HelmOp revision"
}

// waitingClusters returns the reasons why Clusters cannot be updated. The text is for the end of a message.
func waitingClusters(s *summary) string {
	message := ""
	if n := s.counts.Waiting - s.awaited; n > 0 {
		message += fmt.Sprintf("; %s no initialized control plane", plural.Count(n, "Cluster has", "Clusters have"))
	}
	if n := s.awaited; n > 0 {
		message += fmt.Sprintf("; %s not exist yet: move or restore %s, or do what the condition Ready of %s says",
			plural.Count(n, "Cluster of a moved or restored HelmOpRelease does",
				"Clusters of moved or restored HelmOpReleases do"),
			plural.Word(n, "it", "them"), plural.Word(n, "the HelmOpRelease", "the HelmOpReleases"))
	}
	if n := s.counts.Unreachable; n > 0 {
		message += fmt.Sprintf("; %s unreachable", plural.Count(n, "Cluster is", "Clusters are"))
	}
	return message
}

// silentReleases returns how many new releases have not reported anything yet. The text is for the end of a message.
func silentReleases(n int32) string {
	if n == 0 {
		return ""
	}
	return "; " + plural.Count(n, "new release waits", "new releases wait") + " for a slot or the first check"
}

// failedCondition returns the reason and the message of Ready if releases failed. If they only wait for the
// confirmation of a user, the message is that of the first of them: it has the command, which must be complete.
func failedCondition(s summary) (reason, message string) {
	first := s.failures[0]
	if !slices.ContainsFunc(s.failures, func(failure addonsv1.ClusterFailure) bool {
		return failure.Reason != addonsv1.ConfirmationRequiredReason
	}) {
		return addonsv1.ConfirmationRequiredReason, first.Message
	}
	return addonsv1.ReleasesFailedReason, fmt.Sprintf("%d of %s failed, see status.failures; %s: %s: %s",
		max(s.counts.Failed, int32(len(s.failures))), plural.Count(s.counts.Selected+s.ending, "Cluster", "Clusters"),
		first.Cluster, first.Reason, first.Message)
}

// readyCondition returns the condition Ready of a HelmOp. Problems that a user can solve have priority over transient
// problems.
func readyCondition(p *Pass, s summary) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	c := s.counts
	heldReason, heldMessage, held := isHeld(p)
	approvalReason, approvalMessage, waits := WaitsForApproval(p)
	verified := conditions.Get(p.HelmOp, addonsv1.VerifiedCondition)
	switch resolved := conditions.Get(p.HelmOp, addonsv1.ResolvedCondition); {
	case p.SelectorErr != nil:
		return no(addonsv1.InvalidSelectorReason, p.SelectorErr.Error())
	case p.ProgramErr != nil:
		return no(failures.Of(p.ProgramErr, failures.Planning).Reason, p.ProgramErr.Error())
	case p.DependencyErr != nil:
		return no(p.DependencyErr.Reason, p.DependencyErr.Message)
	case p.InvalidMaintenance != "":
		return no(addonsv1.InvalidMaintenanceReason, p.InvalidMaintenance)
	case p.Artifact == nil && resolved != nil && resolved.Status == metav1.ConditionFalse:
		return no(resolved.Reason, resolved.Message)
	case p.Artifact == nil:
		return no(addonsv1.ProgressingReason, "the source is not resolved yet")
	case verified != nil && verified.Status != metav1.ConditionTrue:
		return no(verified.Reason, verified.Message)
	case held:
		return no(heldReason, heldMessage)
	case p.Deletions.Held:
		return no(addonsv1.ConfirmationRequiredReason, HeldDeletions(p))
	case waits:
		return no(approvalReason, approvalMessage)
	case len(s.failures) > 0:
		return no(failedCondition(s))
	case p.AwaitsRevisions:
		return no(addonsv1.ProgressingReason, "the HelmOp was moved or restored, and no HelmOp revision has its spec and "+
			"its artifact; HelmOp waits three minutes, and up to an hour while a Cluster in the namespace is paused, because "+
			"clusterctl move may create this HelmOp revision; then HelmOp creates it")
	case s.otherShard > 0:
		return no(addonsv1.OtherShardReason,
			fmt.Sprintf("%s of another shard; %s",
				plural.Count(s.otherShard, "release is in a Cluster", "releases are in Clusters"), s.whyOtherShard))
	case c.Waiting+c.Unreachable > 0 && c.UpToDate+c.Waiting+c.Unreachable+c.Paused+c.Pinned == c.Selected:
		return no(addonsv1.WaitingForClustersReason, fmt.Sprintf(
			"%s up to date%s", ofClusters(c.UpToDate, c.Selected), waitingClusters(&s)))
	case c.Blocked > 0:
		reason, message := blockedCondition(p, s)
		return no(reason, message+silentReleases(s.silent))
	case c.Deferred > 0 && c.UpToDate+c.Paused+c.Pinned+c.Deferred == c.Selected:
		return no(deferredCondition(p, s))
	case c.UpToDate+c.Paused+c.Pinned < c.Selected:
		return no(addonsv1.ProgressingReason, ofClusters(c.UpToDate, c.Selected)+" up to date"+silentReleases(s.silent))
	case s.ending > 0:
		return no(addonsv1.ProgressingReason, endingMessage(p, s))
	case c.Selected == 0:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.NoClustersSelectedReason,
			Message: "spec.clusterSelector selects no Cluster: check the labels of the Clusters"}
	default:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.ReadyReason,
			Message: plural.Count(c.UpToDate, "Cluster is", "Clusters are") + " up to date" + pinnedClusters(c.Pinned)}
	}
}
