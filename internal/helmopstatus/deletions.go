// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// endingMessage returns how many releases of unselected Clusters are being deleted, and the reason if a deletion waits.
func endingMessage(p *Pass, s summary) string {
	message := fmt.Sprintf("%s that %s no longer selected%s",
		plural.Count(s.ending, "release is being deleted in a Cluster", "releases are being deleted in Clusters"),
		plural.Word(s.ending, "is", "are"), s.whyEnding)
	waiting := p.Plan.Progress.DeletionsWaiting
	deferred, why := deferredDeletions(p)
	if waiting -= deferred; deferred > 0 {
		message += fmt.Sprintf("; %s for maintenance; %s", plural.Count(deferred, "deletion waits", "deletions wait"), why)
	}
	switch {
	case waiting == 0:
		return message
	case p.Strategy.Paused:
		return message + "; " + plural.Count(waiting, "deletion waits", "deletions wait") +
			" until spec.rollout.paused is false"
	default:
		return message + deletionsWait(waiting)
	}
}

// deletionsWait returns how many deletions wait for other deletions. The text is for the end of a message.
func deletionsWait(waiting int) string {
	return "; " + plural.Count(waiting, "deletion waits", "deletions wait") +
		" until other deletions have finished (spec.rollout.maxUnavailable)"
}

// whyEnding returns why a release is not deleted yet; empty if that is not known. The text is for the end of a message.
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

// deferredDeletions returns the number of releases of unselected Clusters whose deletion waits for maintenance. why is
// the reason of the first of them.
func deferredDeletions(p *Pass) (n int, why string) {
	for i := range p.Clusters {
		c := &p.Clusters[i]
		if c.Selected || !c.Step.Deferred {
			continue
		}
		if n++; why == "" {
			why = c.Name + ": " + c.Limits.Why
		}
	}
	return n, why
}

// HeldDeletions returns a message with the number of held deletions, the reason, and the next step for the user.
func HeldDeletions(p *Pass) string {
	decision, pending := &p.Deletions, p.PendingDeletions
	before := ""
	if recent := decision.State.Recent; recent > 0 {
		before = fmt.Sprintf(" (the deletion of %s began in the last minutes)",
			plural.Count(recent, "other release", "other releases"))
	}
	return fmt.Sprintf("%d of %s would be uninstalled at once%s, and spec.maxDeletions allows %d: the %s no longer "+
		"selected: %s. "+
		"Correct the selector or the labels of the Clusters, or confirm: kubectl -n %s annotate "+
		addonsv1.HelmOpResource+" %s --overwrite %s=%s",
		len(pending), plural.Count(decision.Total, "release", "releases"), before, decision.Limit,
		plural.Word(len(pending), "Cluster is", "Clusters are"), plural.Few(pending, maxNamedClusters),
		p.HelmOp.Namespace, p.HelmOp.Name, addonsv1.ConfirmDeletionsAnnotation, decision.Confirmation)
}

// maxNamedClusters is the number of Clusters that a message names.
const maxNamedClusters = 3

// DeletionProgress returns the progress of the deletion of a HelmOp, and the reason if it waits. waiting is the number
// of releases whose deletion waits for other deletions.
func DeletionProgress(children []*addonsv1.HelmOpRelease, waiting int) string {
	message := plural.Count(len(children), "release is being deleted", "releases are being deleted")
	if waiting > 0 {
		message += deletionsWait(waiting)
	}
	for _, child := range children {
		if why := whyEnding(child); why != "" {
			return message + why
		}
	}
	return message
}
