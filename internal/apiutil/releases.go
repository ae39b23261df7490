// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// ClusterIndex is the name of the cache index of HelmOpReleases by the "<namespace>/<name>" of their Cluster. The
	// index has the HelmOpReleases of all namespaces.
	ClusterIndex = "spec.clusterRef"

	// DependsOnIndex is the name of two cache indexes by spec.dependsOn: of HelmOps by the names of their dependencies,
	// and of HelmOpReleases by DependencyKey.
	DependsOnIndex = "spec.dependsOn"

	// HelmOpIndex is the name of the cache index of HelmOpReleases by the value of the label HelmOpNameLabel.
	HelmOpIndex = "metadata.labels.helmop-name"

	// UIDIndex is the name of the cache index of HelmOpReleases by the beginning of their UID. An index by the whole UID
	// would have two sets with one element for each HelmOpRelease.
	UIDIndex = "metadata.uid"

	// uidKeyBytes is the length of the keys in UIDIndex, in bytes: two hexadecimal digits divide the HelmOpReleases of a
	// namespace into 256 sets.
	uidKeyBytes = 2
)

// blockedReasons are the reasons of a release that waits for other releases.
var blockedReasons = map[string]bool{
	addonsv1.WaitingForDependenciesReason: true,
	addonsv1.DependencyCycleReason:        true,
	addonsv1.InvalidDependencyReason:      true,
}

// IsHelmOpPaused reports whether a HelmOp is paused, by spec.paused or by the annotation.
func IsHelmOpPaused(helmOp *addonsv1.HelmOp) bool {
	return helmOp.Spec.Paused || annotations.HasPaused(helmOp)
}

// maxPauseReason is the limit, in bytes, of the value of the paused annotation in a message.
const maxPauseReason = 512

// PauseReason returns why a release is paused, by its Cluster, its HelmOp or its own annotation. It is empty if the
// release is not paused. cluster and helmOp are nil if they do not exist.
func PauseReason(cluster *clusterv1.Cluster, helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease) string {
	switch {
	case cluster != nil && IsClusterPaused(cluster):
		return "The Cluster is paused"
	case helmOp != nil && helmOp.Spec.Paused:
		return "The HelmOp is paused (spec.paused)"
	case helmOp != nil && annotations.HasPaused(helmOp):
		return "The HelmOp has the paused annotation"
	case IsChildPaused(release):
		why := "This HelmOpRelease has the paused annotation"
		if value := release.Annotations[clusterv1.PausedAnnotation]; value != "" && value != "true" {
			why += ": " + Truncate(value, maxPauseReason)
		}
		return why
	default:
		return ""
	}
}

// SiblingsOf returns the other releases in the Cluster of a release, by the names of their HelmOps. It returns only
// releases of the same namespace. They point into the cache and must not be changed.
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

// ByHelmOp returns releases by the names of their HelmOps. It leaves out the release in the argument without, and
// releases that no HelmOp controls.
func ByHelmOp(releases []addonsv1.HelmOpRelease, without *addonsv1.HelmOpRelease) map[string]*addonsv1.HelmOpRelease {
	named := make(map[string]*addonsv1.HelmOpRelease, len(releases))
	for i := range releases {
		if name := HelmOpOf(&releases[i]); name != "" && releases[i].Name != without.Name {
			named[name] = &releases[i]
		}
	}
	return named
}

// IsAwaiting reports whether the Ready condition says that a release waits for other releases.
func IsAwaiting(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionFalse && blockedReasons[ready.Reason]
}

// WaitsForImages reports whether the Ready condition says that a release waits for images in registries.
func WaitsForImages(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionFalse &&
		(ready.Reason == addonsv1.ImagesMissingReason || ready.Reason == addonsv1.ImagesUnknownReason)
}

// IsDeferred reports whether a release waits for maintenance before its current spec takes effect.
func IsDeferred(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == addonsv1.WaitingForMaintenanceReason &&
		ready.ObservedGeneration == release.Generation
}

// IsReadyNow reports whether a release is Ready for its current generation and is not being deleted.
func IsReadyNow(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == release.Generation &&
		release.DeletionTimestamp.IsZero()
}

// LimitsDeletions reports whether the releases of a HelmOp under deletion wait until HelmOp admits their deletions.
// They wait if the HelmOp sets maxUnavailable and its releases are uninstalled, not orphaned.
func LimitsDeletions(helmOp *addonsv1.HelmOp) bool {
	spec := helmOp.Spec.Rollout
	if spec == nil || IsOrphaning(helmOp) || helmOp.Spec.DeletionPolicy == addonsv1.DeletionPolicyOrphan {
		return false
	}
	return spec.MaxUnavailable != nil ||
		slices.ContainsFunc(spec.Waves, func(wave addonsv1.Wave) bool { return wave.MaxUnavailable != nil })
}

// IsDeletionAdmitted reports whether a release of a HelmOp under deletion is being deleted without a further wait: its
// deletion was admitted, or the HelmOp does not limit deletions.
func IsDeletionAdmitted(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	return !child.DeletionTimestamp.IsZero() && (IsAdmittedBy(child, helmOp.UID) || !LimitsDeletions(helmOp))
}

// IsAdmittedBy reports whether the annotation of a HelmOpRelease permits its uninstallation for the HelmOp with a UID.
func IsAdmittedBy(child *addonsv1.HelmOpRelease, helmOp types.UID) bool {
	return helmOp != "" && child.Annotations[addonsv1.DeletionAdmittedAnnotation] == string(helmOp)
}

// IsOrphaning reports whether a HelmOp is being deleted with "kubectl delete --cascade=orphan", so that its releases
// stay in their clusters. Garbage collection first removes the owner references from the HelmOpReleases, and then this
// finalizer; see isOrphaned in package helmop.
func IsOrphaning(helmOp *addonsv1.HelmOp) bool {
	return !helmOp.DeletionTimestamp.IsZero() && controllerutil.ContainsFinalizer(helmOp, metav1.FinalizerOrphanDependents)
}

// SourceDigest returns a digest of the fields of a source that decide what HelmOp looks up in a registry. The digest
// does not include the interval and the credentials.
func SourceDigest(source *addonsv1.ArtifactSource) (string, error) {
	parts := []any{source.URL, source.Ref, source.Insecure, source.LayerSelector}
	// Fields that later versions of HelmOp added count only if they are set: statuses contain digests from before.
	if other := Selected(source); other.Format != "" || other.Path != "" || other.Templating != "" {
		parts = append(parts, other.Format, other.Path, other.Templating)
	}
	if source.Chart != "" {
		parts = append(parts, source.Chart)
	}
	return DigestOf(parts...)
}

// ProgressReasons are the reasons in the Ready condition of a release that is not Ready and has not failed.
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
	addonsv1.WaitingForMaintenanceReason:      true,
	addonsv1.ImagesMissingReason:              true,
	addonsv1.ImagesUnknownReason:              true,
	addonsv1.AdoptionPendingReason:            true,
	addonsv1.OtherShardReason:                 true,
}

// ReachabilityOf returns the condition ClusterReachable of a release; nil if it is not known whether the API server of
// the Cluster answers. While a release is paused, or waits for its deletion, HelmOp does not connect to the Cluster.
// Then the condition is of an earlier time. A pass that sets the condition to False gives Ready the same reason. So if
// Ready has another reason, a later pass ended before it knew whether the API server answers.
func ReachabilityOf(release *addonsv1.HelmOpRelease) *metav1.Condition {
	known := conditions.Get(release, addonsv1.ClusterReachableCondition)
	if known == nil || conditions.IsTrue(release, addonsv1.PausedCondition) || known.Status == metav1.ConditionFalse &&
		known.Reason != conditions.GetReason(release, addonsv1.ReadyCondition) {
		return nil
	}
	return known
}

// RetryAwaitsMaintenance begins the message of a failed release whose next try waits for maintenance. A requested retry
// waits, too.
const RetryAwaitsMaintenance = "The next try waits for maintenance"

// RevisionOf returns the number of the HelmOp revision that is assigned to a release; 0 if it is not known.
func RevisionOf(child *addonsv1.HelmOpRelease) int64 {
	if child == nil || child.Spec.Rollout == nil {
		return 0
	}
	return child.Spec.Rollout.Revision
}

// HasFormerStatus reports whether the status of a release is about a former Cluster with the same name. A release that
// clusterctl moved, or that was restored from a backup, has no status: its Cluster has another UID, but is the same.
func HasFormerStatus(release *addonsv1.HelmOpRelease, cluster client.Object) bool {
	former := release.Status.ClusterUID
	return former != "" && former != string(cluster.GetUID())
}

// IsOfFormerCluster reports whether the HelmOp revision of a release was assigned to a former Cluster with the same
// name, and the release has not been Ready in the present Cluster. The present Cluster is new.
func IsOfFormerCluster(release *addonsv1.HelmOpRelease) bool {
	assigned := release.Spec.Rollout
	return assigned != nil && assigned.At.Before(&release.Status.ClusterRecreatedAt)
}

// HasJoined reports whether the Cluster of a release was new when the release got its HelmOp revision.
func HasJoined(release *addonsv1.HelmOpRelease) bool {
	assigned := release.Spec.Rollout
	return assigned != nil && (assigned.Reason == addonsv1.ReleaseRolloutJoined || IsOfFormerCluster(release))
}

// MustNotAdopt reports whether a HelmOpRelease must not change an existing release of another owner, or of a lost
// HelmOpRelease: its Cluster is new, or HelmOp has created the HelmOpRelease, and the rollout has not reached it since.
func MustNotAdopt(release *addonsv1.HelmOpRelease) bool {
	_, isFirst := release.Annotations[addonsv1.FirstAssignedAnnotation]
	return HasJoined(release) || isFirst && release.Spec.Rollout != nil
}

// PinOf returns the number of the HelmOp revision to which a user has pinned a release, and whether there is a pin. The
// number is 0 if the annotation is not a number.
func PinOf(child *addonsv1.HelmOpRelease) (number int64, pinned bool) {
	if child == nil {
		return 0, false
	}
	value, pinned := child.Annotations[addonsv1.PinnedRevisionAnnotation]
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil || number < 0 {
		number = 0
	}
	return number, pinned
}

// IsChildPaused reports whether a HelmOpRelease itself has the paused annotation.
func IsChildPaused(release *addonsv1.HelmOpRelease) bool {
	return annotations.HasPaused(release)
}

// DeletionPolicy returns the deletion policy of the HelmOp if the HelmOp exists and sets one: the policy may have
// changed after HelmOp wrote the spec of the release. Otherwise it returns the policy of the release. helmOp is nil if
// the HelmOp does not exist.
func DeletionPolicy(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp) addonsv1.DeletionPolicy {
	if helmOp != nil && helmOp.Spec.DeletionPolicy != "" {
		return helmOp.Spec.DeletionPolicy
	}
	return release.Spec.DeletionPolicy
}

// WaitsForAdmission reports whether a release must not be uninstalled yet, because its HelmOp is under deletion and has
// not admitted the deletion of the release.
func WaitsForAdmission(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease) bool {
	return helmOp != nil && !helmOp.DeletionTimestamp.IsZero() && !IsDeletionAdmitted(helmOp, release)
}

// ClustersOfRelease returns the keys of a HelmOpRelease in ClusterIndex.
func ClustersOfRelease(obj client.Object) []string {
	return []string{ClusterKey(obj.(*addonsv1.HelmOpRelease)).String()}
}

// DependencyKey returns the key in DependsOnIndex of the HelmOpReleases in a Cluster that depend on a HelmOp.
func DependencyKey(cluster client.ObjectKey, helmOp string) string {
	return cluster.String() + "/" + helmOp
}

// DependenciesOfRelease returns the keys of a HelmOpRelease in DependsOnIndex.
func DependenciesOfRelease(obj client.Object) []string {
	release := obj.(*addonsv1.HelmOpRelease)
	keys := make([]string, 0, len(release.Spec.DependsOn))
	for i := range release.Spec.DependsOn {
		keys = append(keys, DependencyKey(ClusterKey(release), release.Spec.DependsOn[i].Name))
	}
	return keys
}

// DependenciesOfHelmOp returns the keys of a HelmOp in DependsOnIndex.
func DependenciesOfHelmOp(obj client.Object) []string {
	helmOp := obj.(*addonsv1.HelmOp)
	names := make([]string, 0, len(helmOp.Spec.DependsOn))
	for i := range helmOp.Spec.DependsOn {
		names = append(names, helmOp.Spec.DependsOn[i].Name)
	}
	return names
}

// HelmOpsOfRelease returns the keys of a HelmOpRelease in HelmOpIndex.
func HelmOpsOfRelease(obj client.Object) []string {
	return []string{obj.GetLabels()[addonsv1.HelmOpNameLabel]}
}

// ReleasesOf selects the same HelmOpReleases as ChildSelector, for lists from a cache. The cache compares the labels of
// all releases in the namespace with a label selector. The index finds the releases without the others.
func ReleasesOf(helmOp *addonsv1.HelmOp) client.MatchingFields {
	return client.MatchingFields{HelmOpIndex: ChildSelector(helmOp)[addonsv1.HelmOpNameLabel]}
}

// UIDsOfRelease returns the keys of a HelmOpRelease in UIDIndex.
func UIDsOfRelease(obj client.Object) []string { return []string{uidKey(obj.GetUID())} }

func uidKey(uid types.UID) string { return string(uid[:min(uidKeyBytes, len(uid))]) }

// ReleaseWithUID returns the HelmOpRelease of a namespace that has a UID, or nil. It points into the cache and must not
// be changed.
func ReleaseWithUID(ctx context.Context, reader client.Reader, namespace string, uid types.UID,
) (*addonsv1.HelmOpRelease, error) {
	similar := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, similar, client.InNamespace(namespace), client.MatchingFields{UIDIndex: uidKey(uid)},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the HelmOpRelease with the UID %s: %w", uid, err)
	}
	for i := range similar.Items {
		if similar.Items[i].UID == uid {
			return &similar.Items[i], nil
		}
	}
	return nil, nil
}

// ChildrenOfCluster returns the HelmOpReleases of a Cluster in all namespaces. They point into the cache and must not
// be changed. It logs an error and returns nil if the list fails.
func ChildrenOfCluster(ctx context.Context, reader client.Reader, cluster client.ObjectKey) []addonsv1.HelmOpRelease {
	children := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, children, client.MatchingFields{ClusterIndex: cluster.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the releases of the Cluster", "Cluster", cluster)
		return nil
	}
	return children.Items
}

// ChildrenOfHelmOp returns the HelmOpReleases of a HelmOp. They point into the cache and must not be changed. It logs
// an error and returns nil if the list fails.
func ChildrenOfHelmOp(ctx context.Context, reader client.Reader, helmOp *addonsv1.HelmOp) []addonsv1.HelmOpRelease {
	children := &addonsv1.HelmOpReleaseList{}
	if err := reader.List(ctx, children, client.InNamespace(helmOp.Namespace),
		ReleasesOf(helmOp), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the releases of the HelmOp", "HelmOp",
			client.ObjectKeyFromObject(helmOp))
		return nil
	}
	return children.Items
}
