// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// enterShard records which shard a HelmOp is of, and reports whether it may be reconciled in this one; if not, result
// says when to try again. A HelmOp whose label was changed brings its releases and revisions along, but only while it
// is paused, so that no manager acts on them, or under deletion.
//
// A HelmOp without a recorded shard may have objects in any shard: it is new, was moved or restored without its status,
// or is being brought along. So the record is removed before the first object is changed, and set when none is left.
func (r *Reconciler) enterShard(ctx context.Context,
	helmOp *addonsv1.HelmOp,
) (result ctrl.Result, entered bool, err error) {
	former := helmOp.Status.Shard
	switch {
	case former != nil && *former == r.shard:
		return ctrl.Result{}, true, nil
	case former != nil && !apiutil.IsHelmOpPaused(helmOp) && helmOp.DeletionTimestamp.IsZero():
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason, fmt.Sprintf(
			"The shard changed from %q to %q while the HelmOp was not paused: nothing is done for it. Set spec.paused "+
				"until status.shard is the new shard, or set the label %s back", *former, r.shard, addonsv1.ShardLabel))
		return ctrl.Result{}, false, nil
	case former != nil:
		helmOp.Status.Shard = nil
		return ctrl.Result{RequeueAfter: requeue.StaleRetry}, false, nil
	}
	revisions, revisionsErr := r.bringRevisions(ctx, helmOp)
	releases, releasesErr := r.bringReleases(ctx, helmOp)
	switch err := kerrors.NewAggregate([]error{revisionsErr, releasesErr}); {
	case err != nil:
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason, err.Error())
		return ctrl.Result{}, false, err
	case revisions+releases > 0:
		// The next pass begins when the cache shows what was brought along.
		return ctrl.Result{RequeueAfter: requeue.StaleRetry}, false, nil
	}
	helmOp.Status.Shard = ptr.To(r.shard)
	return ctrl.Result{}, true, nil
}

// bringAlong gives the objects of one kind that a HelmOp has in other shards the label of its own shard, and returns
// how many these were. An object that cannot be changed does not keep the others back. typed returns an object of the
// kind with some metadata.
func (r *Reconciler) bringAlong(ctx context.Context, helmOp *addonsv1.HelmOp, kind string,
	typed func(metav1.ObjectMeta) client.Object,
) (int, error) {
	selector := apiutil.OtherShards(r.shard)
	if requirements, selectable := labels.SelectorFromSet(apiutil.ChildSelector(helmOp)).Requirements(); selectable {
		selector = selector.Add(requirements...)
	}
	var foreign []client.Object
	err := listMetadata(ctx, r.live, addonsv1.GroupVersion.WithKind(kind), func(object *metav1.PartialObjectMetadata) {
		// Two long names may share a label value.
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == apiutil.HelmOpKind &&
			owner.Name == helmOp.Name {
			foreign = append(foreign, typed(*object.ObjectMeta.DeepCopy()))
		}
	}, client.InNamespace(helmOp.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return 0, fmt.Errorf("listing each %s of the HelmOp in other shards: %w", kind, err)
	}
	var errs []error
	for _, object := range foreign {
		before := object.DeepCopyObject().(client.Object)
		apiutil.InheritLabels(object.GetLabels(), helmOp)
		if err := r.client.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("bringing %s %s into the shard: %w", kind, object.GetName(), err))
		}
	}
	if len(foreign) > 0 {
		ctrl.LoggerFrom(ctx).Info("Brought objects of the HelmOp into the shard", "kind", kind, "objects",
			len(foreign)-len(errs))
	}
	return len(foreign), kerrors.NewAggregate(errs)
}

func (r *Reconciler) bringReleases(ctx context.Context, helmOp *addonsv1.HelmOp) (int, error) {
	return r.bringAlong(ctx, helmOp, "HelmOpRelease",
		func(m metav1.ObjectMeta) client.Object { return &addonsv1.HelmOpRelease{ObjectMeta: m} })
}

func (r *Reconciler) bringRevisions(ctx context.Context, helmOp *addonsv1.HelmOp) (int, error) {
	return r.bringAlong(ctx, helmOp, "HelmOpRevision",
		func(m metav1.ObjectMeta) client.Object { return &addonsv1.HelmOpRevision{ObjectMeta: m} })
}

// listMetadata shows the metadata of all objects of a kind that the options choose, page by page.
func listMetadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind,
	show func(*metav1.PartialObjectMetadata),
	options ...client.ListOption,
) error {
	next := ""
	options = append(options, client.Limit(apiutil.MetadataPage))
	for {
		page := apiutil.MetadataList(kind)
		if err := reader.List(ctx, page, append(options[:len(options):len(options)], client.Continue(next))...); err != nil {
			return err
		}
		for i := range page.Items {
			show(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}
