// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clustermove"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// maxReportedFailures bounds status.failures, so that the status does not grow with the fleet.
const maxReportedFailures = 10

// clusterPhase is the phase by which the status of a HelmOp counts a Cluster.
type clusterPhase string

const (
	phasePaused      clusterPhase = "paused"
	phaseBlocked     clusterPhase = "blocked"
	phaseDeferred    clusterPhase = "deferred"
	phaseWaiting     clusterPhase = "waiting"
	phaseFailed      clusterPhase = "failed"
	phaseUnreachable clusterPhase = "unreachable"
	phaseProgressing clusterPhase = "progressing"
	phaseUpToDate    clusterPhase = "up to date"
	phasePinned      clusterPhase = "pinned"
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
	rollingOut := rollingOutCondition(scope, summary)
	report.SetCondition(helmOp, addonsv1.RollingOutCondition, rollingOut.Status, rollingOut.Reason, rollingOut.Message)
	ready := readyCondition(scope, summary)
	changed := report.SetCondition(helmOp, addonsv1.ReadyCondition, ready.Status, ready.Reason, ready.Message)
	if changed && isFailure(ready) {
		r.warn(helmOp, ready.Reason, "Reconcile", ready.Message)
	}
	if isStalled(scope, ready, summary) {
		report.SetCondition(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, ready.Reason, ready.Message)
	} else {
		conditions.Delete(helmOp, addonsv1.StalledCondition)
	}
}

// fleetSummary adds up the states of all Clusters of a HelmOp.
type fleetSummary struct {
	counts   addonsv1.ClusterCounts
	failures []addonsv1.ClusterFailure
	// assigned is the number of selected Clusters whose release has the desired spec.
	assigned int32
	// pinned is the number of selected Clusters that can be served and that a user has pinned to a HelmOp revision.
	pinned int32
	// failed is the number of failures, and final is the number of those that are not retried.
	failed, final int32
	// otherShard is the number of releases whose Clusters have another shard, and whyOtherShard is the message of the
	// first of them. heldByOtherShard is the number of selected Clusters that have another shard.
	otherShard, heldByOtherShard int32
	whyOtherShard                string
	// ending is the number of releases of Clusters that are no longer selected.
	ending int32
	// whyEnding is what the first of their deletions waits for.
	whyEnding string
}

func summarize(scope *helmOpScope) fleetSummary {
	var s fleetSummary
	for _, c := range scope.clusters {
		phase, failure := phaseOf(c, scope.desiredNumber())
		if failure != nil {
			s.failures = append(s.failures, *failure)
			s.failed++
			if isFinal(c) {
				s.final++
			}
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
		_, isPinned := apiutil.PinOf(c.child)
		switch isServed := phase != phasePaused && phase != phaseWaiting && c.otherShard == ""; {
		case isServed && isPinned:
			s.pinned++
		case isServed && c.step.Assigned:
			s.assigned++
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
		case phaseDeferred:
			s.counts.Deferred++
		case phaseUpToDate:
			s.counts.UpToDate++
		case phasePinned:
			s.counts.Pinned++
		case phaseProgressing:
		}
	}
	sort.Slice(s.failures, func(i, j int) bool { return s.failures[i].Cluster < s.failures[j].Cluster })
	if len(s.failures) > maxReportedFailures {
		s.failures = s.failures[:maxReportedFailures]
	}
	return s
}

// servable is the number of selected Clusters that can be served now, and are not pinned to a HelmOp revision.
func (s *fleetSummary) servable() int32 {
	return s.counts.Selected - s.counts.Waiting - s.counts.Paused - s.heldByOtherShard - s.pinned
}

// isFinal reports whether the failure of a Cluster stays until a user does something.
func isFinal(c *clusterScope) bool {
	switch {
	case c.pinErr != nil:
		return true
	case c.err == nil:
		stalled := conditions.Get(c.child, addonsv1.StalledCondition)
		return stalled != nil && stalled.Status == metav1.ConditionTrue &&
			stalled.ObservedGeneration == c.child.Generation
	}
	return !passes(c.err)
}

// passes reports whether an error of a Cluster passes without a change by a user.
func passes(err error) bool {
	if unresolved := (*reasons.UnresolvedError)(nil); errors.As(err, &unresolved) {
		return apiutil.ProgressReasons[unresolved.Reason] || passingReasons[unresolved.Reason]
	}
	return errors.Is(err, reasons.ErrRecord) || errors.Is(err, render.ErrObjectRead) ||
		errors.Is(err, selection.ErrAccessUnknown)
}

// countChild counts the conditions of a release, which do not depend on the phase of its Cluster.
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

// phaseOf returns the phase of a Cluster, and its failure if there is one. wanted is the number of the desired HelmOp
// revision; 0 if it is not known.
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
	case c.pinErr != nil:
		return fail(addonsv1.PinRefusedReason, c.pinErr.Error())
	case c.cluster != nil && apiutil.IsClusterPaused(c.cluster), c.child != nil &&
		(apiutil.IsChildPaused(c.child) || report.IsBeingMoved(c.child)):
		return phasePaused, nil
	case c.cluster != nil && c.selected && !apiutil.IsInitialized(c.cluster):
		return phaseWaiting, nil
	case c.child == nil && isDeferred(c):
		return phaseDeferred, nil
	case c.child == nil:
		return phaseProgressing, nil
	}
	ready := conditions.Get(c.child, addonsv1.ReadyCondition)
	_, isPinned := apiutil.PinOf(c.child)
	switch {
	case ready == nil || ready.ObservedGeneration != c.child.Generation:
		return phaseProgressing, nil
	case rolloutstate.IsUnreachable(c.child):
		return phaseUnreachable, nil
	case isBlocked(c):
		return phaseBlocked, nil
	case isDeferred(c):
		return phaseDeferred, nil
	case c.step.Unapproved && ready.Status == metav1.ConditionTrue:
		return phaseProgressing, nil
	case c.selected && ready.Status == metav1.ConditionTrue && c.step.Action == rollout.ActionNone && wanted != 0 &&
		apiutil.RevisionOf(c.child) == wanted:
		return phaseUpToDate, nil
	case c.selected && ready.Status == metav1.ConditionTrue && c.step.Action == rollout.ActionNone && isPinned:
		return phasePinned, nil
	case ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason]:
		return fail(ready.Reason, ready.Message)
	default:
		return phaseProgressing, nil
	}
}

// endingMessage says how many releases of Clusters that are no longer selected are being deleted, and what the deletion
// waits for.
func endingMessage(scope *helmOpScope, s fleetSummary) string {
	message := fmt.Sprintf("%s that %s no longer selected%s",
		plural.Count(s.ending, "release is being deleted in a Cluster", "releases are being deleted in Clusters"),
		plural.Word(s.ending, "is", "are"), s.whyEnding)
	waiting := scope.plan.Progress.DeletionsWaiting
	deferred, why := deferredDeletions(scope)
	if waiting -= deferred; deferred > 0 {
		message += fmt.Sprintf("; %s for maintenance; %s", plural.Count(deferred, "deletion waits", "deletions wait"), why)
	}
	switch {
	case waiting == 0:
		return message
	case scope.strategy.Paused:
		return message + "; " + plural.Count(waiting, "deletion waits", "deletions wait") +
			" until spec.rollout.paused is false"
	default:
		return message + deletionsWait(waiting)
	}
}

// deletionsWait says, for the end of a message, how many deletions wait for others.
func deletionsWait(waiting int) string {
	return "; " + plural.Count(waiting, "deletion waits", "deletions wait") +
		" until other deletions have finished (spec.rollout.maxUnavailable)"
}

// reportDeletion reports how far the deletion of a HelmOp is, and what it waits for.
func reportDeletion(helmOp *addonsv1.HelmOp, children []*addonsv1.HelmOpRelease, waiting int) {
	message := plural.Count(len(children), "release is being deleted", "releases are being deleted")
	if waiting > 0 {
		message += deletionsWait(waiting)
	}
	for _, child := range children {
		if why := whyEnding(child); why != "" {
			message += why
			break
		}
	}
	report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.DeletingReason, message)
	// The deletion of the HelmOp confirms the deletions that waited.
	for _, condition := range []string{
		addonsv1.DeletionsHeldCondition, addonsv1.RollingOutCondition, addonsv1.StalledCondition, addonsv1.ApprovedCondition,
	} {
		conditions.Delete(helmOp, condition)
	}
	helmOp.Status.Deletions = nil
}

// whyEnding says, for the end of a message, why a release is not deleted yet; empty if that is not known.
func whyEnding(child *addonsv1.HelmOpRelease) string {
	ready := conditions.Get(child, addonsv1.ReadyCondition)
	switch {
	case conditions.GetReason(child, addonsv1.PausedCondition) == addonsv1.BeingMovedReason:
		return fmt.Sprintf("; Cluster %s: %s", apiutil.ClusterTitle(child),
			conditions.GetMessage(child, addonsv1.PausedCondition))
	case conditions.IsTrue(child, addonsv1.PausedCondition):
		return fmt.Sprintf("; Cluster %s: the release is paused; HelmOp deletes the release when the pause ends",
			apiutil.ClusterTitle(child))
	case ready != nil && ready.Status == metav1.ConditionFalse && ready.Message != "":
		return fmt.Sprintf("; Cluster %s: %s", apiutil.ClusterTitle(child), ready.Message)
	default:
		return ""
	}
}

// reportMovable sets the condition Movable: whether clusterctl move moves all objects that the HelmOp refers to.
// The manager has no right to write Secrets and ConfigMaps, which belong to users who may share them. So the condition
// has the command that labels them.
func (r *Reconciler) reportMovable(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	referenced := referencesOf(scope)
	if len(referenced) == 0 {
		conditions.Delete(helmOp, addonsv1.MovableCondition)
		return nil
	}
	why, err := clustermove.WhyNotMovable(ctx, r.references.Metadata, helmOp.Namespace, referenced)
	switch {
	case err != nil:
		return err
	case why != "":
		report.SetCondition(helmOp, addonsv1.MovableCondition, metav1.ConditionFalse, addonsv1.ReferencesNotMovedReason, why)
	default:
		report.SetCondition(helmOp, addonsv1.MovableCondition, metav1.ConditionTrue, addonsv1.MovableReason,
			"clusterctl move moves all objects that the HelmOp refers to")
	}
	return nil
}

// referencesOf returns the objects that a HelmOp refers to, as "<kind>/<name>", including objects for single Clusters.
func referencesOf(scope *helmOpScope) []string {
	helmOp := scope.helmOp
	referenced := references.Of(helmOp)
	if namespaces := helmOp.Spec.ClusterNamespaces; namespaces != nil {
		referenced = append(referenced, apiutil.KindServiceAccount+"/"+namespaces.AuthorizationServiceAccountName)
	}
	if management := helmOp.Spec.ManagementCluster; management != nil {
		referenced = append(referenced, apiutil.KindServiceAccount+"/"+management.ImpersonateServiceAccountName)
	}
	for _, c := range scope.clusters {
		for _, reference := range c.references {
			referenced = append(referenced, reference.Kind+"/"+reference.Name)
		}
	}
	slices.Sort(referenced)
	return slices.Compact(referenced)
}
