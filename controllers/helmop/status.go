// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clustermove"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// report writes the results of the pass into the conditions and the status of the HelmOp.
func (r *Reconciler) report(scope *helmOpScope) {
	helmOp := scope.helmOp
	status := helmopstatus.Of(scope.statusPass(r.now()))
	if scope.selectorErr == nil {
		helmOp.Status.Clusters = &status.Counts
		helmOp.Status.Failures = status.Failures
		if len(scope.plan.Steps) == len(scope.clusters) {
			helmOp.Status.Rollout = status.Rollout
		}
		report.ClustersBeingMoved(helmOp, status.BeingMoved)
	}
	rollingOut, ready := status.RollingOut, status.Ready
	report.SetCondition(helmOp, addonsv1.RollingOutCondition, rollingOut.Status, rollingOut.Reason, rollingOut.Message)
	changed := report.SetCondition(helmOp, addonsv1.ReadyCondition, ready.Status, ready.Reason, ready.Message)
	if changed && status.IsWorthWarning {
		r.warn(helmOp, ready.Reason, "Reconcile", ready.Message)
	}
	if status.IsStalled {
		report.SetCondition(helmOp, addonsv1.StalledCondition, metav1.ConditionTrue, ready.Reason, ready.Message)
	} else {
		conditions.Delete(helmOp, addonsv1.StalledCondition)
	}
}

// statusPass returns the findings of the pass for the status of the HelmOp, including the Clusters.
func (s *helmOpScope) statusPass(now time.Time) *helmopstatus.Pass {
	pass := s.overview()
	pass.Now = now
	pass.Clusters = make([]helmopstatus.Cluster, 0, len(s.clusters))
	for _, c := range s.clusters {
		pass.Clusters = append(pass.Clusters, helmopstatus.Cluster{
			Name: c.name, Cluster: c.cluster, Child: c.child, Selected: c.selected, Awaited: c.awaited,
			OtherShard: c.otherShard,
			Err:        c.err, PinErr: c.pinErr, Blocked: c.blocked, Limits: c.limits, Step: c.step,
		})
	}
	return pass
}

// overview returns the findings of the pass without the Clusters. Events and the conditions about approvals and
// deletions need only these findings.
func (s *helmOpScope) overview() *helmopstatus.Pass {
	return &helmopstatus.Pass{
		HelmOp: s.helmOp, Artifact: s.artifact, DesiredNumber: s.desiredNumber(), Revisions: s.revisions,
		AwaitsRevisions: s.awaitsRevisions,
		Denied:          s.denied, UnknownAccess: s.unknownAccess, Strategy: s.strategy, Plan: s.plan,
		Approval: s.approval, Deletions: s.deletions, PendingDeletions: s.pendingDeletions,
		SelectorErr: s.selectorErr, ProgramErr: s.programErr, DependencyErr: s.dependencyErr,
		InvalidMaintenance: s.invalidMaintenance,
	}
}

// reportDeletion reports the progress of the deletion of a HelmOp, and the cause if the deletion waits.
func reportDeletion(helmOp *addonsv1.HelmOp, children []*addonsv1.HelmOpRelease, waiting int) {
	report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.DeletingReason,
		helmopstatus.DeletionProgress(children, waiting))
	// The deletion of the HelmOp confirms the waiting deletions.
	for _, condition := range []string{
		addonsv1.DeletionsHeldCondition, addonsv1.RollingOutCondition, addonsv1.StalledCondition, addonsv1.ApprovedCondition,
		addonsv1.ClusterBeingMovedCondition,
	} {
		conditions.Delete(helmOp, condition)
	}
	helmOp.Status.Deletions = nil
}

// reportMovable sets the condition Movable, which reports whether clusterctl move moves all referenced objects. The
// condition has the command that labels the objects without the label. The manager does not label them: users own and
// share Secrets and ConfigMaps, so the manager has no permission to write them.
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

// referencesOf returns the objects that a HelmOp refers to, as "<kind>/<name>". Objects for single Clusters are
// included.
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
