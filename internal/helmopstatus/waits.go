// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"fmt"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// isBlocked reports whether the release of a Cluster waits for dependencies or images. There are two cases. Either a
// condition of the release reports the wait, or the release is Ready and a dependency prevents the assignment of the
// desired revision. If the release already has the desired revision, a dependency that stops being ready has no effect.
// Callers must check first whether the API server of the Cluster responds.
func isBlocked(c *Cluster) bool {
	if c.Child == nil || !c.Selected {
		return false
	}
	return apiutil.IsAwaiting(c.Child) || apiutil.WaitsForImages(c.Child) ||
		c.Blocked != "" && !c.Step.Assigned && apiutil.IsReadyNow(c.Child)
}

// blockedCondition returns the condition Ready of a HelmOp while Clusters wait for dependencies or images. The message
// has the first Cluster and its reason. Dependencies have priority: images are looked up only after the dependencies
// are ready.
func blockedCondition(p *Pass, s summary) (reason, message string) {
	var first *Cluster
	forImages := int32(0)
	for i := range p.Clusters {
		c := &p.Clusters[i]
		// A Cluster in another phase is not blocked.
		if phase, _ := phaseOf(c, p.DesiredNumber); phase != phaseBlocked || !c.Cluster.DeletionTimestamp.IsZero() {
			continue
		}
		if apiutil.WaitsForImages(c.Child) {
			forImages++
		}
		if first == nil || apiutil.WaitsForImages(first.Child) && !apiutil.WaitsForImages(c.Child) {
			first = c
		}
	}
	n, what := s.counts.Blocked-forImages, "dependencies"
	reason = addonsv1.WaitingForDependenciesReason
	if first != nil && apiutil.WaitsForImages(first.Child) {
		n, what, reason = forImages, "images", conditions.GetReason(first.Child, addonsv1.ReadyCondition)
	}
	message = fmt.Sprintf("%d of %s %s for %s", n, plural.Count(s.counts.Selected, "Cluster", "Clusters"),
		plural.Word(n, "waits", "wait"), what)
	if first == nil {
		return reason, message
	}
	why := first.Blocked
	if ready := conditions.Get(first.Child, addonsv1.ReadyCondition); ready != nil &&
		(why == "" || apiutil.WaitsForImages(first.Child)) {
		why = ready.Message
	}
	return reason, message + "; " + first.Name + ": " + why
}

// isDeferred reports whether the release in a Cluster must wait for maintenance before a change. Either the plan does
// not assign the change yet, or the change is assigned and the release reports the wait.
func isDeferred(c *Cluster) bool {
	return c.Step.Deferred && (c.Child == nil || apiutil.IsReadyNow(c.Child)) ||
		c.Child != nil && apiutil.IsDeferred(c.Child)
}

// deferredCondition returns the condition Ready of a HelmOp while Clusters wait for maintenance and all others are up
// to date. Limits that are not valid have priority, because only a user can correct them.
func deferredCondition(p *Pass, s summary) (reason, message string) {
	message = fmt.Sprintf("%d of %s %s for maintenance", s.counts.Deferred,
		plural.Count(s.counts.Selected, "Cluster", "Clusters"), plural.Word(s.counts.Deferred, "waits", "wait"))
	var first *Cluster
	for i := range p.Clusters {
		c := &p.Clusters[i]
		if c.Selected && isDeferred(c) && c.Limits.Closed && (first == nil || c.Limits.Invalid && !first.Limits.Invalid) {
			first = c
		}
	}
	if first == nil {
		return addonsv1.WaitingForMaintenanceReason, message
	}
	reason = addonsv1.WaitingForMaintenanceReason
	if first.Limits.Invalid {
		reason = addonsv1.InvalidMaintenanceReason
	}
	return reason, message + "; " + first.Name + ": " + first.Limits.Why
}
