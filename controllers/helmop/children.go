// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// children returns the HelmOpReleases of a HelmOp. The cache shares these objects: callers must not change them.
func (r *Reconciler) children(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRelease, error) {
	list := &addonsv1.HelmOpReleaseList{}
	err := r.client.List(ctx, list, client.InNamespace(helmOp.Namespace), apiutil.ReleasesOf(helmOp),
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the releases of HelmOp %s/%s: %w", helmOp.Namespace, helmOp.Name, err)
	}
	children := make([]*addonsv1.HelmOpRelease, 0, len(list.Items))
	for i := range list.Items {
		child := &list.Items[i]
		// Two HelmOps with long names can have the same label value. The computed name distinguishes their children.
		if child.Name == apiutil.ChildName(helmOp.Name, apiutil.ClusterTitle(child)) {
			children = append(children, child)
		}
	}
	return children, nil
}

// repairChild restores the owner reference and the labels of a child of the HelmOp, including the label of the watch
// filter. After a restore from a backup, the owner reference may be missing or have the former UID.
func (r *Reconciler) repairChild(ctx context.Context, helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) error {
	if adopt, err := r.mayAdopt(ctx, helmOp, child); err != nil || !adopt {
		return err
	}
	metadata, patch, err := r.repairedMetadata(helmOp, child)
	if err != nil || equality.Semantic.DeepEqual(child.ObjectMeta, metadata) {
		return err
	}
	repaired := child.DeepCopy()
	repaired.ObjectMeta = metadata
	return client.IgnoreNotFound(r.client.Patch(ctx, repaired, patch))
}

// waitsForFormerOwner reports whether a child is under deletion, and its owner is a former HelmOp of the same name. The
// owner reference of such a child stays: it shows that the HelmOp has not decided this deletion, see
// [deletionintent.Unknown]. If the HelmOp selects the Cluster, it creates the child again.
func waitsForFormerOwner(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	owner := metav1.GetControllerOfNoCopy(child)
	return !child.DeletionTimestamp.IsZero() && owner != nil && owner.UID != helmOp.UID
}

// mayAdopt reports whether the owner reference of a child may be restored. If a user deletes the HelmOp with the
// propagation policy Orphan, garbage collection removes the reference. The cache can show the child without its
// reference before it shows the deletion of the HelmOp. So mayAdopt reads the HelmOp from the API server.
func (r *Reconciler) mayAdopt(ctx context.Context, helmOp *addonsv1.HelmOp,
	child *addonsv1.HelmOpRelease,
) (bool, error) {
	if metav1.GetControllerOfNoCopy(child) != nil {
		return true, nil
	}
	current := &addonsv1.HelmOp{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(helmOp), current); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return current.UID == helmOp.UID && current.DeletionTimestamp.IsZero(), nil
}

// repairedMetadata returns the repaired metadata of a child, and the patch that writes the metadata.
func (r *Reconciler) repairedMetadata(helmOp *addonsv1.HelmOp,
	child *addonsv1.HelmOpRelease,
) (metav1.ObjectMeta, client.Patch, error) {
	repaired := &addonsv1.HelmOpRelease{ObjectMeta: *child.ObjectMeta.DeepCopy(),
		Spec: addonsv1.HelmOpReleaseSpec{ClusterRef: child.Spec.ClusterRef}}
	if err := r.own(helmOp, repaired); err != nil {
		return metav1.ObjectMeta{}, nil, err
	}
	patch := keepChild(child, repaired)
	return repaired.ObjectMeta, patch, nil
}

// needsNoRepair reports whether a child is correct by the rules of own and keepChild. Each pass calls needsNoRepair for
// each child, so needsNoRepair does not copy the metadata. With thousands of children, the copies were a twentieth of
// all allocations of the manager.
func needsNoRepair(helmOp *addonsv1.HelmOp, child *addonsv1.HelmOpRelease) bool {
	if _, ok := apiutil.ReplacedBy(child); ok && child.DeletionTimestamp.IsZero() {
		return false
	}
	hasLabel := func(key, name string) bool {
		return child.Labels[key] == capilabels.MustFormatValue(name)
	}
	if !hasLabel(addonsv1.HelmOpNameLabel, helmOp.Name) ||
		!hasLabel(clusterv1.ClusterNameLabel, child.Spec.ClusterRef.Name) || !apiutil.HasInheritedLabels(child, helmOp) {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(child)
	return owner != nil && owner.UID == helmOp.UID && owner.Name == helmOp.Name && owner.Kind == apiutil.HelmOpKind &&
		owner.APIVersion == addonsv1.GroupVersion.String() && ptr.Deref(owner.BlockOwnerDeletion, false)
}

// keepChild removes the annotation that marks a child for replacement, and returns the patch that writes the child. An
// earlier pass may have set the annotation without deleting the child. If the child is under deletion and the cache
// does not show the deletion yet, the API server refuses the patch.
func keepChild(before, child *addonsv1.HelmOpRelease) client.Patch {
	if _, ok := apiutil.ReplacedBy(child); !ok || !child.DeletionTimestamp.IsZero() {
		return client.MergeFrom(before)
	}
	delete(child.Annotations, addonsv1.ReplacedByRevisionAnnotation)
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func (r *Reconciler) createChild(ctx context.Context, helmOp *addonsv1.HelmOp, c *clusterScope,
	spec addonsv1.HelmOpReleaseSpec,
) error {
	system, err := apiutil.SystemNamespace(ctx, r.client)
	if err != nil {
		return err
	}
	child := &addonsv1.HelmOpRelease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      apiutil.ChildName(helmOp.Name, c.name),
			Namespace: helmOp.Namespace,
			Annotations: map[string]string{
				addonsv1.ManagementClusterAnnotation: string(system.UID),
				addonsv1.FirstAssignedAnnotation:     r.now().UTC().Format(time.RFC3339),
			},
			Finalizers: []string{addonsv1.HelmOpReleaseFinalizer},
		},
		Spec: spec,
	}
	if err := r.own(helmOp, child); err != nil {
		return err
	}
	err = r.client.Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not have the child yet, or the child has lost the label by which lists find children.
		existing := &addonsv1.HelmOpRelease{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(child), existing); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !apiutil.IsOfShard(existing, r.shard) {
			// The HelmOp may have changed its shard, and the cache may not have the change yet.
			current := &addonsv1.HelmOp{}
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(helmOp), current); err != nil ||
				!apiutil.IsOfShard(current, r.shard) {
				return client.IgnoreNotFound(err)
			}
		}
		return r.repairChild(ctx, helmOp, existing)
	}
	if err == nil {
		c.child = child
	}
	return err
}

func (r *Reconciler) updateChild(ctx context.Context, helmOp *addonsv1.HelmOp, c *clusterScope,
	spec addonsv1.HelmOpReleaseSpec,
) error {
	if adopt, err := r.mayAdopt(ctx, helmOp, c.child); err != nil || !adopt {
		return err
	}
	child := c.child.DeepCopy()
	child.Spec = spec
	if reached, err := isReached(c, &spec); err != nil {
		return err
	} else if reached {
		delete(child.Annotations, addonsv1.FirstAssignedAnnotation)
	}
	if err := r.own(helmOp, child); err != nil {
		return err
	}
	if err := r.client.Patch(ctx, child, keepChild(c.child, child)); err != nil {
		return client.IgnoreNotFound(err)
	}
	c.child = child
	return nil
}

// isReached reports whether the rollout reaches the child of a Cluster with the step that writes a spec, or a user pins
// the child to another revision. Three other steps do not permit changes of a release that the child has not installed:
// a change of the Cluster itself, a revision that changes nothing, and a return, which has no turn. If the Cluster has
// changed, a revision changes nothing if the spec is the same under the revision that the child has now.
func isReached(c *clusterScope, spec *addonsv1.HelmOpReleaseSpec) (bool, error) {
	switch {
	case c.step.Adopts, c.step.Pinned:
		return true, nil
	case c.step.Joined, c.step.Returned, c.step.Revision == apiutil.RevisionOf(c.child):
		return false, nil
	}
	isSame, err := haveSameContent(&c.child.Spec, spec)
	if !isSame && err == nil && c.own != nil {
		isSame, err = haveSameContent(c.own, spec)
	}
	return !isSame, err
}

// own sets the owner reference of a child or a revision to the HelmOp. It also sets the labels that assign the object
// to a manager.
func (r *Reconciler) own(helmOp *addonsv1.HelmOp, obj client.Object) error {
	labels := maps.Clone(obj.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, apiutil.ChildSelector(helmOp))
	if child, ok := obj.(*addonsv1.HelmOpRelease); ok {
		labels[clusterv1.ClusterNameLabel] = capilabels.MustFormatValue(child.Spec.ClusterRef.Name)
	}
	apiutil.InheritLabels(labels, helmOp)
	obj.SetLabels(labels)
	err := controllerutil.SetControllerReference(helmOp, obj, r.client.Scheme())
	var owned *controllerutil.AlreadyOwnedError
	if errors.As(err, &owned) && owned.Owner.Kind == apiutil.HelmOpKind {
		// The reference names a former HelmOp with the same name, for example from before a restore.
		obj.SetOwnerReferences(nil)
		return controllerutil.SetControllerReference(helmOp, obj, r.client.Scheme())
	}
	return err
}
