// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// deletionIntent is why a HelmOpRelease is under deletion, which decides what happens to its release.
type deletionIntent int

const (
	// intentUninstall means that the HelmOp selects no release in the Cluster. The release is uninstalled.
	intentUninstall deletionIntent = iota

	// intentReplace means that the HelmOp replaces the release by another release in the Cluster. The release is
	// uninstalled, without waiting for its dependents.
	intentReplace

	// intentKeep means that the release is in the desired state of the HelmOp. The release stays.
	intentKeep

	// intentUnknown means that the HelmOp does not exist, or that it has another UID and does not select the Cluster. A
	// restore from a backup may be running.
	intentUnknown
)

// deletionIntentOf reads the HelmOp and the Cluster from the API server, and returns why the HelmOpRelease is under
// deletion. The release may still be in the desired state of the HelmOp. For example, a user deleted the HelmOpRelease,
// garbage collection deleted it after a restore, the Cluster was selected again before the uninstallation began, or a
// cache was stale. The HelmOp then creates the HelmOpRelease again, and the labels on Helm's records show that no
// action is needed.
func (r *Reconciler) deletionIntentOf(ctx context.Context, release *addonsv1.HelmOpRelease) (deletionIntent, error) {
	owner := metav1.GetControllerOf(release)
	if owner == nil || owner.Kind != apiutil.HelmOpKind {
		return intentUninstall, nil
	}
	helmOp := &addonsv1.HelmOp{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: release.Namespace, Name: owner.Name}, helmOp)
	if apierrors.IsNotFound(err) {
		return intentUnknown, nil
	}
	if err != nil {
		return intentUninstall, fmt.Errorf("reading the HelmOp of the release: %w", err)
	}
	object, err := clusterview.ReadCluster(ctx, r.live, apiutil.ClusterKey(release), r.shard)
	if err != nil {
		return intentUninstall, fmt.Errorf("reading Cluster %s: %w", apiutil.ClusterKey(release), err)
	}
	if !helmOp.DeletionTimestamp.IsZero() {
		return intentUninstall, nil
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return intentUninstall, fmt.Errorf("selecting the Clusters of the HelmOp: %w", err)
	}
	switch selected, err := selector.Selects(ctx, r.live, object); {
	case err != nil:
		return intentUninstall, err
	case !selected && owner.UID != helmOp.UID:
		// A restore may create the Clusters, or their labels, after the HelmOp.
		return intentUnknown, nil
	case !selected:
		return intentUninstall, nil
	}
	return r.intentByIdentity(ctx, release, helmOp, object)
}

// intentByIdentity returns, for a Cluster that the HelmOp selects, whether the HelmOp keeps or replaces the release. It
// compares the name and the namespace of the release with those of the HelmOp revision from decidingRevision.
func (r *Reconciler) intentByIdentity(ctx context.Context, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	object *unstructured.Unstructured,
) (deletionIntent, error) {
	cluster, err := apiutil.TypedCluster(object)
	if err != nil {
		return intentUninstall, err
	}
	revision, err := r.decidingRevision(ctx, release, helmOp)
	switch {
	case apierrors.IsNotFound(err):
		// A user deleted the revision, because HelmOp keeps the revisions of its releases. There is no sign that the
		// release is replaced.
		return intentKeep, nil
	case err != nil:
		return intentUninstall, err
	}
	identity, err := r.renderer.Identity(ctx, revision, object, cluster)
	switch {
	case err != nil:
		return intentUninstall, err
	case identity == release.Spec.Release:
		return intentKeep, nil
	default:
		return intentReplace, nil
	}
}

// decidingRevision returns the HelmOp with the spec that decides whether a release is replaced. Normally this is the
// HelmOp revision that is assigned to the release, even if the HelmOp has a newer one. If the annotation of the release
// names a newer revision that replaces the release, the newer revision decides. If the newer revision was superseded,
// the current spec of the HelmOp decides; if it was rolled back or aborted, the assigned revision decides.
func (r *Reconciler) decidingRevision(ctx context.Context, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp,
) (*addonsv1.HelmOp, error) {
	number, isReplaced := apiutil.ReplacedBy(release)
	if !isReplaced {
		return revisionstore.HelmOpAt(ctx, r.live, helmOp, apiutil.RevisionOf(release))
	}
	revision, err := revisionstore.ReadRevision(ctx, r.live, helmOp, number)
	switch {
	case apierrors.IsNotFound(err):
		return helmOp, nil
	case err != nil:
		return nil, err
	}
	switch revision.Status.Phase {
	case addonsv1.RolloutPhaseSuperseded:
		return helmOp, nil
	case addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted:
		return revisionstore.HelmOpAt(ctx, r.live, helmOp, apiutil.RevisionOf(release))
	default:
		return revisionstore.WithRevision(helmOp, revision), nil
	}
}

// mayAccess reports whether the HelmOp may access the Cluster. If not, it sets the condition Ready of the release to
// False. It sends no request for a Cluster of the same namespace.
func (r *Reconciler) mayAccess(ctx context.Context, scope *releaseScope) (bool, error) {
	release, key := scope.release, apiutil.ClusterKey(scope.release)
	if key.Namespace == release.Namespace {
		return true, nil
	}
	denied := fmt.Sprintf("Access denied: %s is in another namespace, and the HelmOp with the right to access it "+
		"does not exist", apiutil.TitleOf(release.Namespace, key))
	if scope.helmOp != nil {
		allowed, err := r.guard.Allows(ctx, scope.helmOp, key)
		if err != nil || allowed {
			return allowed, err
		}
		denied = selection.DeniedError(scope.helmOp, key).Error()
	}
	r.dropObjectState(client.ObjectKeyFromObject(release))
	if report.SetNotReady(release, addonsv1.ClusterAccessDeniedReason, denied) {
		r.event(scope, corev1.EventTypeWarning, addonsv1.ClusterAccessDeniedReason, "Connect", denied)
	}
	return false, nil
}
