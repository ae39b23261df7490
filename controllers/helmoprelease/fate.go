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

// deletionIntent is what to do with a release whose object is under deletion.
type deletionIntent int

const (
	// intentUninstall: the HelmOp selects no release in the Cluster.
	intentUninstall deletionIntent = iota

	// intentReplace: the HelmOp replaces the release by another one in the Cluster.
	intentReplace

	// intentKeep: the HelmOp wants exactly this release.
	intentKeep

	// intentUnknown: the HelmOp of the release does not exist. It may be restored from a backup.
	intentUnknown
)

// deletionIntentOf asks the API server whether the HelmOp wants exactly this release although the object is under
// deletion: a user deleted the object, garbage collection took it for an orphan after a restore, the Cluster was
// selected again before the uninstallation began, or a cache was late. If so, the HelmOp creates the object again,
// and the labels in the cluster show that nothing needs to be done.
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
		// The Clusters may be restored after the HelmOp.
		return intentUnknown, nil
	case !selected:
		return intentUninstall, nil
	}
	return r.intentByIdentity(ctx, release, helmOp, object)
}

// intentByIdentity decides for a Cluster that the HelmOp selects whether the HelmOp wants exactly this release. The
// rollout decides about the revision: where it replaces the release by another one, an annotation of the object says
// so. Otherwise the revision counts that the release is made from, even if the HelmOp has a newer one.
func (r *Reconciler) intentByIdentity(ctx context.Context, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	object *unstructured.Unstructured,
) (deletionIntent, error) {
	cluster, err := apiutil.TypedCluster(object)
	if err != nil {
		return intentUninstall, err
	}
	at, err := r.judgedBy(ctx, release, helmOp)
	switch {
	case apierrors.IsNotFound(err):
		// The revision was deleted by hand: HelmOp keeps the revisions of its releases. Nothing says that the release
		// is replaced.
		return intentKeep, nil
	case err != nil:
		return intentUninstall, err
	}
	identity, err := r.renderer.Identity(ctx, at, object, cluster)
	switch {
	case err != nil:
		return intentUninstall, err
	case identity == release.Spec.Release:
		return intentKeep, nil
	default:
		return intentReplace, nil
	}
}

// judgedBy is the HelmOp at the revision that decides about a release: the revision that the release is made from or,
// if a newer revision replaces the release, that one. If the newer revision was superseded, the current spec of the
// HelmOp decides; if it was rolled back or aborted, the revision of the release.
func (r *Reconciler) judgedBy(ctx context.Context, release *addonsv1.HelmOpRelease,
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

// mayAccess reports whether the HelmOp may access the Cluster, and says so at the release if not. It sends no request
// for a Cluster of the same namespace.
func (r *Reconciler) mayAccess(ctx context.Context, scope *releaseScope) (bool, error) {
	release, key := scope.release, apiutil.ClusterKey(scope.release)
	if key.Namespace == release.Namespace {
		return true, nil
	}
	denied := fmt.Sprintf("%s is not of the namespace, and the HelmOp that may access it is gone",
		apiutil.TitleOf(release.Namespace, key))
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
