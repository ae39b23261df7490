// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionintent

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// Intent is the reason why a HelmOpRelease is under deletion. It decides what happens to the Helm release.
type Intent int

const (
	// Uninstall means that the HelmOp selects no release in the Cluster. The release is uninstalled.
	Uninstall Intent = iota

	// Replace means that the HelmOp replaces the release by another release in the Cluster. The release is
	// uninstalled, without waiting for its dependents.
	Replace

	// Keep means that the release still belongs to the desired state of the HelmOp. The release stays.
	Keep

	// Orphan means that the HelmOp was deleted with the propagation policy Orphan. The release stays.
	Orphan

	// Undecided means that the namespace of the HelmOpRelease is under deletion, and the HelmOp is not yet. Kubernetes
	// deletes the objects of a namespace in any order, so the HelmOp is deleted next.
	Undecided

	// Unknown means that the HelmOp does not exist, or that it has another UID and does not select the Cluster. A
	// restore from a backup may be running.
	Unknown
)

// Reader finds out why a HelmOpRelease is under deletion.
type Reader struct {
	// Live reads from the API server: a stale cache must not cause an uninstallation.
	Live client.Reader

	// Renderer renders the name and the namespace of a release.
	Renderer *render.Renderer

	// Shard is the shard of the manager.
	Shard string
}

// Of reads the HelmOp and the Cluster from the API server, and returns why the HelmOpRelease is under deletion. The
// release may still belong to the desired state of the HelmOp. Examples: a user deleted the HelmOpRelease, garbage
// collection deleted it after a restore, the Cluster was selected again before the uninstallation began, or a cache was
// stale. The HelmOp then creates the HelmOpRelease again. The labels on Helm's records show that no action is needed.
func (r *Reader) Of(ctx context.Context, release *addonsv1.HelmOpRelease) (Intent, error) {
	owner := metav1.GetControllerOf(release)
	switch {
	case owner == nil:
		return r.intentWithoutOwner(ctx, release)
	case owner.Kind != apiutil.HelmOpKind:
		return Uninstall, nil
	}
	helmOp := &addonsv1.HelmOp{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: release.Namespace, Name: owner.Name}, helmOp)
	if apierrors.IsNotFound(err) {
		return Unknown, nil
	}
	if err != nil {
		return Uninstall, fmt.Errorf("reading the HelmOp of the release: %w", err)
	}
	object, err := clusterview.ReadCluster(ctx, r.Live, apiutil.ClusterKey(release), r.Shard)
	if err != nil {
		return Uninstall, fmt.Errorf("reading Cluster %s: %w", apiutil.ClusterKey(release), err)
	}
	switch {
	case apiutil.IsOrphaning(helmOp):
		return Orphan, nil
	case !helmOp.DeletionTimestamp.IsZero():
		return Uninstall, nil
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return Uninstall, fmt.Errorf("selecting the Clusters of the HelmOp: %w", err)
	}
	switch selected, err := selector.Selects(ctx, r.Live, object); {
	case err != nil:
		return Uninstall, err
	case !selected && owner.UID != helmOp.UID:
		// A restore may create the Clusters, or their labels, after the HelmOp.
		return Unknown, nil
	case !selected:
		return Uninstall, nil
	}
	intent, err := r.intentByIdentity(ctx, release, helmOp, object)
	if err != nil || intent != Keep {
		return intent, err
	}
	return r.keepUnlessNamespaceDeleted(ctx, release)
}

// keepUnlessNamespaceDeleted returns Undecided for a release whose namespace is under deletion. Otherwise it returns
// Keep.
func (r *Reader) keepUnlessNamespaceDeleted(ctx context.Context, release *addonsv1.HelmOpRelease) (Intent, error) {
	namespace := apiutil.PartialOf(apiutil.KindNamespace)
	err := r.Live.Get(ctx, client.ObjectKey{Name: release.Namespace}, namespace)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return Uninstall, fmt.Errorf("reading namespace %s: %w", release.Namespace, err)
	case !namespace.GetDeletionTimestamp().IsZero():
		return Undecided, nil
	default:
		return Keep, nil
	}
}

// intentWithoutOwner returns Orphan for a release without an owner reference if its HelmOp is under deletion: garbage
// collection removes the owner references of a HelmOp that is deleted with the propagation policy Orphan.
func (r *Reader) intentWithoutOwner(ctx context.Context, release *addonsv1.HelmOpRelease) (Intent, error) {
	helmOps := &addonsv1.HelmOpList{}
	if err := r.Live.List(ctx, helmOps, client.InNamespace(release.Namespace)); err != nil {
		return Uninstall, fmt.Errorf("listing the HelmOps of namespace %s: %w", release.Namespace, err)
	}
	for i := range helmOps.Items {
		if helmOp := &helmOps.Items[i]; !helmOp.DeletionTimestamp.IsZero() &&
			release.Name == apiutil.ChildName(helmOp.Name, apiutil.ClusterTitle(release)) {
			return Orphan, nil
		}
	}
	return Uninstall, nil
}

// intentByIdentity returns, for a Cluster that the HelmOp selects, whether the HelmOp keeps or replaces the release. It
// compares the name and the namespace of the release with the result of the HelmOp revision from decidingRevision.
func (r *Reader) intentByIdentity(ctx context.Context, release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	object *unstructured.Unstructured,
) (Intent, error) {
	cluster, err := apiutil.TypedCluster(object)
	if err != nil {
		return Uninstall, err
	}
	revision, err := r.decidingRevision(ctx, release, helmOp)
	switch {
	case apierrors.IsNotFound(err):
		// HelmOp keeps the revisions of its releases, so a user must have deleted this revision. There is no sign that
		// another release replaces this release.
		return Keep, nil
	case err != nil:
		return Uninstall, err
	}
	identity, err := r.Renderer.Identity(ctx, revision, object, cluster, release)
	switch {
	case err != nil:
		return Uninstall, err
	case identity == release.Spec.Release:
		return Keep, nil
	default:
		return Replace, nil
	}
}

// decidingRevision returns the HelmOp with the spec that decides whether a release is replaced. Normally this is the
// HelmOp revision that is assigned to the release, even if the HelmOp has a newer one. If the annotation of the release
// names a newer revision that replaces the release, the newer revision decides. If the newer revision was superseded,
// the current spec of the HelmOp decides; if it was rolled back or aborted, the assigned revision decides.
func (r *Reader) decidingRevision(ctx context.Context, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp,
) (*addonsv1.HelmOp, error) {
	number, isReplaced := apiutil.ReplacedBy(release)
	if !isReplaced {
		return revisionstore.HelmOpAt(ctx, r.Live, helmOp, apiutil.RevisionOf(release))
	}
	revision, err := revisionstore.ReadRevision(ctx, r.Live, helmOp, number)
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
		return revisionstore.HelmOpAt(ctx, r.Live, helmOp, apiutil.RevisionOf(release))
	default:
		return revisionstore.WithRevision(helmOp, revision), nil
	}
}
