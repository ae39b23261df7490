// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// decideDeletions decides whether releases of unselected Clusters may be deleted, and updates the marks of confirmed
// deletions. If a mark cannot be written after a confirmation, all deletions still wait: the next pass repeats the
// confirmation.
func (r *Reconciler) decideDeletions(ctx context.Context, scope *helmOpScope, clusters []rollout.Cluster) error {
	in := r.deletionInput(scope, clusters)
	scope.deletions = brake.Decide(in)
	err := r.markConfirmed(ctx, scope, clusters)
	if err != nil && scope.deletions.JustConfirmed {
		in.Confirmation = ""
		scope.deletions = brake.Decide(in)
	}
	return err
}

// deletionInput returns the input of the decision about deletions. Two kinds of deletions uninstall nothing, so the
// decision does not limit them: the release is orphaned, or another HelmOp has taken over the release.
//
// The release of a paused Cluster that is no longer selected counts: its deletion begins when the pause ends. Without
// it, a pause of all these Clusters would end a wait, and clusterctl move unpauses Clusters one by one.
func (r *Reconciler) deletionInput(scope *helmOpScope, clusters []rollout.Cluster) brake.Input {
	helmOp := scope.helmOp
	now := r.now()
	in := brake.Input{
		State: deletionState(helmOp.Status.Deletions).Current(now), Max: helmOp.Spec.MaxDeletions,
		Confirmation: helmOp.Annotations[addonsv1.ConfirmDeletionsAnnotation], Now: now,
	}
	if helmOp.Spec.DeletionPolicy == addonsv1.DeletionPolicyOrphan {
		in.Max = new(intstr.FromString("100%"))
	}
	lost := r.lostReleases(helmOp, in.State)
	for i := range clusters {
		c := &clusters[i]
		isLeaving := rollout.IsLeaving(c)
		switch {
		case c.Child == nil || c.Gone || c.Deleting || c.NotServed || c.Child.Foreign || !c.Selected && c.Child.Deleting:
			continue
		case isLeaving && lost.Has(c.Name):
			// State counts this deletion. It failed, or the cache does not have it yet.
			continue
		}
		in.Total++
		isConfirmed := isLeaving && c.Child.Confirmed
		if c.Paused && !isConfirmed {
			in.Blocked++
		}
		if !isLeaving {
			continue
		}
		in.Pending = append(in.Pending, c.Name)
		switch {
		case isConfirmed:
			in.Confirmed++
		case c.Paused:
			in.BlockedPending++
		}
	}
	scope.pendingDeletions = in.Pending
	return in
}

// markConfirmed sets the annotation that marks a confirmed deletion on each release whose deletion was just confirmed.
// It removes the annotation from the releases of Clusters that are selected again. A Cluster that only seems to be
// selected, because its release is kept, keeps the annotation. So a confirmation is valid only for the releases that
// waited when it was given. The annotation survives a restart and clusterctl move.
func (r *Reconciler) markConfirmed(ctx context.Context, scope *helmOpScope, clusters []rollout.Cluster) error {
	pending := sets.Set[string]{}
	if scope.deletions.JustConfirmed {
		pending.Insert(scope.pendingDeletions...)
	}
	var changed []int
	for i := range clusters {
		c := &clusters[i]
		if c.Child == nil || c.Child.Deleting {
			continue
		}
		if c.Child.Confirmed && c.Selected && !scope.clusters[i].kept || !c.Child.Confirmed && pending.Has(c.Name) {
			c.Child.Confirmed = !c.Child.Confirmed
			changed = append(changed, i)
		}
	}
	return r.writeEach(ctx, scope, changed, func(ctx context.Context, c *clusterScope) error {
		value := "null"
		if !c.selected {
			value = strconv.Quote(scope.helmOp.Annotations[addonsv1.ConfirmDeletionsAnnotation])
		}
		// With the UID, the API server refuses the patch of a HelmOpRelease that was re-created meanwhile.
		data := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, c.child.UID,
			addonsv1.DeletionConfirmedAnnotation, value)
		marked := c.child.DeepCopy()
		if err := r.client.Patch(ctx, marked, client.RawPatch(types.MergePatchType, data)); err != nil {
			return client.IgnoreNotFound(err)
		}
		c.child = marked
		return nil
	})
}

// deletionState converts the deletions in a status into the state that the decision needs.
func deletionState(status *addonsv1.DeletionStatus) brake.State {
	if status == nil {
		return brake.State{}
	}
	return brake.State{
		Recent: int(status.Recent), LastAt: status.LastAt.Time, WaitingSince: status.WaitingSince.Time,
		MostLost: int(status.MostLost), WaitingTotal: int(status.WaitingTotal),
	}
}

// deletionStatus converts a decision into the status; nil if all fields are empty. confirmed is the number of the
// pending deletions that are confirmed and do not begin in this pass.
func deletionStatus(decision *brake.Decision, pending, confirmed int) *addonsv1.DeletionStatus {
	s := decision.State
	status := &addonsv1.DeletionStatus{Confirmed: int32(confirmed), Recent: int32(s.Recent),
		MostLost: int32(s.MostLost), WaitingTotal: int32(s.WaitingTotal)}
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

// recordDeletions writes the number of unconfirmed deletions into the status before the first of these deletions. So a
// restarted manager counts them. The end of the pass writes the other changes of the status.
func (r *Reconciler) recordDeletions(ctx context.Context, scope *helmOpScope, clusters []rollout.Cluster) error {
	var begun []string
	returned, confirmed, pending := 0, 0, sets.New(scope.pendingDeletions...)
	lost := r.lostReleases(scope.helmOp, scope.deletions.State)
	for i, step := range scope.plan.Steps {
		// The deletion does not count if the Cluster does not exist or is under deletion.
		isPending, begins := pending.Has(step.Cluster), step.Action == rollout.ActionDelete
		switch {
		case isPending && begins && !clusters[i].Child.Confirmed:
			begun = append(begun, step.Cluster)
		case isPending && !begins && clusters[i].Child.Confirmed:
			confirmed++
		case step.Action == rollout.ActionCreate && lost.Has(step.Cluster):
			// The Cluster is selected again. If the creation fails, it is repeated, but counts only once.
			lost.Delete(step.Cluster)
			returned++
		}
	}
	helmOp, decision := scope.helmOp, &scope.deletions
	before := helmOp.DeepCopy()
	decision.State = decision.State.Return(returned).Begin(len(begun), r.now())
	helmOp.Status.Deletions = deletionStatus(decision, len(scope.pendingDeletions), confirmed)
	if len(begun) == 0 {
		return nil
	}
	if !equality.Semantic.DeepEqual(before.Status.Deletions, helmOp.Status.Deletions) {
		written := before.DeepCopy()
		written.Status.Deletions = helmOp.Status.Deletions.DeepCopy()
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Status().Patch(ctx, written, patch); err != nil {
			return fmt.Errorf("recording deletions of HelmOp %s/%s: %w", helmOp.Namespace, helmOp.Name, err)
		}
	}
	// The stored state counts these releases.
	lost.Insert(begun...)
	return nil
}

// lostReleases returns the Clusters that lost their release in the present loss, as far as this process knows them.
func (r *Reconciler) lostReleases(helmOp *addonsv1.HelmOp, state brake.State) sets.Set[string] {
	known := r.memories.Of(client.ObjectKeyFromObject(helmOp))
	if known.lost == nil || state.Recent == 0 {
		known.lost = sets.Set[string]{}
	}
	return known.lost
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
