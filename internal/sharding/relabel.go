// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sharding

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
)

// Relabeler sets the shard label of a HelmOp on its objects that are in other shards.
type Relabeler struct {
	Client client.Client

	// Live reads from the API server: the cache has no objects of other shards.
	Live client.Reader

	// Shard is the shard of the manager.
	Shard string
}

// relabel sets the shard label of the HelmOp on its objects of one kind in other shards. It returns the number of these
// objects. If an object cannot be changed, it still relabels the others. typed returns an object of the kind with given
// metadata.
func (r *Relabeler) relabel(ctx context.Context, helmOp *addonsv1.HelmOp, kind string,
	typed func(metav1.ObjectMeta) client.Object,
) (int, error) {
	selector := apiutil.OtherShards(r.Shard)
	if requirements, selectable := labels.SelectorFromSet(apiutil.ChildSelector(helmOp)).Requirements(); selectable {
		selector = selector.Add(requirements...)
	}
	var foreign []client.Object
	err := listMetadata(ctx, r.Live, addonsv1.GroupVersion.WithKind(kind), func(object *metav1.PartialObjectMetadata) {
		// Two long names may have the same label value.
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
		if err := r.Client.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("changing the shard label of %s %s: %w", kind, object.GetName(), err))
		}
	}
	if len(foreign) > 0 {
		ctrl.LoggerFrom(ctx).Info("Changed the shard label of objects of the HelmOp", "kind", kind, "objects",
			len(foreign)-len(errs))
	}
	return len(foreign), failures.Join(errs)
}

// Releases relabels the releases of a HelmOp. It returns the number of releases that were in other shards.
func (r *Relabeler) Releases(ctx context.Context, helmOp *addonsv1.HelmOp) (int, error) {
	return r.relabel(ctx, helmOp, "HelmOpRelease",
		func(m metav1.ObjectMeta) client.Object { return &addonsv1.HelmOpRelease{ObjectMeta: m} })
}

// Revisions relabels the revisions of a HelmOp. It returns the number of revisions that were in other shards.
func (r *Relabeler) Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) (int, error) {
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
