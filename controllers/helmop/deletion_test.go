// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// deletedHelmOp returns a HelmOp under deletion with five releases.
func deletedHelmOp(t *testing.T, change func(*addonsv1.HelmOp),
	changeChild func(*addonsv1.HelmOpRelease),
) (*Reconciler, *addonsv1.HelmOp) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	now := metav1.Now()
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "calico", UID: "u", Finalizers: []string{addonsv1.HelmOpFinalizer}, DeletionTimestamp: &now,
	}}
	if change != nil {
		change(helmOp)
	}
	builder := controllertest.WithIndexes(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(helmOp.DeepCopy())
	r := &Reconciler{now: time.Now, client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	for i := range 5 {
		name := fmt.Sprintf("c%d", i)
		child := controllertest.ReleaseFor("n", apiutil.ChildName("calico", name), addonsv1.ClusterReference{Name: name})
		child.UID, child.Finalizers = types.UID(name), []string{addonsv1.HelmOpReleaseFinalizer}
		if err := r.own(helmOp, child); err != nil {
			t.Fatal(err)
		}
		if changeChild != nil {
			changeChild(child)
		}
		builder.WithObjects(child, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}})
	}
	r.client = builder.Build()
	r.live = r.client
	return r, helmOp
}

// TestOtherShardTakesNoDeletionSlot deletes a HelmOp with a release in a Cluster of another shard. No manager
// uninstalls this release, so it must not take the only slot.
func TestOtherShardTakesNoDeletionSlot(t *testing.T) {
	t.Parallel()
	one := intstr.FromInt32(1)
	r, helmOp := deletedHelmOp(t, func(h *addonsv1.HelmOp) {
		h.Spec.Rollout = &addonsv1.Rollout{MaxUnavailable: &one}
	}, nil)
	moved := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c0"}}
	if err := r.client.Patch(t.Context(), moved, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:"b"}}}`, addonsv1.ShardLabel))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := r.reconcileDelete(t.Context(), helmOp); err != nil {
			t.Fatal(err)
		}
	}
	children, err := r.children(t.Context(), helmOp)
	if err != nil {
		t.Fatal(err)
	}
	var admitted []string
	for _, child := range children {
		if apiutil.IsAdmittedBy(child, helmOp.UID) {
			admitted = append(admitted, child.Spec.ClusterRef.Name)
		}
	}
	slices.Sort(admitted)
	if len(admitted) != 2 || admitted[0] != "c0" {
		t.Errorf("the releases of %v are admitted, want those of c0 and of one Cluster of this shard", admitted)
	}
}

// deletedChildren returns the number of children under deletion, and the number of those with the orphan annotation.
func deletedChildren(t *testing.T, r *Reconciler) (deleted, orphaned int) {
	t.Helper()
	list := &addonsv1.HelmOpReleaseList{}
	if err := r.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		deleted++
		if list.Items[i].Annotations[addonsv1.OrphanAnnotation] == "true" {
			orphaned++
		}
	}
	return deleted, orphaned
}

// TestReconcileDeleteWithinLimits checks that the deletion of a HelmOp stays within the limits of its rollout, even if
// the rollout is paused. Releases must be orphaned if the HelmOp requires it, or if garbage collection has removed
// their owner references.
func TestReconcileDeleteWithinLimits(t *testing.T) {
	t.Parallel()
	two := intstr.FromInt32(2)
	limited := func(h *addonsv1.HelmOp) { h.Spec.Rollout = &addonsv1.Rollout{MaxUnavailable: &two, Paused: true} }
	for name, tc := range map[string]struct {
		change            func(*addonsv1.HelmOp)
		changeChild       func(*addonsv1.HelmOpRelease)
		deleted, orphaned int
		admitted          int
	}{
		"no limits":         {deleted: 5},
		"within the limits": {change: limited, deleted: 2, admitted: 2},
		"all deleted by another program": {change: limited,
			changeChild: func(c *addonsv1.HelmOpRelease) { now := metav1.Now(); c.DeletionTimestamp = &now }, deleted: 5,
			admitted: 2},
		"deletionPolicy Orphan ignores limits": {change: func(h *addonsv1.HelmOp) {
			limited(h)
			h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
		}, deleted: 5},
		"propagation policy Orphan": {change: func(h *addonsv1.HelmOp) {
			limited(h)
			h.Finalizers = append(h.Finalizers, metav1.FinalizerOrphanDependents)
		}, deleted: 5, orphaned: 5},
		"propagation policy Orphan after Foreground": {change: func(h *addonsv1.HelmOp) {
			limited(h)
			h.Finalizers = append(h.Finalizers, metav1.FinalizerOrphanDependents)
		}, changeChild: func(c *addonsv1.HelmOpRelease) { now := metav1.Now(); c.DeletionTimestamp = &now }, deleted: 5,
			orphaned: 5},
		"owner references of deleted releases removed": {change: limited, changeChild: func(c *addonsv1.HelmOpRelease) {
			now := metav1.Now()
			c.DeletionTimestamp, c.OwnerReferences = &now, nil
		}, deleted: 5, orphaned: 5},
		"owner references removed": {changeChild: func(c *addonsv1.HelmOpRelease) { c.OwnerReferences = nil }, deleted: 5,
			orphaned: 5},
		"owner references from before a restore": {
			changeChild: func(c *addonsv1.HelmOpRelease) { c.OwnerReferences[0].UID = "before" }, deleted: 5,
		},
		"malformed waves": {
			change: func(h *addonsv1.HelmOp) {
				limited(h)
				h.Spec.Rollout.Waves = []addonsv1.Wave{{Name: "w",
					ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}}}}
			},
			deleted: 2, admitted: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, helmOp := deletedHelmOp(t, tc.change, tc.changeChild)
			for range 2 {
				if err := r.reconcileDelete(t.Context(), helmOp); err != nil {
					t.Fatal(err)
				}
			}
			if deleted, orphaned := deletedChildren(t, r); deleted != tc.deleted || orphaned != tc.orphaned {
				t.Errorf("%d releases are deleted, %d of them orphaned, want %d and %d", deleted, orphaned, tc.deleted, tc.orphaned)
			}
			children, err := r.children(t.Context(), helmOp)
			if err != nil {
				t.Fatal(err)
			}
			admitted, waiting := 0, 0
			for _, child := range children {
				if apiutil.IsAdmittedBy(child, helmOp.UID) {
					admitted++
				}
				if apiutil.WaitsForAdmission(helmOp, child) {
					waiting++
				}
			}
			if admitted != tc.admitted || tc.admitted > 0 && waiting != 5-admitted {
				t.Errorf("%d releases are admitted and %d wait, want %d", admitted, waiting, tc.admitted)
			}
			if len(helmOp.Finalizers) == 0 || !conditions.IsFalse(helmOp, addonsv1.ReadyCondition) {
				t.Errorf("the finalizer is removed, or Ready is not False: %+v", helmOp.Status.Conditions)
			}
		})
	}
}

// TestDeletedHelmOpDeletesRevisions deletes a HelmOp. Its revisions must be deleted before the HelmOp disappears,
// whether they have an owner reference or garbage collection removed it (propagation policy Orphan).
func TestDeletedHelmOpDeletesRevisions(t *testing.T) {
	t.Parallel()
	r, helmOp := deletedHelmOp(t, nil, nil)
	if err := r.client.DeleteAllOf(t.Context(), &addonsv1.HelmOpRelease{}, client.InNamespace("n")); err != nil {
		t.Fatal(err)
	}
	list := &addonsv1.HelmOpReleaseList{}
	if err := r.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Finalizers = nil
		if err := r.client.Update(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	for number := range int64(3) {
		revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n",
			Name: apiutil.RevisionName("calico", number), Labels: apiutil.ChildSelector(helmOp)}}
		revision.Spec.Number = number
		if number > 0 {
			revision.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
				addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}
		}
		if err := r.client.Create(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.reconcileDelete(t.Context(), helmOp); err != nil || len(helmOp.Finalizers) > 0 {
		t.Fatalf("the finalizer stays: %v, %v", helmOp.Finalizers, err)
	}
	revisions := &addonsv1.HelmOpRevisionList{}
	if err := r.client.List(t.Context(), revisions); err != nil || len(revisions.Items) > 0 {
		t.Errorf("%d revisions are left, %v", len(revisions.Items), err)
	}
}

// TestDeletedChildKeepsItsFormerOwner checks that a HelmOp with the name of a former one does not become the owner of a
// release under deletion. Otherwise, the deletion would seem to be its own decision, and the release of an unselected
// Cluster would be uninstalled.
func TestDeletedChildKeepsItsFormerOwner(t *testing.T) {
	t.Parallel()
	const former types.UID = "former"
	now := metav1.Now()
	r, helmOp := deletedHelmOp(t, nil, func(c *addonsv1.HelmOpRelease) {
		c.DeletionTimestamp, c.OwnerReferences[0].UID = &now, former
	})
	helmOp.DeletionTimestamp = nil
	children, err := r.children(t.Context(), helmOp)
	if err != nil || len(children) != 5 {
		t.Fatalf("%d children, %v", len(children), err)
	}
	c := &clusterScope{child: children[0], cluster: &clusterv1.Cluster{}, object: apiutil.NewCluster()}
	scope := &helmOpScope{helmOp: helmOp, clusters: []*clusterScope{c},
		plan: rollout.Result{Steps: []rollout.Step{{Action: rollout.ActionNone}}}}
	if err := r.applyPlan(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	after := &addonsv1.HelmOpRelease{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(c.child), after); err != nil {
		t.Fatal(err)
	}
	if uid := metav1.GetControllerOf(after).UID; uid != former {
		t.Errorf("the owner is %q", uid)
	}
}

// TestDeletedChildGetsItsOwner deletes and replaces releases that a backup tool has restored without their owner
// references. They must get their owner before: without it, the release controller would leave them installed.
func TestDeletedChildGetsItsOwner(t *testing.T) {
	t.Parallel()
	for _, action := range []rollout.Action{rollout.ActionDelete, rollout.ActionReplace} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			r, helmOp := deletedHelmOp(t, nil, func(c *addonsv1.HelmOpRelease) { c.OwnerReferences = nil })
			stored := &addonsv1.HelmOp{}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(helmOp), stored); err != nil {
				t.Fatal(err)
			}
			kept := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: stored.Namespace, Name: stored.Name,
				UID: stored.UID}, Spec: stored.Spec}
			r.live = controllertest.StoreOf(t, kept)
			children, err := r.children(t.Context(), kept)
			if err != nil || len(children) == 0 {
				t.Fatalf("%d children, %v", len(children), err)
			}
			c := &clusterScope{child: children[0], step: rollout.Step{Action: action, Revision: 7}}
			if err := r.applyStep(t.Context(), &helmOpScope{helmOp: kept}, c); err != nil {
				t.Fatal(err)
			}
			after := &addonsv1.HelmOpRelease{}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(c.child), after); err != nil {
				t.Fatal(err)
			}
			if after.DeletionTimestamp.IsZero() || !metav1.IsControlledBy(after, kept) {
				t.Errorf("deleted at %s, owners %v", after.DeletionTimestamp, after.OwnerReferences)
			}
		})
	}
}

// TestOrphanedChildGetsNoOwnerFromStaleCache uses a cache without the deletion of a HelmOp. Garbage collection has
// removed the owner references of the releases. They must not be restored: the releases would be uninstalled.
func TestOrphanedChildGetsNoOwnerFromStaleCache(t *testing.T) {
	t.Parallel()
	r, helmOp := deletedHelmOp(t, nil, func(c *addonsv1.HelmOpRelease) { c.OwnerReferences = nil })
	cached := helmOp.DeepCopy()
	cached.DeletionTimestamp = nil
	children, err := r.children(t.Context(), cached)
	if err != nil || len(children) != 5 {
		t.Fatalf("%d children, %v", len(children), err)
	}
	for _, child := range children {
		if err := r.repairChild(t.Context(), cached, child); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.reconcileDelete(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	if deleted, orphaned := deletedChildren(t, r); deleted != 5 || orphaned != 5 {
		t.Errorf("%d releases are deleted, %d of them orphaned", deleted, orphaned)
	}
}
