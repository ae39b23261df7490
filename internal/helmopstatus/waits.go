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

// isBlocked reports whether the release of a Cluster waits for dependencies or images: its condition says so, or it is
// Ready and the desired revision is not assigned to it because of a dependency. A release that has the desired revision
// stays as it is when a dependency is no longer ready. The API server of the Cluster answers.
func isBlocked(c *Cluster) bool {
	if c.Child == nil || !c.Selected {
		return false
	}
	return apiutil.IsAwaiting(c.Child) || apiutil.WaitsForImages(c.Child) ||
		c.Blocked != "" && !c.Step.Assigned && apiutil.IsReadyNow(c.Child)
}

// blockedCondition is the condition Ready of a HelmOp while Clusters wait for dependencies or images. It names the
// first Cluster, and why it waits. Dependencies come first: images are looked up when the dependencies are ready.
func blockedCondition(p *Pass, s summary) (reason, message string) {
	var first *Cluster
	forImages := int32(0)
	for i := range p.Clusters {
		c := &p.Clusters[i]
		// Only Clusters that the summary counts as blocked.
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

// isDeferred reports whether a change of the release of a Cluster waits for maintenance: the plan does not assign the
// change, or the release has the change assigned and waits.
func isDeferred(c *Cluster) bool {
	return c.Step.Deferred && (c.Child == nil || apiutil.IsReadyNow(c.Child)) ||
		c.Child != nil && apiutil.IsDeferred(c.Child)
}

// deferredCondition is the condition Ready of a HelmOp while Clusters wait for maintenance and all others are up to
// date. Limits that cannot be read come first, because only a user can correct them.
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
