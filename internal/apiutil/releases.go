// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// ClusterIndex finds the HelmOpReleases of a Cluster, of whatever namespace they are, by its "<namespace>/<name>".
	ClusterIndex = "spec.clusterRef"
)

// blockedReasons are the reasons of a release that waits for others.
var blockedReasons = map[string]bool{
	addonsv1.WaitingForDependenciesReason: true,
	addonsv1.DependencyCycleReason:        true,
	addonsv1.InvalidDependencyReason:      true,
}

// IsHelmOpPaused tells whether nothing is to be done for a HelmOp.
func IsHelmOpPaused(helmOp *addonsv1.HelmOp) bool {
	return helmOp.Spec.Paused || annotations.HasPaused(helmOp)
}

// SiblingsOf are the releases, of the HelmOps of the same namespace, in the Cluster of a release, by the names of their
// HelmOps. They are those of the cache: they must not be changed.
func SiblingsOf(ctx context.Context, reader client.Reader,
	release *addonsv1.HelmOpRelease,
) (map[string]*addonsv1.HelmOpRelease, error) {
	list := &addonsv1.HelmOpReleaseList{}
	cluster := ClusterKey(release)
	err := reader.List(ctx, list, client.InNamespace(release.Namespace),
		client.MatchingFields{ClusterIndex: cluster.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the releases of Cluster %s: %w", cluster, err)
	}
	return ByHelmOp(list.Items, release), nil
}

// ByHelmOp are releases by the names of their HelmOps, without one.
func ByHelmOp(releases []addonsv1.HelmOpRelease, without *addonsv1.HelmOpRelease) map[string]*addonsv1.HelmOpRelease {
	named := make(map[string]*addonsv1.HelmOpRelease, len(releases))
	for i := range releases {
		if name := HelmOpOf(&releases[i]); name != "" && releases[i].Name != without.Name {
			named[name] = &releases[i]
		}
	}
	return named
}

// IsAwaiting tells whether a release says that it waits for others.
func IsAwaiting(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionFalse && blockedReasons[ready.Reason]
}

// IsReadyNow tells whether a release is ready as it was last told.
func IsReadyNow(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == release.Generation &&
		release.DeletionTimestamp.IsZero()
}

// EndsInTurn tells whether the releases of a HelmOp under deletion wait for their turn: it has limits, and something is
// uninstalled.
func EndsInTurn(helmOp *addonsv1.HelmOp) bool {
	spec := helmOp.Spec.Rollout
	if spec == nil || IsOrphaning(helmOp) || helmOp.Spec.DeletionPolicy == addonsv1.DeletionPolicyOrphan {
		return false
	}
	return spec.MaxUnavailable != nil ||
		slices.ContainsFunc(spec.Waves, func(wave addonsv1.Wave) bool { return wave.MaxUnavailable != nil })
}

// IsEnding tells whether a child of a HelmOp under deletion ends, and does not wait for its turn.
func IsEnding(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	return !child.DeletionTimestamp.IsZero() &&
		(child.Annotations[addonsv1.DeletionAdmittedAnnotation] == "true" || !EndsInTurn(helmOp))
}

// IsOrphaning tells whether a HelmOp under deletion is to leave its releases in their clusters. Garbage collection
// removes the finalizer when it has taken the owner references from the children, see isOrphaned.
func IsOrphaning(helmOp *addonsv1.HelmOp) bool {
	return !helmOp.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(helmOp, metav1.FinalizerOrphanDependents)
}

// SourceDigest identifies what is asked of a registry. How often and with which credentials does not belong to it.
func SourceDigest(source *addonsv1.ArtifactSource) (string, error) {
	parts := []any{source.URL, source.Ref, source.Insecure, source.LayerSelector}
	// What came later is not in the digests of sources that do without: these are recorded.
	if other := Selected(source); other.Format != "" || other.Path != "" || other.Templating != "" {
		parts = append(parts, other.Format, other.Path, other.Templating)
	}
	return DigestOf(parts...)
}

// ProgressReasons are the reasons of a release that is not ready and not failed either.
var ProgressReasons = map[string]bool{
	"":                                        true,
	addonsv1.ProgressingReason:                true,
	addonsv1.UpdatingReason:                   true,
	addonsv1.FetchingArtifactReason:           true,
	addonsv1.ResolvingReason:                  true,
	addonsv1.DeletingReason:                   true,
	addonsv1.ClusterDeletingReason:            true,
	addonsv1.ClusterNotFoundReason:            true,
	addonsv1.ControlPlaneNotInitializedReason: true,
	addonsv1.WaitingForDependenciesReason:     true,
	addonsv1.OtherShardReason:                 true,
}

// RevisionOf is the number of the revision that a child is made from; 0 if it is none that is known.
func RevisionOf(child *addonsv1.HelmOpRelease) int64 {
	if child == nil || child.Spec.Rollout == nil {
		return 0
	}
	return child.Spec.Rollout.Revision
}

// IsChildPaused tells whether a release is paused on its own.
func IsChildPaused(release *addonsv1.HelmOpRelease) bool {
	return annotations.HasPaused(release)
}

// DeletionPolicy is the HelmOp's as long as there is one: it may have changed after the spec of the release was
// written. The HelmOp is nil if it is gone.
func DeletionPolicy(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) addonsv1.DeletionPolicy {
	if helmOp != nil && helmOp.Spec.DeletionPolicy != "" {
		return helmOp.Spec.DeletionPolicy
	}
	return release.Spec.DeletionPolicy
}

// WaitsForTurn tells whether a release under deletion may not be uninstalled yet, because its HelmOp is under deletion,
// too.
func WaitsForTurn(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease) bool {
	return helmOp != nil && !helmOp.DeletionTimestamp.IsZero() && !IsEnding(helmOp, release)
}

// ClustersOfRelease is what ClusterIndex holds of a HelmOpRelease.
func ClustersOfRelease(obj client.Object) []string {
	return []string{ClusterKey(obj.(*addonsv1.HelmOpRelease)).String()}
}

// ChildrenOfCluster are the HelmOpReleases of a Cluster, those of other namespaces among them. They must not be
// changed.
func ChildrenOfCluster(ctx context.Context, reader client.Reader, cluster client.ObjectKey) []addonsv1.HelmOpRelease {
	children := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, children, client.MatchingFields{ClusterIndex: cluster.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the releases of a Cluster", "Cluster", cluster)
		return nil
	}
	return children.Items
}

// ChildrenOfHelmOp are the HelmOpReleases of a HelmOp. They must not be changed.
func ChildrenOfHelmOp(ctx context.Context, reader client.Reader, helmOp *addonsv1.HelmOp) []addonsv1.HelmOpRelease {
	children := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, children, client.InNamespace(helmOp.Namespace),
		client.MatchingLabels(ChildSelector(helmOp)),
		client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the releases of a HelmOp", "HelmOp", client.ObjectKeyFromObject(helmOp))
		return nil
	}
	return children.Items
}
