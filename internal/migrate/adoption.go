// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// IsAdopted reports whether a HelmOpRelease has adopted a release. Otherwise, missing says what is missing. child is
// nil if there is no HelmOpRelease. IsAdopted ignores the health of the release, because an adoption does not change
// the health.
func IsAdopted(release *Release, child *addonsv1.HelmOpRelease) (adopted bool, missing string) {
	where := fmt.Sprintf("Cluster %s", release.Cluster.Name)
	if child == nil {
		return false, where + ": HelmOp has not assigned the release yet"
	}
	want := addonsv1.ReleaseIdentity{Name: release.Name, Namespace: release.Namespace}
	released := conditions.Get(child, addonsv1.ReleasedCondition)
	switch {
	case child.DeletionTimestamp != nil:
		return false, where + ": the HelmOpRelease is being deleted"
	case child.Spec.Release != want:
		return false, fmt.Sprintf("%s: HelmOp names the release %s/%s, and the existing release is %s/%s", where,
			child.Spec.Release.Namespace, child.Spec.Release.Name, want.Namespace, want.Name)
	case isAnother(release, child):
		return false, fmt.Sprintf("%s: HelmOp has Helm revision %d of the release, and the other tool had %d: HelmOp may "+
			"have installed the chart in a cluster that did not have the release; check the kubeconfig of the other tool's "+
			"object", where, child.Status.Release.Revision, release.Revision)
	case isReleased(child):
		return true, ""
	case conditions.IsTrue(child, addonsv1.PausedCondition):
		return false, fmt.Sprintf("%s: Paused: %s", where, conditions.GetMessage(child, addonsv1.PausedCondition))
	case child.Status.ObservedGeneration != child.Generation || released == nil:
		return false, where + ": HelmOp has not reconciled the release yet"
	case released.Status != metav1.ConditionTrue:
		return false, fmt.Sprintf("%s: %s: %s", where, released.Reason, released.Message)
	default:
		return false, where + ": HelmOp has not read the release yet"
	}
}

// isReleased reports whether the release has the state of the current spec.
func isReleased(child *addonsv1.HelmOpRelease) bool {
	return child.Status.ObservedGeneration == child.Generation && child.Status.Release != nil &&
		conditions.IsTrue(child, addonsv1.ReleasedCondition)
}

// isAnother reports whether a HelmOpRelease has another release than the other tool: the Helm revisions of a release
// only increase.
func isAnother(release *Release, child *addonsv1.HelmOpRelease) bool {
	return isReleased(child) && child.Status.Release.Revision < release.Revision
}

// IsHeld reports whether HelmOp will do nothing more for a release until a user acts: HelmOp refuses to change the
// release, does not retry a failed action, or has another release. revision is the newest HelmOp revision; 0 if it is
// not known.
func IsHeld(release *Release, child *addonsv1.HelmOpRelease, revision int64) bool {
	if isAnother(release, child) {
		return true
	}
	if revision == 0 || apiutil.RevisionOf(child) != revision || child.Status.ObservedGeneration != child.Generation {
		return false
	}
	switch conditions.GetReason(child, addonsv1.ReleasedCondition) {
	case addonsv1.AdoptionWouldChangeReason, addonsv1.ReleaseConflictReason:
		return true
	default:
		return conditions.IsTrue(child, addonsv1.StalledCondition)
	}
}

// IsUnchanged reports whether an adopted release still has the Helm revision that it had under the other tool. The
// result is true if one of the two revisions is not known: the other tool may not store it, and a user may delete the
// HelmOpRelease. child is then nil.
func IsUnchanged(release *Release, child *addonsv1.HelmOpRelease) bool {
	return release.Revision == 0 || child == nil || child.Status.Release == nil ||
		child.Status.Release.Revision == release.Revision
}
