// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

const (
	// maxRolloutReason and maxWaitingFor are the limits of the status, in bytes.
	maxRolloutReason = 512
	maxWaitingFor    = 512
)

// recordRolloutEvents records the Events of a rollout. There are none without spec.rollout.
func (r *Reconciler) recordRolloutEvents(scope *helmOpScope, before addonsv1.RolloutPhase,
	status addonsv1.HelmOpRevisionStatus,
) {
	helmOp, number := scope.helmOp, scope.newestRevision().Spec.Number
	if helmOp.Spec.Rollout == nil {
		return
	}
	record := func(eventType, reason, message string) { r.event(helmOp, eventType, reason, "Rollout", message) }
	// A HelmOp revision that needs an approval begins with the approval.
	known := helmOp.Status.Rollout
	isNew := known == nil || known.Revision != number || scope.approval.Begins
	if isNew && !scope.approval.Unapproved {
		record(corev1.EventTypeNormal, addonsv1.RolloutStartedEvent, fmt.Sprintf("HelmOp revision %d is rolled out", number))
	}
	if wave := waveName(scope); wave != "" && status.Phase == addonsv1.RolloutPhaseProgressing &&
		!scope.approval.Unapproved && (isNew || known.Wave != wave) {
		record(corev1.EventTypeNormal, addonsv1.WaveStartedEvent,
			fmt.Sprintf("HelmOp revision %d: wave %s begins", number, wave))
	}
	if status.Phase == before {
		return
	}
	switch status.Phase {
	case addonsv1.RolloutPhaseComplete:
		record(corev1.EventTypeNormal, addonsv1.RolloutCompletedEvent,
			fmt.Sprintf("HelmOp revision %d is rolled out completely", number))
	case addonsv1.RolloutPhasePaused:
		record(corev1.EventTypeWarning, addonsv1.RolloutPausedEvent, status.Reason)
	case addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted:
		record(corev1.EventTypeWarning, addonsv1.RolloutRolledBackEvent, status.Reason)
	case addonsv1.RolloutPhaseProgressing:
		if before != "" {
			record(corev1.EventTypeNormal, addonsv1.RolloutContinuedEvent,
				fmt.Sprintf("The rollout of HelmOp revision %d continues", number))
		}
	}
}

// waveName is the name of the current wave; empty for the Clusters in no wave, and without waves.
func waveName(scope *helmOpScope) string {
	if i := scope.plan.Progress.Wave; i < len(scope.strategy.Waves) {
		return scope.strategy.Waves[i].Name
	}
	return ""
}

// rolloutStatus is the status of the rollout of the newest revision; nil if there is none.
func rolloutStatus(scope *helmOpScope) *addonsv1.RolloutStatus {
	newest := scope.newestRevision()
	if newest == nil {
		return nil
	}
	progress := scope.plan.Progress
	status := &addonsv1.RolloutStatus{
		Revision: newest.Spec.Number, LastGoodRevision: scope.lastGood(), Phase: newest.Status.Phase,
		StartedAt: newest.Status.StartedAt,
		Updated:   int32(progress.Updated), Done: int32(progress.Done), InFlight: int32(progress.InFlight),
		Failed:          int32(progress.Failed),
		WaitingFor:      apiutil.Truncate(waitingFor(scope), maxWaitingFor),
		NextMaintenance: metav1.NewTime(progress.Opens),
	}
	if newest.Status.Good {
		status.LastGoodRevision = newest.Spec.Number
	}
	if status.Phase == addonsv1.RolloutPhaseProgressing {
		status.Wave = waveName(scope)
	}
	status.Approval = approvalStatus(scope)
	return status
}

// waitingFor says what a rollout waits for and, if that is a user, how to continue.
func waitingFor(scope *helmOpScope) string {
	return withApproval(scope, waitingForOthers(scope))
}

// waitingForOthers says what a rollout waits for besides an approval of changed releases.
func waitingForOthers(scope *helmOpScope) string {
	progress, newest := scope.plan.Progress, scope.newestRevision()
	if n := unrenderable(scope); n > 0 && progress.InFlight == 0 {
		return fmt.Sprintf("a correction of the HelmOp or the Clusters: "+
			"the desired release cannot be rendered for %d of %s, see status.failures",
			n, plural.Count(len(scope.clusters), "Cluster", "Clusters"))
	}
	if progress.Promote == "" || newest == nil {
		return progress.WaitingFor
	}
	return fmt.Sprintf("%s: kubectl -n %s annotate "+addonsv1.HelmOpResource+" %s --overwrite %s=%d/%s",
		progress.WaitingFor, scope.helmOp.Namespace,
		scope.helmOp.Name, addonsv1.RolloutPromoteAnnotation, newest.Spec.Number, progress.Promote)
}

// unrenderable is the number of Clusters for which the newest revision cannot be rendered, if all others have the
// revision; else 0.
func unrenderable(scope *helmOpScope) int {
	newest, count := scope.newestRevision(), 0
	if newest == nil || newest.Status.Phase != addonsv1.RolloutPhaseProgressing {
		return 0
	}
	for _, c := range scope.clusters {
		switch {
		case !c.selected || c.step.Assigned:
		case c.err == nil || errors.Is(c.err, reasons.ErrRecord):
			return 0
		default:
			count++
		}
	}
	return count
}

// isHeld reports whether a rollout continues only if a user does something, and why.
func isHeld(scope *helmOpScope) (reason, message string, held bool) {
	newest := scope.newestRevision()
	if newest == nil {
		return "", "", false
	}
	switch status := newest.Status; rollout.Phase(status.Phase) {
	case rollout.PhasePaused:
		return addonsv1.RolloutPausedReason, status.Reason, true
	case rollout.PhaseRolledBack:
		return addonsv1.RolloutRolledBackReason, status.Reason, true
	case rollout.PhaseAborted:
		return addonsv1.RolloutAbortedReason, status.Reason, true
	default:
		return "", "", false
	}
}
