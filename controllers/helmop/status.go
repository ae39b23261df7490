// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"fmt"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// maxReportedFailures bounds status.failures, so that the status does not grow with the fleet.
const maxReportedFailures = 10

// clusterPhase is the phase by which the status of a HelmOp counts a Cluster.
type clusterPhase string

const (
	phasePaused      clusterPhase = "paused"
	phaseBlocked     clusterPhase = "blocked"
	phaseWaiting     clusterPhase = "waiting"
	phaseFailed      clusterPhase = "failed"
	phaseUnreachable clusterPhase = "unreachable"
	phaseProgressing clusterPhase = "progressing"
	phaseUpToDate    clusterPhase = "up to date"
)

// report writes the results of the pass into the conditions and the status of the HelmOp.
func (r *Reconciler) report(scope *helmOpScope) {
	helmOp := scope.helmOp
	summary := summarize(scope)
	if scope.selectorErr == nil {
		helmOp.Status.Clusters = &summary.counts
		helmOp.Status.Failures = summary.failures
		if len(scope.plan.Steps) == len(scope.clusters) {
			helmOp.Status.Rollout = rolloutStatus(scope)
		}
	}
	rolledOut := rolledOutCondition(scope, summary)
	if scope.denied > 0 {
		rolledOut.Message += fmt.Sprintf("; %d Clusters of other namespaces are left out: service account %s may not get "+
			"their kubeconfigs",
			scope.denied, helmOp.Spec.ClusterNamespaces.AuthorizationServiceAccountName)
	}
	if scope.unknownAccess > 0 {
		rolledOut.Message += fmt.Sprintf("; of %d Clusters of other namespaces it is not known whether they may be "+
			"accessed: the API server cannot tell now",
			scope.unknownAccess)
	}
	report.SetCondition(helmOp, addonsv1.RolledOutCondition, rolledOut.Status, rolledOut.Reason, rolledOut.Message)
	ready := readyCondition(scope, summary)
	changed := report.SetCondition(helmOp, addonsv1.ReadyCondition, ready.Status, ready.Reason, ready.Message)
	if changed && isFailure(ready) {
		r.warn(helmOp, ready.Reason, "Reconcile", ready.Message)
	}
}

// isFailure reports whether a Ready condition is one that does not pass by itself.
func isFailure(ready metav1.Condition) bool {
	return ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason] &&
		ready.Reason != addonsv1.WaitingForClustersReason && ready.Reason != addonsv1.RolloutAbortedReason
}

// fleetSummary adds up the states of all Clusters of a HelmOp.
type fleetSummary struct {
	counts   addonsv1.ClusterCounts
	failures []addonsv1.ClusterFailure
	// told is the number of selected Clusters whose release has the desired spec.
	told int32
	// otherShard is the number of releases whose Clusters are of another shard, and whyOtherShard says so of one.
	// heldByOtherShard is the number of those that are selected.
	otherShard, heldByOtherShard int32
	whyOtherShard                string
	// ending is the number of releases of Clusters that are no longer selected.
	ending int32
	// whyEnding is what one of them waits for.
	whyEnding string
}

func summarize(scope *helmOpScope) fleetSummary {
	var s fleetSummary
	for _, c := range scope.clusters {
		phase, failure := phaseOf(c, scope.wantedNumber())
		if failure != nil {
			s.failures = append(s.failures, *failure)
		}
		if c.otherShard != "" {
			s.otherShard++
			if s.whyOtherShard == "" {
				s.whyOtherShard = c.otherShard
			}
		}
		if !c.selected {
			s.ending++
			if s.whyEnding == "" && c.child != nil && !c.child.DeletionTimestamp.IsZero() {
				s.whyEnding = whyEnding(c.child)
			}
			continue
		}
		if !c.cluster.DeletionTimestamp.IsZero() {
			continue
		}
		s.counts.Selected++
		if c.otherShard != "" {
			s.heldByOtherShard++
		}
		if c.step.Assigned && phase != phasePaused && phase != phaseWaiting && c.otherShard == "" {
			s.told++
		}
		s.countChild(c.child)
		switch phase {
		case phasePaused:
			s.counts.Paused++
		case phaseWaiting:
			s.counts.Waiting++
		case phaseFailed:
			s.counts.Failed++
		case phaseUnreachable:
			s.counts.Unreachable++
		case phaseBlocked:
			s.counts.Blocked++
		case phaseUpToDate:
			s.counts.UpToDate++
		case phaseProgressing:
		}
	}
	sort.Slice(s.failures, func(i, j int) bool { return s.failures[i].Cluster < s.failures[j].Cluster })
	if len(s.failures) > maxReportedFailures {
		s.failures = s.failures[:maxReportedFailures]
	}
	return s
}

// countChild counts what holds for a release whatever the phase of its Cluster is.
func (s *fleetSummary) countChild(child *addonsv1.HelmOpRelease) {
	if child == nil {
		return
	}
	if conditions.IsTrue(child, addonsv1.ReadyCondition) {
		s.counts.Ready++
	}
	if conditions.IsTrue(child, addonsv1.StalledCondition) {
		s.counts.Stalled++
	}
	if conditions.IsTrue(child, addonsv1.DriftedCondition) {
		s.counts.Drifted++
	}
}

// phaseOf is the phase of a Cluster under the desired revision, or under none if that is 0, and its failure if there
// is one.
func phaseOf(c *clusterScope, wanted int64) (clusterPhase, *addonsv1.ClusterFailure) {
	fail := func(reason, message string) (clusterPhase, *addonsv1.ClusterFailure) {
		return phaseFailed, &addonsv1.ClusterFailure{Cluster: c.name, Reason: reason,
			Message: apiutil.Truncate(message, report.MaxConditionMessage)}
	}
	switch {
	case c.otherShard != "":
		return phaseProgressing, nil
	case c.err != nil:
		return fail(reasons.ForRendering(c.err), c.err.Error())
	case c.cluster != nil && apiutil.IsClusterPaused(c.cluster), c.child != nil &&
		(apiutil.IsChildPaused(c.child) || report.IsBeingMoved(c.child)):
		return phasePaused, nil
	case c.cluster != nil && c.selected && !apiutil.IsInitialized(c.cluster):
		return phaseWaiting, nil
	case c.child == nil:
		return phaseProgressing, nil
	}
	ready := conditions.Get(c.child, addonsv1.ReadyCondition)
	switch {
	case ready == nil || ready.ObservedGeneration != c.child.Generation:
		return phaseProgressing, nil
	case isUnreachable(c.child):
		return phaseUnreachable, nil
	case isBlocked(c):
		return phaseBlocked, nil
	case c.selected && ready.Status == metav1.ConditionTrue && c.step.Action == rollout.ActionNone && wanted != 0 &&
		apiutil.RevisionOf(c.child) == wanted:
		return phaseUpToDate, nil
	case ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason]:
		return fail(ready.Reason, ready.Message)
	default:
		return phaseProgressing, nil
	}
}

func rolledOutCondition(scope *helmOpScope, s fleetSummary) metav1.Condition {
	servable := s.counts.Selected - s.counts.Waiting - s.counts.Paused - s.heldByOtherShard
	reason, message, held := isHeld(scope)
	switch {
	case scope.selectorErr != nil:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: addonsv1.InvalidSelectorReason,
			Message: scope.selectorErr.Error()}
	case scope.artifact == nil:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: addonsv1.RollingOutReason,
			Message: "the source is not resolved"}
	case held:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	case s.told < servable:
		reason, message := addonsv1.RollingOutReason,
			fmt.Sprintf("%d of %d Clusters were told what is desired", s.told, servable)
		if scope.strategy.Paused {
			reason = addonsv1.RolloutPausedReason
		}
		if needed := waitingFor(scope); needed != "" {
			message += "; it waits for " + needed
		}
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	default:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.RolledOutReason,
			Message: fmt.Sprintf("%d Clusters were told what is desired", s.told)}
	}
}

// readyCondition is the condition Ready of a HelmOp. A problem that a user can solve comes before one that passes by
// itself.
func readyCondition(scope *helmOpScope, s fleetSummary) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	c := s.counts
	heldReason, heldMessage, held := isHeld(scope)
	verified := conditions.Get(scope.helmOp, addonsv1.VerifiedCondition)
	switch resolved := conditions.Get(scope.helmOp, addonsv1.ResolvedCondition); {
	case scope.selectorErr != nil:
		return no(addonsv1.InvalidSelectorReason, scope.selectorErr.Error())
	case scope.programErr != nil:
		return no(reasons.ForRendering(scope.programErr), scope.programErr.Error())
	case scope.dependencyErr != nil:
		return scope.dependencyErr.condition()
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
	case len(s.failures) > 0:
		first := s.failures[0]
		return no(addonsv1.ReleasesFailedReason, fmt.Sprintf("%d of %d Clusters failed, see status.failures; %s: %s: %s",
			max(c.Failed, int32(len(s.failures))), c.Selected+s.ending, first.Cluster, first.Reason, first.Message))
	case s.otherShard > 0:
		return no(addonsv1.OtherShardReason,
			fmt.Sprintf("%d releases are in Clusters of another shard; %s", s.otherShard, s.whyOtherShard))
	case c.Waiting+c.Unreachable > 0 && c.UpToDate+c.Waiting+c.Unreachable+c.Paused == c.Selected:
		return no(addonsv1.WaitingForClustersReason, fmt.Sprintf(
			"%d of %d Clusters are up to date; %d wait for their control plane, %d do not answer",
			c.UpToDate, c.Selected, c.Waiting, c.Unreachable))
	case c.Blocked > 0:
		return no(addonsv1.WaitingForDependenciesReason,
			fmt.Sprintf("%d of %d Clusters wait for dependencies; %s", c.Blocked, c.Selected, firstBlocked(scope)))
	case c.UpToDate+c.Paused < c.Selected:
		return no(addonsv1.ProgressingReason, fmt.Sprintf("%d of %d Clusters are up to date", c.UpToDate, c.Selected))
	case s.ending > 0:
		return no(addonsv1.ProgressingReason, endingMessage(scope, s))
	case c.Selected == 0:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.NoClustersSelectedReason,
			Message: "spec.clusterSelector chooses no Cluster"}
	default:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: addonsv1.ReadyReason,
			Message: fmt.Sprintf("%d Clusters are up to date", c.UpToDate)}
	}
}

// endingMessage says how many releases of Clusters that are no longer selected are under deletion, and what they wait
// for.
func endingMessage(scope *helmOpScope, s fleetSummary) string {
	message := fmt.Sprintf("%d releases are ending in Clusters that are not selected any more%s", s.ending, s.whyEnding)
	waiting := scope.plan.Progress.DeletionsWaiting
	switch {
	case waiting == 0:
		return message
	case scope.strategy.Paused:
		return message + fmt.Sprintf("; %d of them wait for the end of the pause of the rollout", waiting)
	default:
		return message + fmt.Sprintf("; %d of them wait for their turn (spec.rollout.maxUnavailable)", waiting)
	}
}

// reportDeletion reports how far the deletion of a HelmOp is, and what it waits for.
func reportDeletion(helmOp *addonsv1.HelmOp, children []*addonsv1.HelmOpRelease, waiting int) {
	message := fmt.Sprintf("%d releases are ending", len(children))
	if waiting > 0 {
		message += fmt.Sprintf(", %d of them wait for their turn (spec.rollout.maxUnavailable)", waiting)
	}
	for _, child := range children {
		if why := whyEnding(child); why != "" {
			message += why
			break
		}
	}
	report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.DeletingReason, message)
	// The deletion of the HelmOp confirms the deletions that waited.
	conditions.Delete(helmOp, addonsv1.DeletionsHeldCondition)
	helmOp.Status.Deletions = nil
}

// whyEnding is why a release is not deleted yet, to be added to a message; empty if that is not known.
func whyEnding(child *addonsv1.HelmOpRelease) string {
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	switch {
	case conditions.GetReason(child, addonsv1.PausedCondition) == addonsv1.BeingMovedReason:
		return fmt.Sprintf("; Cluster %s: %s", apiutil.ClusterTitle(child),
			conditions.GetMessage(child, addonsv1.PausedCondition))
	case conditions.IsTrue(child, addonsv1.PausedCondition):
		return fmt.Sprintf("; Cluster %s: paused, its release ends when it is unpaused", apiutil.ClusterTitle(child))
	case ready != nil && ready.Status == metav1.ConditionFalse && ready.Message != "":
		return fmt.Sprintf("; Cluster %s: %s", apiutil.ClusterTitle(child), ready.Message)
	default:
		return ""
	}
}
