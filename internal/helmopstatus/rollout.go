// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

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

// maxWaitingFor is the maximum length of status.rollout.waitingFor, in bytes.
const maxWaitingFor = 512

// waveName returns the name of the current wave. It is empty for Clusters that no wave selects.
func waveName(p *Pass) string {
	if i := p.Plan.Progress.Wave; i < len(p.Strategy.Waves) {
		return p.Strategy.Waves[i].Name
	}
	return ""
}

// rolloutStatus returns the status of the rollout of the newest revision; nil if there is no revision.
func rolloutStatus(p *Pass) *addonsv1.RolloutStatus {
	newest := p.Revisions.Newest()
	if newest == nil {
		return nil
	}
	progress := p.Plan.Progress
	status := &addonsv1.RolloutStatus{
		Revision: newest.Spec.Number, LastGoodRevision: p.Revisions.LastGood(), Phase: newest.Status.Phase,
		StartedAt: newest.Status.StartedAt,
		Updated:   int32(progress.Updated), Done: int32(progress.Done), InFlight: int32(progress.InFlight),
		Failed:          int32(progress.Failed),
		WaitingFor:      apiutil.Truncate(waitingFor(p), maxWaitingFor),
		NextMaintenance: metav1.NewTime(progress.Opens),
	}
	if newest.Status.Good {
		status.LastGoodRevision = newest.Spec.Number
	}
	if status.Phase == addonsv1.RolloutPhaseProgressing {
		status.Wave = waveName(p)
	}
	status.Approval = approvalStatus(p)
	return status
}

// waitingFor returns the reason why a rollout waits. If it waits for a user, the text has the command that continues
// it.
func waitingFor(p *Pass) string {
	return withApproval(p, waitingForOthers(p))
}

// waitingForOthers returns the reason why a rollout waits, without approvals of changed releases.
func waitingForOthers(p *Pass) string {
	progress, newest := p.Plan.Progress, p.Revisions.Newest()
	if n := unrenderable(p); n > 0 && progress.InFlight == 0 {
		return fmt.Sprintf("a correction of the HelmOp or the Clusters: "+
			"the desired release cannot be rendered for %d of %s, see status.failures",
			n, plural.Count(len(p.Clusters), "Cluster", "Clusters"))
	}
	if progress.Promote == "" || newest == nil {
		return progress.WaitingFor
	}
	return fmt.Sprintf("%s: kubectl -n %s annotate "+addonsv1.HelmOpResource+" %s --overwrite %s=%d/%s",
		progress.WaitingFor, p.HelmOp.Namespace,
		p.HelmOp.Name, addonsv1.RolloutPromoteAnnotation, newest.Spec.Number, progress.Promote)
}

// unrenderable returns the number of Clusters for which the newest revision cannot be rendered. It returns 0 if another
// Cluster still waits for the revision.
func unrenderable(p *Pass) int {
	newest, count := p.Revisions.Newest(), 0
	if newest == nil || newest.Status.Phase != addonsv1.RolloutPhaseProgressing {
		return 0
	}
	for i := range p.Clusters {
		c := &p.Clusters[i]
		switch {
		case !c.Selected || c.Step.Assigned:
		case c.Err == nil || errors.Is(c.Err, reasons.ErrRecord):
			return 0
		default:
			count++
		}
	}
	return count
}

// isHeld reports whether a rollout continues only after an action of a user, and why.
func isHeld(p *Pass) (reason, message string, held bool) {
	newest := p.Revisions.Newest()
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

// Event is an Event of a HelmOp.
type Event struct {
	// Type is the type of the Event: Normal or Warning.
	Type string
	// Reason and Message are those of the Event.
	Reason, Message string
}

// RolloutEvents returns the Events of a rollout. status is the new status of the newest revision, and before is the
// phase before the pass. Without spec.rollout, there are no Events.
func RolloutEvents(p *Pass, before addonsv1.RolloutPhase, status addonsv1.HelmOpRevisionStatus) (events []Event) {
	helmOp, number := p.HelmOp, p.Revisions.Newest().Spec.Number
	if helmOp.Spec.Rollout == nil {
		return nil
	}
	record := func(eventType, reason, message string) { events = append(events, Event{eventType, reason, message}) }
	// If a HelmOp revision needs an approval, its rollout begins with the approval.
	known := helmOp.Status.Rollout
	isNew := known == nil || known.Revision != number || p.Approval.Begins
	if isNew && !p.Approval.Unapproved {
		record(corev1.EventTypeNormal, addonsv1.RolloutStartedEvent, fmt.Sprintf("HelmOp revision %d is rolled out", number))
	}
	if wave := waveName(p); wave != "" && status.Phase == addonsv1.RolloutPhaseProgressing &&
		!p.Approval.Unapproved && (isNew || known.Wave != wave) {
		record(corev1.EventTypeNormal, addonsv1.WaveStartedEvent,
			fmt.Sprintf("HelmOp revision %d: wave %s begins", number, wave))
	}
	if status.Phase == before {
		return events
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
	return events
}
