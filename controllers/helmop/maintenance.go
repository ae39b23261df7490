// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// checkMaintenance sets for each Cluster which changes of its release wait for maintenance, and why.
func (r *Reconciler) checkMaintenance(_ context.Context, scope *helmOpScope) error {
	policy := maintenance.PolicyOf(scope.helmOp.Spec.Maintenance)
	scope.invalidMaintenance = policy.Invalid()
	now := r.now()
	for _, c := range scope.clusters {
		if c.object == nil {
			continue
		}
		limits := policy.For(c.object.GetAnnotations())
		if c.limits = limits.At(now); !c.limits.Closed {
			continue
		}
		c.defers = rollout.Deferral{
			Changes: true, Opens: c.limits.Opens,
			Installations: limits.Covers(addonsv1.MaintenanceInstallation),
			Returns:       limits.Covers(addonsv1.MaintenanceRollback),
		}
	}
	return nil
}

// isDeferred reports whether a change of the release of a Cluster waits for maintenance: the plan does not assign the
// change, or the release has the change assigned and waits.
func isDeferred(c *clusterScope) bool {
	return c.step.Deferred && (c.child == nil || apiutil.IsReadyNow(c.child)) ||
		c.child != nil && apiutil.IsDeferred(c.child)
}

// deferredCondition is the condition Ready of a HelmOp while Clusters wait for maintenance and all others are up to
// date. Limits that cannot be read come first, because only a user can correct them.
func deferredCondition(scope *helmOpScope, s fleetSummary) (reason, message string) {
	message = fmt.Sprintf("%d of %s %s for maintenance", s.counts.Deferred,
		plural.Count(s.counts.Selected, "Cluster", "Clusters"), plural.Word(s.counts.Deferred, "waits", "wait"))
	var first *clusterScope
	for _, c := range scope.clusters {
		if c.selected && isDeferred(c) && c.limits.Closed && (first == nil || c.limits.Invalid && !first.limits.Invalid) {
			first = c
		}
	}
	if first == nil {
		return addonsv1.WaitingForMaintenanceReason, message
	}
	reason = addonsv1.WaitingForMaintenanceReason
	if first.limits.Invalid {
		reason = addonsv1.InvalidMaintenanceReason
	}
	return reason, message + "; " + first.name + ": " + first.limits.Why
}

// deferredDeletions is the number of releases of Clusters that are no longer selected whose deletion waits for
// maintenance, and why the first of them does.
func deferredDeletions(scope *helmOpScope) (n int, why string) {
	for _, c := range scope.clusters {
		if c.selected || !c.step.Deferred {
			continue
		}
		if n++; why == "" {
			why = c.name + ": " + c.limits.Why
		}
	}
	return n, why
}
