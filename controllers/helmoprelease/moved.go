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

// verbPause is what is done where objects of a release were moved.
const verbPause = "Pause"

// stopsForMove pauses a release of the management cluster whose objects clusterctl move has taken to another one, and
// reports whether it did. To put the objects back, for drift or with the next upgrade, would have two management
// clusters work on the same infrastructure. A restarted manager sees no more than that they are gone, so the pause is
// an annotation.
func (r *Reconciler) stopsForMove(ctx context.Context, p *releasePass) bool {
	if apiutil.ClusterKey(p.release) != clusterlink.Management {
		// In a workload cluster, a user could set the annotation of clusterctl to keep a release from being changed.
		return false
	}
	moved := movedObjects(p.snapshot)
	if len(moved) == 0 {
		return false
	}
	why := fmt.Sprintf("clusterctl move took %s to another management cluster", listFew(moved, ", "))
	message := fmt.Sprintf("Paused release %s: %s. Go on there, and delete the HelmOp here or take what was moved out "+
		"of its artifact; "+
		"then remove the annotation %s of this HelmOpRelease", describe(p.release), why, clusterv1.PausedAnnotation)
	ctrl.LoggerFrom(ctx).Info("Pausing a release whose objects were moved", "objects", len(moved))
	if p.release.Annotations == nil {
		p.release.Annotations = map[string]string{}
	}
	p.release.Annotations[clusterv1.PausedAnnotation] = why
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.ObjectsMovedEvent, verbPause, message)
	report.SetPaused(p.release, true, pauseOf(p.releaseScope))
	// What was seen to be moved is told. Who removes the annotation wants the objects that are missing then.
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return true
}

// movedObjects are the objects that were moved, in a fixed order.
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
	// What a Cluster consists of goes with it.
	slices.SortStableFunc(moved, func(a, b inventory.Ref) int { return cmp.Compare(clusterRank(a), clusterRank(b)) })
	return moved
}

// clusterRank is lower for Clusters than for all else.
func clusterRank(ref inventory.Ref) int {
	if ref.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
		return 0
	}
	return 1
}
