// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// verbPause is the action in the Event when a release is paused because its objects were moved.
const verbPause = "Pause"

// stopsForMove pauses a release in the management cluster whose objects clusterctl move has moved to another management
// cluster, and reports whether it did. If HelmOp created the objects again, for drift or with the next upgrade, two
// management clusters would manage the same infrastructure. The pause is an annotation, because a restarted manager
// sees only that the objects do not exist.
func (r *Reconciler) stopsForMove(ctx context.Context, p *releasePass) bool {
	if apiutil.ClusterKey(p.release) != clusterlink.Management {
		// In a workload cluster, a user could set the annotation of clusterctl to keep a release from being changed.
		return false
	}
	moved := movedObjects(p.snapshot)
	if len(moved) == 0 {
		return false
	}
	why := fmt.Sprintf("clusterctl move moved %s to another management cluster", apiutil.ListObjects(moved, ", "))
	message := fmt.Sprintf("Paused release %s: %s. Manage the objects there. Here, delete the HelmOp, or remove the "+
		"moved objects from its artifact and then the annotation %s from this HelmOpRelease", describe(p.release), why,
		clusterv1.PausedAnnotation)
	ctrl.LoggerFrom(ctx).Info("Pausing a release whose objects were moved", "objects", len(moved))
	if p.release.Annotations == nil {
		p.release.Annotations = map[string]string{}
	}
	p.release.Annotations[clusterv1.PausedAnnotation] = why
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.ObjectsMovedEvent, verbPause, message)
	report.SetPaused(p.release, true, apiutil.PauseReason(p.cluster, p.helmOp, p.release))
	// Drop the state, so that HelmOp creates the missing objects again if a user removes the annotation.
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return true
}

// movedObjects returns the objects that were moved, in a fixed order: Clusters first.
func movedObjects(snapshot *objectwatch.Snapshot) []inventory.Ref {
	if snapshot == nil {
		return nil
	}
	var moved []inventory.Ref
	for ref, state := range snapshot.Objects {
		if state.Moved {
			moved = append(moved, ref)
		}
	}
	inventory.Sort(moved)
	// The other objects are mostly parts of a Cluster, so a message names Clusters first.
	slices.SortStableFunc(moved, func(a, b inventory.Ref) int { return cmp.Compare(clusterRank(a), clusterRank(b)) })
	return moved
}

// clusterRank returns a sort key, which is lower for Clusters than for other objects.
func clusterRank(ref inventory.Ref) int {
	if ref.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
		return 0
	}
	return 1
}
