// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// reconcileDelete deletes the releases by their deletion policies and within the limits of the rollout. Then it removes
// the finalizer. With the propagation policy Foreground, garbage collection may have deleted all HelmOpReleases
// already; their uninstallation still waits for the limits. With the propagation policy Orphan, the releases stay in
// their clusters.
func (r *Reconciler) reconcileDelete(ctx context.Context, helmOp *addonsv1.HelmOp) error {
	children, err := r.children(ctx, helmOp)
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return r.removeFinalizerIfDone(ctx, helmOp)
	}
	steps, err := r.planDeletion(ctx, helmOp, children)
	if err != nil {
		return err
	}
	var errs []error
	waiting := 0
	for i, child := range children {
		if steps[i].Action == rollout.ActionDelete {
			errs = append(errs, r.deleteChild(ctx, helmOp, child))
			continue
		}
		if !child.DeletionTimestamp.IsZero() && isOrphaned(helmOp, child) {
			// Another program has deleted the child, so the plan has no step for it.
			errs = append(errs, r.mark(ctx, child.DeepCopy(), addonsv1.OrphanAnnotation, "true"))
			continue
		}
		if !apiutil.IsDeletionAdmitted(helmOp, child) {
			waiting++
		}
		if !isOrphaned(helmOp, child) {
			errs = append(errs, r.repairChild(ctx, helmOp, child))
		}
	}
	reportDeletion(helmOp, children, waiting)
	return failures.Join(errs)
}

// planDeletion plans which releases of a HelmOp under deletion may be deleted now. If the waves cannot be read,
// spec.rollout.maxUnavailable still applies. An orphaned release needs no limit, because nothing is uninstalled.
func (r *Reconciler) planDeletion(ctx context.Context, helmOp *addonsv1.HelmOp,
	children []*addonsv1.HelmOpRelease,
) ([]rollout.Step, error) {
	limits, waves, err := strategy(helmOp.Spec.Rollout)
	if err != nil {
		limits = rollout.Strategy{MaxUnavailable: rolloutstate.Limit(helmOp.Spec.Rollout.MaxUnavailable)}
	}
	if !apiutil.LimitsDeletions(helmOp) {
		limits = rollout.Strategy{}
	}
	clusters := make([]rollout.Cluster, 0, len(children))
	for _, child := range children {
		key := apiutil.ClusterKey(child)
		object, err := r.clusterOfChild(ctx, child)
		if err != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
		}
		c := rollout.Cluster{Name: apiutil.TitleOf(helmOp.Namespace, key), Gone: object == nil,
			Paused: apiutil.IsChildPaused(child), Wave: len(limits.Waves)}
		if object != nil {
			cluster, err := apiutil.TypedCluster(object)
			if err != nil {
				return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
			}
			c.Deleting = !cluster.DeletionTimestamp.IsZero()
			// No manager uninstalls the release of a Cluster of another shard.
			c.Paused = c.Paused || apiutil.IsClusterPaused(cluster) || !apiutil.IsOfShard(object, r.shard)
			c.Wave = firstWave(object, waves)
		}
		c.Health, _ = rolloutstate.Health(child)
		c.Child = &rollout.Child{
			Deleting:              apiutil.IsDeletionAdmitted(helmOp, child),
			UnreachableAtDeletion: rolloutstate.WasUnreachableAtDeletion(child),
		}
		clusters = append(clusters, c)
	}
	return rollout.PlanDeletion(limits, clusters), nil
}

// clusterOfChild reads the Cluster of a release. It returns nil if the Cluster does not exist.
func (r *Reconciler) clusterOfChild(ctx context.Context,
	child *addonsv1.HelmOpRelease,
) (*unstructured.Unstructured, error) {
	object, err := clusterview.FindCluster(ctx, r.client, r.live, apiutil.ClusterKey(child), r.shard)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// firstWave returns the index of the first wave that selects a Cluster, or the number of waves if no wave does.
func firstWave(object *unstructured.Unstructured, waves []labels.Selector) int {
	for i, selector := range waves {
		if selector.Matches(labels.Set(object.GetLabels())) {
			return i
		}
	}
	return len(waves)
}

// deleteChild deletes a child that the plan admits. With the propagation policy Orphan, garbage collection removes the
// owner references. The cache can show the deletion of the HelmOp while the children still have their references. So
// deleteChild reads the child from the API server.
func (r *Reconciler) deleteChild(ctx context.Context, helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) error {
	current := &addonsv1.HelmOpRelease{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(child), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !apiutil.IsOfShard(current, r.shard) {
		return nil
	}
	mark, value := "", "true"
	switch {
	case isOrphaned(helmOp, current):
		ctrl.LoggerFrom(ctx).Info("Orphaning a release: its HelmOp was deleted with the propagation policy Orphan",
			"HelmOpRelease", current.Name)
		mark = addonsv1.OrphanAnnotation
	case apiutil.LimitsDeletions(helmOp):
		mark, value = addonsv1.DeletionAdmittedAnnotation, string(helmOp.UID)
	}
	if mark != addonsv1.OrphanAnnotation {
		if err := r.repairChild(ctx, helmOp, current); err != nil {
			return err
		}
	}
	if mark != "" {
		if err := r.mark(ctx, current, mark, value); err != nil {
			return err
		}
	}
	if !current.DeletionTimestamp.IsZero() {
		return nil
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, current, client.Preconditions{UID: &current.UID}))
}

// mark sets an annotation of a child. It changes the child in memory, too.
func (r *Reconciler) mark(ctx context.Context, child *addonsv1.HelmOpRelease, annotation, value string) error {
	if child.Annotations[annotation] == value {
		return nil
	}
	data := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
	return client.IgnoreNotFound(r.client.Patch(ctx, child, client.RawPatch(types.MergePatchType, data)))
}

// isOrphaned reports whether the release of a child stays in its cluster. Either the HelmOp or the child has the mark,
// or garbage collection removed the owner reference of the child. A child from a restored backup is not orphaned,
// because it has a reference to the former HelmOp.
func isOrphaned(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	owner := metav1.GetControllerOfNoCopy(child)
	return apiutil.IsOrphaning(helmOp) || child.Annotations[addonsv1.OrphanAnnotation] == "true" ||
		owner == nil || owner.Kind != apiutil.HelmOpKind
}

// removeFinalizerIfDone deletes the revisions of a HelmOp without children, and then removes the finalizer. If there
// are children in other shards, for example because the HelmOp was restored without its status, the HelmOp stays until
// they are deleted. Garbage collection would delete the revisions too late: a HelmOp that is created again at once, for
// example by "kubectl replace --force", would adopt them, and install the former chart in some Clusters.
func (r *Reconciler) removeFinalizerIfDone(ctx context.Context, helmOp *addonsv1.HelmOp) error {
	if relabelled, err := r.relabeler().Releases(ctx, helmOp); err != nil || relabelled > 0 {
		return err
	}
	revisions, err := r.revisions(ctx, helmOp)
	if err != nil {
		return err
	}
	for _, revision := range revisions {
		if err := r.client.Delete(ctx, revision); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting HelmOp revision %d: %w", revision.Spec.Number, err)
		}
	}
	controllerutil.RemoveFinalizer(helmOp, addonsv1.HelmOpFinalizer)
	return nil
}
