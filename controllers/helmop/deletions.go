// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// verbDelete is the action of Events about deletions of releases.
const verbDelete = "Delete"

// decideDeletions decides whether releases of unselected Clusters may be deleted. Two kinds of deletions uninstall
// nothing, so the decision does not limit them: the release is orphaned, or another HelmOp has taken over the release.
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

// deletionState converts the deletions in a status into the state that the decision needs.
func deletionState(status *addonsv1.DeletionStatus) brake.State {
	if status == nil {
		return brake.State{}
	}
	return brake.State{
		Recent: int(status.Recent), LastAt: status.LastAt.Time, WaitingSince: status.WaitingSince.Time,
		MostWaiting: int(status.MostWaiting), Confirmed: int(status.Confirmed),
	}
}

// deletionStatus converts a decision into the status; nil if all fields are empty.
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

// recordDeletions writes the number of deletions into the status before the first deletion. So a restarted manager
// counts them. The end of the pass writes the other changes of the status.
func (r *Reconciler) recordDeletions(ctx context.Context, scope *helmOpScope, clusters []rollout.Cluster) error {
	begun, returned, pending := 0, 0, sets.New(scope.pendingDeletions...)
	for i, step := range scope.plan.Steps {
		switch {
		// The deletion does not count if the Cluster does not exist or is under deletion.
		case step.Action == rollout.ActionDelete && pending.Has(step.Cluster):
			begun++
		// A Cluster that existed before the rollout may be selected again.
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

// reportDeletions sets the condition DeletionsHeld. It records an Event when deletions begin to wait for a
// confirmation, and when they are confirmed.
func (r *Reconciler) reportDeletions(scope *helmOpScope) {
	helmOp, decision := scope.helmOp, &scope.deletions
	if decision.JustConfirmed {
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.DeletionsConfirmedEvent, verbDelete,
			fmt.Sprintf("The deletion of %s was confirmed by the annotation %s",
				plural.Count(len(scope.pendingDeletions), "release", "releases"), addonsv1.ConfirmDeletionsAnnotation))
	}
	if !decision.Held {
		conditions.Delete(helmOp, addonsv1.DeletionsHeldCondition)
		return
	}
	message := helmopstatus.HeldDeletions(scope.overview())
	began := !conditions.IsTrue(helmOp, addonsv1.DeletionsHeldCondition)
	report.SetCondition(helmOp, addonsv1.DeletionsHeldCondition, metav1.ConditionTrue, addonsv1.ConfirmationRequiredReason,
		message)
	if began {
		r.warn(helmOp, addonsv1.DeletionsHeldEvent, verbDelete, message)
	}
}
