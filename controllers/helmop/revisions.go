// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
)

// defaultRevisionHistoryLimit is the default number of stored revisions that no release uses.
const defaultRevisionHistoryLimit = 10

// clusterctl move creates the revisions of a HelmOp after the HelmOp. They are awaited for revisionsArrive, and at most
// for moveEnds while a Cluster in the namespace is paused: clusterctl unpauses the Clusters when it has created
// everything, one object after the other. awaitInterval is the time between two looks for the revisions.
const (
	revisionsArrive = 3 * time.Minute
	moveEnds        = time.Hour
	awaitInterval   = 10 * time.Second
)

// revisions returns the HelmOpRevisions of a HelmOp by number, the newest last.
func (r *Reconciler) revisions(ctx context.Context, helmOp *addonsv1.HelmOp) (revisions.List, error) {
	list := &addonsv1.HelmOpRevisionList{}
	err := r.client.List(ctx, list, client.InNamespace(helmOp.Namespace),
		client.MatchingLabels(apiutil.ChildSelector(helmOp)), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the HelmOp revisions of HelmOp %s/%s: %w", helmOp.Namespace, helmOp.Name, err)
	}
	found := make(revisions.List, 0, len(list.Items))
	for i := range list.Items {
		// Two HelmOps with long names can have the same label value. The computed name distinguishes their revisions.
		if item := &list.Items[i]; item.Name == apiutil.RevisionName(helmOp.Name, item.Spec.Number) &&
			item.DeletionTimestamp.IsZero() {
			// The cache shares the spec, so it must not be changed. This pass writes the status, so the status is a
			// copy.
			revision := &addonsv1.HelmOpRevision{TypeMeta: item.TypeMeta, ObjectMeta: *item.ObjectMeta.DeepCopy(),
				Spec: item.Spec, Status: *item.Status.DeepCopy()}
			found = append(found, revision)
		}
	}
	slices.SortFunc(found, func(a, b *addonsv1.HelmOpRevision) int { return int(a.Spec.Number - b.Spec.Number) })
	revisions.Complete(found)
	return found, nil
}

// readRevisions reads the revisions of the HelmOp. It restores the statuses that a backup tool has removed: without
// them, HelmOp would roll out a revision again that was rolled back, and would have no revision for the next rollback.
func (r *Reconciler) readRevisions(ctx context.Context, scope *helmOpScope) (err error) {
	scope.revisions, err = r.revisions(ctx, scope.helmOp)
	if err != nil {
		return err
	}
	var errs []error
	for _, revision := range scope.revisions {
		if status, ok := revisions.KeptStatus(revision); ok {
			before := revision.DeepCopy()
			revision.Status = status
			// The cache may not have the restored status yet. Then it must not be restored again, over a newer status.
			errs = append(errs, r.client.Patch(ctx, revision,
				client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
		}
	}
	return kerrors.NewAggregate(errs)
}

// revise creates a revision of the desired state if the newest revision differs. It waits until the whole desired state
// is known, until a Cluster can get the revision, and until clusterctl move has created its revisions.
//
// The last two conditions are for clusterctl move. This command creates HelmOps first and their revisions seconds or
// minutes later, while the Clusters that it moves are paused. A revision that this manager creates in between would
// conflict with the moved revisions, and the move would fail.
func (r *Reconciler) revise(ctx context.Context, scope *helmOpScope) error {
	if err := r.readUncached(ctx, scope); err != nil {
		return err
	}
	newest := scope.revisions.Newest()
	isCurrent := newest != nil && scope.desired != nil && newest.Spec.Digest == scope.desired.digest
	if r.awaitsRevisions(scope, isCurrent) || !isCurrent && !scope.hasServable() {
		scope.desired = nil
	}
	if scope.desired == nil {
		return nil
	}
	if !isCurrent {
		revision, err := r.createRevision(ctx, scope, newest)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			// A policy or a quota refuses the revision. The rest of the pass continues, and reports it. No event follows when
			// a user has corrected the policy.
			scope.desired, scope.programErr = nil, fmt.Errorf("%w: %w", reasons.ErrRecord, err)
			scope.retryWithin(requeue.ObjectReadRetry)
			return nil
		case err != nil:
			return err
		}
		scope.revisions = append(scope.revisions, revision)
	}
	scope.desired.number = scope.revisions.Newest().Spec.Number
	r.memories.Of(client.ObjectKeyFromObject(scope.helmOp)).current = scope.desired.number
	return r.supersede(ctx, scope)
}

// readUncached adds the newest revision of the releases if the cache does not have it yet. Without it, this manager
// would create a second revision of the same spec. The second revision would supersede the rollout of the first one.
func (r *Reconciler) readUncached(ctx context.Context, scope *helmOpScope) error {
	number := scope.releasedRevision()
	if newest := scope.revisions.Newest(); newest != nil && newest.Spec.Number >= number || number == 0 {
		return nil
	}
	revision := &addonsv1.HelmOpRevision{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: scope.helmOp.Namespace,
		Name: apiutil.RevisionName(scope.helmOp.Name, number)}, revision)
	switch {
	case apierrors.IsNotFound(err) || err == nil && !revision.DeletionTimestamp.IsZero():
		// The revision was deleted, or clusterctl move has not created it yet.
		return nil
	case err != nil:
		return fmt.Errorf("reading HelmOp revision %d: %w", number, err)
	}
	scope.revisions = append(scope.revisions, completed(scope, revision))
	return nil
}

// releasedRevision returns the highest number of a revision that a release has; 0 if no release has one.
func (s *helmOpScope) releasedRevision() int64 {
	number := int64(0)
	for _, c := range s.clusters {
		number = max(number, apiutil.RevisionOf(c.child))
	}
	return number
}

// hasServable reports whether this pass can create or update the release of at least one Cluster.
func (s *helmOpScope) hasServable() bool {
	return slices.ContainsFunc(s.clusters, func(c *clusterScope) bool {
		return c.selected && c.cluster != nil && c.cluster.DeletionTimestamp.IsZero() &&
			!apiutil.IsClusterPaused(c.cluster) && apiutil.IsInitialized(c.cluster)
	})
}

// noteOrigin stores whether clusterctl move or a backup tool may create revisions of this HelmOp later. HelmOp sets the
// finalizer in its first pass, and the same pass writes a status. So a HelmOp with the finalizer and without a status
// comes from one of them.
func (r *Reconciler) noteOrigin(helmOp *addonsv1.HelmOp) {
	known := r.memories.Of(client.ObjectKeyFromObject(helmOp))
	if known.isOriginKnown {
		return
	}
	known.isOriginKnown = true
	if helmOp.Status.ObservedGeneration <= 0 && controllerutil.ContainsFinalizer(helmOp, addonsv1.HelmOpFinalizer) {
		known.arrivedAt = r.now()
	}
}

// checkMove finds out whether clusterctl move may still create objects of the HelmOp.
func (r *Reconciler) checkMove(ctx context.Context, scope *helmOpScope) (err error) {
	known := r.memories.Of(client.ObjectKeyFromObject(scope.helmOp))
	if known.arrivedAt.IsZero() {
		return nil
	}
	scope.isArriving, err = r.isMoveRunning(ctx, scope.helmOp.Namespace, r.now().Sub(known.arrivedAt))
	if err == nil && !scope.isArriving {
		known.arrivedAt = time.Time{}
	}
	return err
}

// awaitsRevisions reports whether clusterctl move may still create revisions of the HelmOp. Until then, the plan
// changes no release: a newer revision than the known ones may arrive. isCurrent is true if the newest known revision
// has the desired state. It is not the newest one if a release has a higher number.
func (r *Reconciler) awaitsRevisions(scope *helmOpScope, isCurrent bool) bool {
	if !scope.isArriving {
		return false
	}
	number := int64(0)
	if newest := scope.revisions.Newest(); newest != nil {
		number = newest.Spec.Number
	}
	wasCurrent := number > 0 && number == r.memories.Of(client.ObjectKeyFromObject(scope.helmOp)).current
	scope.awaitsRevisions = !isCurrent && !wasCurrent || number < scope.releasedRevision()
	if scope.awaitsRevisions {
		scope.retryWithin(awaitInterval)
	}
	return scope.awaitsRevisions
}

// isMoveRunning reports whether clusterctl move may still create objects in a namespace. age is the time since it
// created the HelmOp.
func (r *Reconciler) isMoveRunning(ctx context.Context, namespace string, age time.Duration) (bool, error) {
	if age < revisionsArrive || age >= moveEnds {
		return age < revisionsArrive, nil
	}
	clusters := apiutil.NewClusterList()
	if err := r.client.List(ctx, clusters, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the Clusters in namespace %s: %w", namespace, err)
	}
	return slices.ContainsFunc(clusters.Items, func(object unstructured.Unstructured) bool {
		cluster, err := apiutil.TypedCluster(&object)
		return err == nil && apiutil.IsClusterPaused(cluster)
	}), nil
}

// createRevision creates a revision of the desired state. The revision with this number may exist although the cache
// does not have it. createRevision then returns the existing revision if its content is the same. Otherwise it returns
// an error, and the pass is repeated.
func (r *Reconciler) createRevision(ctx context.Context, scope *helmOpScope,
	newest *addonsv1.HelmOpRevision,
) (*addonsv1.HelmOpRevision, error) {
	helmOp, number := scope.helmOp, int64(1)
	if newest != nil {
		number = newest.Spec.Number + 1
	}
	// A number is never used twice, even after its revision was deleted.
	number = max(number, scope.releasedRevision()+1, requestedRevision(helmOp)+1)
	revision := &addonsv1.HelmOpRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: apiutil.RevisionName(helmOp.Name, number), Namespace: helmOp.Namespace, Labels: apiutil.ChildSelector(helmOp),
		},
		Spec: addonsv1.HelmOpRevisionSpec{
			Number: number, Digest: scope.desired.digest, Artifact: scope.desired.mainArtifact(),
			Artifacts: scope.referencedArtifacts(), HelmOp: helmOp.Spec,
		},
		Status: addonsv1.HelmOpRevisionStatus{Phase: addonsv1.RolloutPhaseProgressing, StartedAt: metav1.NewTime(r.now())},
	}
	revisions.CopyPresent(&revision.Spec.HelmOp, &addonsv1.HelmOpSpec{})
	revisions.Share(&revision.Spec, scope.revisions)
	apiutil.InheritLabels(revision.Labels, helmOp)
	if err := revisions.KeepStatus(revision); err != nil {
		return nil, err
	}
	if err := controllerutil.SetControllerReference(helmOp, revision, r.client.Scheme()); err != nil {
		return nil, err
	}
	err := r.client.Create(ctx, revision)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return nil, fmt.Errorf("writing HelmOp revision %d: %w", number, err)
		}
		return completed(scope, revision), nil
	}
	existing := &addonsv1.HelmOpRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(revision), existing); err != nil {
		return nil, fmt.Errorf("reading HelmOp revision %d: %w", number, err)
	}
	if existing.Spec.Digest != scope.desired.digest {
		// The cache does not have the revision yet, or the revision has lost the label by which lists find revisions.
		err := fmt.Errorf("HelmOp revision %d exists, but the cache does not have it yet", number)
		return nil, kerrors.NewAggregate([]error{err, r.repairRevision(ctx, helmOp, existing)})
	}
	return completed(scope, existing), nil
}

// completed returns a revision with the fields that other revisions store.
func completed(scope *helmOpScope, revision *addonsv1.HelmOpRevision) *addonsv1.HelmOpRevision {
	revisions.Complete(append(slices.Clone(scope.revisions), revision))
	return revision
}

// referencedArtifacts returns the artifacts of the references other than spec.source.
func (s *helmOpScope) referencedArtifacts() []addonsv1.ReferencedArtifact {
	var artifacts []addonsv1.ReferencedArtifact
	for _, ref := range s.desired.Variants.References() {
		if artifact, err := s.desired.artifactOf(ref.ArtifactReference); err == nil {
			artifacts = append(artifacts, addonsv1.ReferencedArtifact{
				Reference: ref.ArtifactReference, ArtifactStatus: addonsv1.ArtifactStatus{ResolvedArtifact: *artifact},
			})
		}
	}
	return artifacts
}

// supersede ends the unfinished rollouts of older revisions.
func (r *Reconciler) supersede(ctx context.Context, scope *helmOpScope) error {
	newest := scope.revisions.Newest()
	var errs []error
	for _, revision := range scope.revisions {
		status := revision.Status
		if revision == newest || status.Phase != addonsv1.RolloutPhaseProgressing &&
			status.Phase != addonsv1.RolloutPhasePaused {
			continue
		}
		status.Phase, status.EndedAt = addonsv1.RolloutPhaseSuperseded, metav1.NewTime(r.now())
		status.Reason = fmt.Sprintf("superseded by HelmOp revision %d", newest.Spec.Number)
		errs = append(errs, r.writeRevision(ctx, revision, status))
	}
	return kerrors.NewAggregate(errs)
}

// writeRevision writes the status of a revision if it changed.
func (r *Reconciler) writeRevision(ctx context.Context, revision *addonsv1.HelmOpRevision,
	status addonsv1.HelmOpRevisionStatus,
) error {
	if equality.Semantic.DeepEqual(revision.Status, status) {
		return nil
	}
	before := revision.DeepCopy()
	revision.Status = status
	if err := revisions.KeepStatus(revision); err != nil {
		return err
	}
	if err := r.client.Patch(ctx, revision, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of HelmOp revision %d: %w", revision.Spec.Number, err)
	}
	// The response does not have the fields that other revisions store.
	revision.Spec = before.Spec
	return nil
}

// pruneRevisions deletes the oldest revisions that no release uses. It does so if the revisions exceed the limit of
// their number or of their size in bytes. While clusterctl move creates releases, it is not known which revisions they
// use.
func (r *Reconciler) pruneRevisions(ctx context.Context, scope *helmOpScope) error {
	if scope.isArriving {
		return nil
	}
	inUse := map[int64]bool{scope.revisions.LastGood(): true}
	if newest := scope.revisions.Newest(); newest != nil {
		inUse[newest.Spec.Number] = true
	}
	for _, c := range scope.clusters {
		if c.child != nil && c.child.Spec.Rollout != nil {
			inUse[c.child.Spec.Rollout.Revision] = true
		}
		if number, pinned := apiutil.PinOf(c.child); pinned {
			inUse[number] = true
		}
	}
	keep := int(ptr.Deref(scope.helmOp.Spec.RevisionHistoryLimit, defaultRevisionHistoryLimit))
	var errs []error
	for _, revision := range revisions.Surplus(scope.revisions, inUse, keep, revisions.MaxBytes) {
		errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, revision)))
	}
	return kerrors.NewAggregate(errs)
}

// repairRevisions restores the owner references and labels of revisions. A restore from a backup can lose them.
func (r *Reconciler) repairRevisions(ctx context.Context, scope *helmOpScope) error {
	var errs []error
	for _, revision := range scope.revisions {
		if metav1.IsControlledBy(revision, scope.helmOp) && apiutil.HasInheritedLabels(revision, scope.helmOp) {
			continue
		}
		errs = append(errs, r.repairRevision(ctx, scope.helmOp, revision))
	}
	return kerrors.NewAggregate(errs)
}

func (r *Reconciler) repairRevision(ctx context.Context, helmOp *addonsv1.HelmOp,
	revision *addonsv1.HelmOpRevision,
) error {
	before := revision.DeepCopy()
	if err := r.own(helmOp, revision); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, revision, client.MergeFrom(before)))
}
