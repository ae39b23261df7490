// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// verbDelete is what is done where releases are deleted.
const verbDelete = "Delete"

// maxNamedClusters bounds how many Clusters a message names.
const maxNamedClusters = 3

// decideDeletions decides whether the releases of Clusters that are not selected any more may be deleted. Nothing is
// lost where they are orphaned, or where another HelmOp has taken a release over.
func (r *Reconciler) decideDeletions(scope *helmOpScope, clusters []rollout.Cluster) brake.Decision {
	helmOp := scope.helmOp
	in := brake.Input{
		State: deletionState(helmOp.Status.Deletions), Max: helmOp.Spec.MaxDeletions,
		Confirmation: helmOp.Annotations[addonsv1.ConfirmDeletionsAnnotation], Now: r.now(),
	}
	if helmOp.Spec.DeletionPolicy == addonsv1.DeletionPolicyOrphan {
		in.Max = new(intstr.FromString("100%"))
	}
	for i := range clusters {
		c := &clusters[i]
		if c.Child == nil || c.Gone || c.Deleting || !c.Selected && c.Child.Deleting {
			continue
		}
		in.Total++
		if rollout.IsLeaving(c) && !c.Child.Foreign {
			in.Pending = append(in.Pending, c.Name)
		}
	}
	scope.pendingDeletions = in.Pending
	return brake.Decide(in)
}

// deletionState is what the status remembers of deletions.
func deletionState(status *addonsv1.DeletionStatus) brake.State {
	if status == nil {
		return brake.State{}
	}
	return brake.State{
		Recent: int(status.Recent), LastAt: status.LastAt.Time, WaitingSince: status.WaitingSince.Time,
		MostWaiting: int(status.MostWaiting), Confirmed: int(status.Confirmed),
	}
}

// deletionStatus is what the status says of deletions; nil if there is nothing to say.
func deletionStatus(decision *brake.Decision, pending int) *addonsv1.DeletionStatus {
	s := decision.State
	status := &addonsv1.DeletionStatus{Confirmed: int32(s.Confirmed), Recent: int32(s.Recent),
		MostWaiting: int32(s.MostWaiting)}
	if !s.LastAt.IsZero() {
		status.LastAt = metav1.NewTime(s.LastAt)
	}
	if decision.Held {
		status.Waiting, status.WaitingSince, status.Confirmation = int32(pending), metav1.NewTime(s.WaitingSince),
			decision.Confirmation
	}
	if *status == (addonsv1.DeletionStatus{}) {
		return nil
	}
	return status
}

// recordDeletions writes down what the plan deletes before it is deleted: a manager that is restarted meanwhile counts
// it. What changes for another reason is written with the rest of the status.
func (r *Reconciler) recordDeletions(ctx context.Context, scope *helmOpScope, clusters []rollout.Cluster) error {
	begun, returned, pending := 0, 0, sets.New(scope.pendingDeletions...)
	for i, step := range scope.plan.Steps {
		switch {
		// Clusters that are gone or under deletion take their releases along.
		case step.Action == rollout.ActionDelete && pending.Has(step.Cluster):
			begun++
		// A Cluster that was there before may be one that is selected again.
		case step.Action == rollout.ActionCreate && clusters[i].Known:
			returned++
		}
	}
	helmOp, decision := scope.helmOp, &scope.deletions
	before := helmOp.DeepCopy()
	decision.State = decision.State.Return(returned).Begin(begun, r.now())
	helmOp.Status.Deletions = deletionStatus(decision, len(scope.pendingDeletions))
	if begun == 0 || equality.Semantic.DeepEqual(before.Status.Deletions, helmOp.Status.Deletions) {
		return nil
	}
	written := before.DeepCopy()
	written.Status.Deletions = helmOp.Status.Deletions.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, written, patch); err != nil {
		return fmt.Errorf("recording deletions of HelmOp %s/%s: %w", helmOp.Namespace, helmOp.Name, err)
	}
	return nil
}

// reportDeletions says in a condition and by Events whether deletions wait for a confirmation.
func (r *Reconciler) reportDeletions(scope *helmOpScope) {
	helmOp, decision := scope.helmOp, &scope.deletions
	if decision.JustConfirmed {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.DeletionsConfirmedEvent, verbDelete,
			fmt.Sprintf("The deletion of %s was confirmed by the annotation %s", releases(len(scope.pendingDeletions)),
				addonsv1.ConfirmDeletionsAnnotation))
	}
	if !decision.Held {
		conditions.Delete(helmOp, addonsv1.DeletionsHeldCondition)
		return
	}
	message := heldDeletions(scope)
	began := !conditions.IsTrue(helmOp, addonsv1.DeletionsHeldCondition)
	report.SetCondition(helmOp, addonsv1.DeletionsHeldCondition, metav1.ConditionTrue, addonsv1.ConfirmationRequiredReason,
		message)
	if began {
		r.warn(helmOp, addonsv1.DeletionsHeldEvent, verbDelete, message)
	}
}

// heldDeletions says how many releases would be deleted, why, and what to do.
func heldDeletions(scope *helmOpScope) string {
	decision, pending := &scope.deletions, scope.pendingDeletions
	before := ""
	if gone := decision.State.Recent; gone > 0 {
		before = fmt.Sprintf(" (%s more began to be deleted in the last minutes)", releases(gone))
	}
	return fmt.Sprintf("%d of %s would be uninstalled at once%s, and spec.maxDeletions allows %d: the Clusters are no "+
		"longer selected: %s. "+
		"Correct the selector or the labels of the Clusters, or confirm: kubectl -n %s annotate helmop %s --overwrite %s=%s",
		len(pending), releases(decision.Total), before, decision.Limit, nameFew(pending), scope.helmOp.Namespace,
		scope.helmOp.Name,
		addonsv1.ConfirmDeletionsAnnotation, decision.Confirmation)
}

// nameFew names the first of some things, and counts the others.
func nameFew(names []string) string {
	if len(names) <= maxNamedClusters {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamedClusters], ", "), len(names)-maxNamedClusters)
}

func releases(n int) string {
	if n == 1 {
		return "1 release"
	}
	return fmt.Sprintf("%d releases", n)
}
