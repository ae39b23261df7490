// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// rollingOutCondition is the condition RollingOut of a HelmOp. It is Unknown while the Clusters or the artifact are not
// known, and while there is no revision for selected Clusters. A desired state that cannot be rendered has no revision
// either: the condition is then about the revision before, and Ready has the cause.
func rollingOutCondition(scope *helmOpScope, s fleetSummary) metav1.Condition {
	if scope.selectorErr != nil {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: addonsv1.InvalidSelectorReason,
			Message: scope.selectorErr.Error()}
	}
	newest := scope.newestRevision()
	if scope.artifact != nil && newest == nil && s.counts.Selected == 0 {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: addonsv1.NotRollingOutReason,
			Message: "no Cluster is selected" + leftOut(scope)}
	}
	if scope.artifact == nil || newest == nil {
		reason := conditions.GetReason(scope.helmOp, addonsv1.ResolvedCondition)
		if reason == "" || reason == addonsv1.ResolvedReason {
			reason = addonsv1.ProgressingReason
		}
		message := "there is no HelmOp revision to roll out yet"
		if newest != nil {
			message = "the source is not resolved"
		}
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message + leftOut(scope)}
	}
	condition := metav1.Condition{Status: metav1.ConditionFalse, Reason: addonsv1.NotRollingOutReason}
	heldReason, heldMessage, held := isHeld(scope)
	if isRollingOut(scope, s) {
		condition.Status, condition.Reason = metav1.ConditionTrue, addonsv1.RollingOutReason
		switch progress := scope.plan.Progress; {
		case scope.strategy.Paused:
			condition.Reason = addonsv1.RolloutPausedReason
		case progress.InFlight == 0 && !progress.Opens.IsZero():
			condition.Reason = addonsv1.WaitingForMaintenanceReason
		case progress.Promote != "":
			condition.Reason = addonsv1.RolloutPausedReason
		}
		if reason, _, waits := waitsForApproval(scope); waits {
			condition.Reason = reason
		}
	}
	if held {
		condition.Reason, condition.Message = heldReason, heldMessage
	} else {
		condition.Message = fmt.Sprintf("HelmOp revision %d is assigned to %d of %s", newest.Spec.Number,
			s.assigned, plural.Count(s.servable(), "Cluster", "Clusters"))
		if needed := waitingFor(scope); needed != "" {
			condition.Message += "; waiting for " + needed
		}
		condition.Message += pinnedClusters(s.pinned)
	}
	condition.Message += leftOut(scope)
	return condition
}

// isRollingOut reports whether Clusters still wait for the desired revision, or have not finished to install it. A
// rollout that its failure budget paused is not over; one that was rolled back or aborted is over as soon as the
// Clusters have returned to the last known good revision.
func isRollingOut(scope *helmOpScope, s fleetSummary) bool {
	if s.counts.Selected == 0 {
		return false
	}
	if s.assigned < s.servable() || scope.plan.Progress.InFlight > 0 {
		return true
	}
	switch rollout.Phase(scope.newestRevision().Status.Phase) {
	case rollout.PhaseComplete, rollout.PhaseRolledBack, rollout.PhaseAborted:
		return false
	default:
		return true
	}
}

// leftOut names, for the end of a message, the Clusters of other namespaces that the HelmOp does not serve.
func leftOut(scope *helmOpScope) string {
	message := ""
	if n := scope.denied; n > 0 {
		message += fmt.Sprintf("; %s: ServiceAccount %s may not get %s; grant the right to get the Secret",
			plural.Count(n, "Cluster in another namespace is not selected", "Clusters in other namespaces are not selected"),
			scope.helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName,
			plural.Word(n, "its kubeconfig", "their kubeconfigs"))
	}
	if n := scope.unknownAccess; n > 0 {
		message += fmt.Sprintf("; %s: the API server did not answer whether the HelmOp may access %s",
			plural.Count(n, "Cluster in another namespace is not selected yet",
				"Clusters in other namespaces are not selected yet"),
			plural.Word(n, "it", "them"))
	}
	return message
}

// passingReasons are reasons of a Ready condition that is False, besides [apiutil.ProgressReasons], that pass without a
// change by a user.
var passingReasons = map[string]bool{
	addonsv1.WaitingForClustersReason:   true,
	addonsv1.RegistryUnreachableReason:  true,
	addonsv1.RegistryRateLimitedReason:  true,
	addonsv1.RegistryErrorReason:        true,
	addonsv1.TrustRootUnavailableReason: true,
	addonsv1.VerificationErrorReason:    true,
}

// isStalled reports whether nothing changes any more until a user does something. Releases that failed and are retried
// are not stalled, nor are Clusters that are being updated. A rollout that waits because its author said so, by a
// pause, a promotion or an approval, is not stalled either.
func isStalled(scope *helmOpScope, ready metav1.Condition, s fleetSummary) bool {
	if ready.Status != metav1.ConditionFalse || apiutil.ProgressReasons[ready.Reason] || passingReasons[ready.Reason] ||
		scope.plan.Progress.InFlight > 0 {
		return false
	}
	switch ready.Reason {
	case addonsv1.WaitingForApprovalReason, addonsv1.ApprovalRefusedReason:
		return false
	case addonsv1.InvalidMaintenanceReason:
		// Clusters with other limits may be changed at a known time.
		return scope.plan.Progress.Opens.IsZero()
	case addonsv1.ReleasesFailedReason:
		return s.final == s.failed && s.counts.Waiting+s.counts.Unreachable+s.counts.Blocked == 0
	case addonsv1.RolloutRolledBackReason, addonsv1.RolloutAbortedReason:
		return s.assigned == s.servable()
	default:
		return true
	}
}

// isFailure reports whether a change to this Ready condition is worth a Warning Event.
func isFailure(ready metav1.Condition) bool {
	return ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason] &&
		ready.Reason != addonsv1.WaitingForClustersReason && ready.Reason != addonsv1.RolloutAbortedReason &&
		ready.Reason != addonsv1.WaitingForApprovalReason && ready.Reason != addonsv1.ApprovalRefusedReason
}

// ofClusters begins a message: "1 of 3 Clusters is".
func ofClusters(n, all int32) string {
	return fmt.Sprintf("%d of %s %s", n, plural.Count(all, "Cluster", "Clusters"), plural.Word(n, "is", "are"))
}

// pinnedClusters says, for the end of a message, how many Clusters a user has pinned to a HelmOp revision.
func pinnedClusters(n int32) string {
	if n == 0 {
		return ""
	}
	return "; " + plural.Count(n, "Cluster is", "Clusters are") + " pinned to a HelmOp revision"
}

// waitingClusters names, for the end of a message, why Clusters cannot be updated.
func waitingClusters(c *addonsv1.ClusterCounts) string {
	message := ""
	if n := c.Waiting; n > 0 {
		message += fmt.Sprintf("; %s no initialized control plane", plural.Count(n, "Cluster has", "Clusters have"))
	}
	if n := c.Unreachable; n > 0 {
		message += fmt.Sprintf("; %s unreachable", plural.Count(n, "Cluster is", "Clusters are"))
	}
	return message
}

// readyCondition is the condition Ready of a HelmOp. A problem that a user can solve comes before one that passes by
// itself.
func readyCondition(scope *helmOpScope, s fleetSummary) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	c := s.counts
	heldReason, heldMessage, held := isHeld(scope)
	approvalReason, approvalMessage, waits := waitsForApproval(scope)
	verified := conditions.Get(scope.helmOp, addonsv1.VerifiedCondition)
	switch resolved := conditions.Get(scope.helmOp, addonsv1.ResolvedCondition); {
	case scope.selectorErr != nil:
		return no(addonsv1.InvalidSelectorReason, scope.selectorErr.Error())
	case scope.programErr != nil:
		return no(reasons.ForRendering(scope.programErr), scope.programErr.Error())
	case scope.dependencyErr != nil:
		return scope.dependencyErr.condition()
	case scope.invalidMaintenance != "":
		return no(addonsv1.InvalidMaintenanceReason, scope.invalidMaintenance)
	case scope.artifact == nil && resolved != nil && resolved.Status == metav1.ConditionFalse:
		return no(resolved.Reason, resolved.Message)
	case scope.artifact == nil:
		return no(addonsv1.ProgressingReason, "the source is not resolved yet")
	case verified != nil && verified.Status != metav1.ConditionTrue:
		return no(verified.Reason, verified.Message)
	case held:
		return no(heldReason, heldMessage)
	case scope.deletions.Held:
		return no(addonsv1.ConfirmationRequiredReason, heldDeletions(scope))
	case waits:
		return no(approvalReason, approvalMessage)
	case len(s.failures) > 0:
		first := s.failures[0]
		return no(addonsv1.ReleasesFailedReason, fmt.Sprintf("%d of %s failed, see status.failures; %s: %s: %s",
			max(c.Failed, int32(len(s.failures))), plural.Count(c.Selected+s.ending, "Cluster", "Clusters"),
			first.Cluster, first.Reason, first.Message))
	case s.otherShard > 0:
		return no(addonsv1.OtherShardReason,
			fmt.Sprintf("%s of another shard; %s",
				plural.Count(s.otherShard, "release is in a Cluster", "releases are in Clusters"), s.whyOtherShard))
	case c.Waiting+c.Unreachable > 0 && c.UpToDate+c.Waiting+c.Unreachable+c.Paused+c.Pinned == c.Selected:
		return no(addonsv1.WaitingForClustersReason, fmt.Sprintf(
			"%s up to date%s", ofClusters(c.UpToDate, c.Selected), waitingClusters(&c)))
	case c.Blocked > 0:
		return no(blockedCondition(scope, s))
	case c.Deferred > 0 && c.UpToDate+c.Paused+c.Pinned+c.Deferred == c.Selected:
		return no(deferredCondition(scope, s))
	case c.UpToDate+c.Paused+c.Pinned < c.Selected:
		return no(addonsv1.ProgressingReason, ofClusters(c.UpToDate, c.Selected)+" up to date")
	case s.ending > 0:
		return no(addonsv1.ProgressingReason, endingMessage(scope, s))
	case c.Selected == 0:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.NoClustersSelectedReason,
			Message: "spec.clusterSelector selects no Cluster: check the labels of the Clusters"}
	default:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.ReadyReason,
			Message: plural.Count(c.UpToDate, "Cluster is", "Clusters are") + " up to date" + pinnedClusters(c.Pinned)}
	}
}
