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

// enterShard records the shard of a HelmOp, and reports whether the HelmOp may be reconciled in this shard. If not, the
// result says when to try again. After a change of the shard label, enterShard also relabels the releases and revisions
// of the HelmOp. It does so only while the HelmOp is paused, so that no manager acts on them, or under deletion.
//
// A HelmOp without a recorded shard may have objects in any shard: it is new, was moved or restored without its status,
// or is being relabelled. So the record is removed before the first object is relabelled, and set after the last
// object.
func (r *Reconciler) enterShard(ctx context.Context,
	helmOp *addonsv1.HelmOp,
) (result ctrl.Result, entered bool, err error) {
	former := helmOp.Status.Shard
	switch {
	case former != nil && *former == r.shard:
		return ctrl.Result{}, true, nil
	case former != nil && !apiutil.IsHelmOpPaused(helmOp) && helmOp.DeletionTimestamp.IsZero():
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason, fmt.Sprintf(
			"The shard changed from %q to %q while the HelmOp was not paused: the HelmOp is not reconciled. Set spec.paused "+
				"until status.shard is the new shard, or set the label %s back", *former, r.shard, addonsv1.ShardLabel))
		return ctrl.Result{}, false, nil
	case former != nil:
		helmOp.Status.Shard = nil
		return ctrl.Result{RequeueAfter: requeue.StaleRetry}, false, nil
	}
	revisions, revisionsErr := r.relabelRevisions(ctx, helmOp)
	releases, releasesErr := r.relabelReleases(ctx, helmOp)
	switch err := kerrors.NewAggregate([]error{revisionsErr, releasesErr}); {
	case err != nil:
		report.SetCondition(helmOp, addonsv1.ReadyCondition, metav1.ConditionFalse, addonsv1.ShardChangedReason, err.Error())
		return ctrl.Result{}, false, err
	case revisions+releases > 0:
		// The next pass must begin after the cache has the relabelled objects.
		return ctrl.Result{RequeueAfter: requeue.StaleRetry}, false, nil
	}
	helmOp.Status.Shard = ptr.To(r.shard)
	return ctrl.Result{}, true, nil
}

// relabel sets the shard label of the HelmOp on its objects of one kind in other shards, and returns the number of
// these objects. If an object cannot be changed, the others are relabelled nevertheless. typed returns an object of the
// kind with some metadata.
func (r *Reconciler) relabel(ctx context.Context, helmOp *addonsv1.HelmOp, kind string,
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
			errs = append(errs, fmt.Errorf("changing the shard label of %s %s: %w", kind, object.GetName(), err))
		}
	}
	if len(foreign) > 0 {
		ctrl.LoggerFrom(ctx).Info("Changed the shard label of objects of the HelmOp", "kind", kind, "objects",
			len(foreign)-len(errs))
	}
	return len(foreign), kerrors.NewAggregate(errs)
}

func (r *Reconciler) relabelReleases(ctx context.Context, helmOp *addonsv1.HelmOp) (int, error) {
	return r.relabel(ctx, helmOp, "HelmOpRelease",
		func(m metav1.ObjectMeta) client.Object { return &addonsv1.HelmOpRelease{ObjectMeta: m} })
}

func (r *Reconciler) relabelRevisions(ctx context.Context, helmOp *addonsv1.HelmOp) (int, error) {
	return r.relabel(ctx, helmOp, "HelmOpRevision",
		func(m metav1.ObjectMeta) client.Object { return &addonsv1.HelmOpRevision{ObjectMeta: m} })
}

// listMetadata calls a function with the metadata of each object of a kind that the options select. It lists the
// objects page by page.
func listMetadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind,
	visit func(*metav1.PartialObjectMetadata),
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
			visit(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}
