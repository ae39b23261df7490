// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
)

// handedOnKinds are what a HelmOp takes along into its shard.
var handedOnKinds = []string{"HelmOpRelease", "HelmOpRevision"}

// adoptee is a release or a revision that was taken along.
type adoptee struct {
	kind string
	key  client.ObjectKey
}

// adoption is how far a HelmOp has come into its shard.
type adoption struct {
	uid types.UID
	// awaited are what was relabelled and the cache did not show yet, since when.
	awaited []adoptee
	since   time.Time
	// Done tells that nothing of the HelmOp is left in another shard.
	Done bool
}

// Adoptions remember which HelmOps have all that is theirs in the own shard. Without that, a manager that takes a HelmOp over would
// believe that it has neither releases nor revisions, and begin anew. It is safe for concurrent use.
type Adoptions struct {
	mu       sync.Mutex
	byHelmOp map[types.NamespacedName]adoption

	// strays are the HelmOps, by namespace and label, of what was of other shards when the manager began; surveyed are the HelmOps
	// that it knew then. For these, one question answers all.
	strays   map[types.NamespacedName]bool
	surveyed map[types.UID]bool
}

// NewAdoptions knows of no HelmOp.
func NewAdoptions() *Adoptions { return &Adoptions{byHelmOp: map[types.NamespacedName]adoption{}} }

// Of returns how far the adoption of a HelmOp's objects is.
func (a *Adoptions) Of(helmOp *addonsv1.HelmOp) adoption {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.byHelmOp[client.ObjectKeyFromObject(helmOp)]
	if known.uid != helmOp.UID {
		return adoption{uid: helmOp.UID, Done: a.surveyed[helmOp.UID] && !a.strays[labelledOwner(helmOp.Namespace, apiutil.ChildSelector(helmOp))]}
	}
	return known
}

func (a *Adoptions) set(helmOp *addonsv1.HelmOp, known adoption) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byHelmOp[client.ObjectKeyFromObject(helmOp)] = known
}

// forget begins anew with a HelmOp that left the shard, or is gone: it may come back with what another manager made.
func (a *Adoptions) forget(key types.NamespacedName, uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byHelmOp, key)
	delete(a.surveyed, uid)
}

// Left is for the events of HelmOps that leave the shard.
func (a *Adoptions) Left() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ async.RequestQueue) {
		a.forget(client.ObjectKeyFromObject(e.Object), e.Object.GetUID())
	}}
}

func labelledOwner(namespace string, has map[string]string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: has[addonsv1.HelmOpNameLabel]}
}

// survey finds out, once, which HelmOps have something in other shards.
func (r *Reconciler) survey(ctx context.Context) error {
	a := r.Adoptions
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.surveyed != nil {
		return nil
	}
	helmOps := &addonsv1.HelmOpList{}
	if err := r.Client.List(ctx, helmOps, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing HelmOps: %w", err)
	}
	strays := map[types.NamespacedName]bool{}
	for _, kind := range handedOnKinds {
		err := listMetadata(ctx, r.Live, addonsv1.GroupVersion.WithKind(kind), func(object *metav1.PartialObjectMetadata) {
			strays[labelledOwner(object.Namespace, object.Labels)] = true
		}, client.InNamespace(r.Namespace), client.MatchingLabelsSelector{Selector: apiutil.OtherShards(r.Shard)})
		if err != nil {
			return fmt.Errorf("looking for what is of other shards: %w", err)
		}
	}
	a.strays, a.surveyed = strays, make(map[types.UID]bool, len(helmOps.Items))
	for i := range helmOps.Items {
		a.surveyed[helmOps.Items[i].UID] = true
	}
	return nil
}

// adopt takes the releases and revisions of a HelmOp along into its shard. It tells whether all are there: until then, nothing may be
// concluded from what the cache has.
func (r *Reconciler) adopt(ctx context.Context, helmOp *addonsv1.HelmOp) (complete bool, err error) {
	if err := r.survey(ctx); err != nil {
		return false, err
	}
	known := r.Adoptions.Of(helmOp)
	if known.Done {
		return true, nil
	}
	if len(known.awaited) > 0 && r.Now().Sub(known.since) < 10*time.Second {
		if known.awaited, err = r.unseenOf(ctx, known.awaited); err != nil || len(known.awaited) > 0 {
			r.Adoptions.set(helmOp, known)
			return false, err
		}
	}
	known.awaited, err = r.takeAlong(ctx, helmOp)
	known.since, known.Done = r.Now(), err == nil && len(known.awaited) == 0
	r.Adoptions.set(helmOp, known)
	if len(known.awaited) > 0 {
		ctrl.LoggerFrom(ctx).Info("Taken over from another shard", "objects", len(known.awaited))
	}
	return known.Done, err
}

// unseenOf are those that the cache does not show yet.
func (r *Reconciler) unseenOf(ctx context.Context, adopted []adoptee) ([]adoptee, error) {
	var unseen []adoptee
	for _, a := range adopted {
		var object client.Object = &addonsv1.HelmOpRelease{}
		if a.kind == "HelmOpRevision" {
			object = &addonsv1.HelmOpRevision{}
		}
		switch err := r.Client.Get(ctx, a.key, object); {
		case apierrors.IsNotFound(err):
			unseen = append(unseen, a)
		case err != nil:
			return adopted, fmt.Errorf("reading %s %s: %w", a.kind, a.key, err)
		}
	}
	return unseen, nil
}

// takeAlong gives what a HelmOp has in other shards its own label, and returns what it was.
func (r *Reconciler) takeAlong(ctx context.Context, helmOp *addonsv1.HelmOp) ([]adoptee, error) {
	selector := apiutil.OtherShards(r.Shard)
	if requirements, selectable := labels.SelectorFromSet(apiutil.ChildSelector(helmOp)).Requirements(); selectable {
		selector = selector.Add(requirements...)
	}
	var adopted []adoptee
	for _, kind := range handedOnKinds {
		var strays []*metav1.PartialObjectMetadata
		err := listMetadata(ctx, r.Live, addonsv1.GroupVersion.WithKind(kind), func(object *metav1.PartialObjectMetadata) {
			// Two long names may share a label value.
			if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == apiutil.HelmOpKind && owner.Name == helmOp.Name {
				strays = append(strays, object.DeepCopy())
			}
		}, client.InNamespace(helmOp.Namespace), client.MatchingLabelsSelector{Selector: selector})
		if err != nil {
			return adopted, fmt.Errorf("looking for what the HelmOp has in other shards: %w", err)
		}
		for _, stray := range strays {
			stray.SetGroupVersionKind(addonsv1.GroupVersion.WithKind(kind))
			before := stray.DeepCopy()
			if stray.Labels == nil {
				stray.Labels = map[string]string{}
			}
			apiutil.FollowLabels(stray.Labels, helmOp)
			if err := r.Client.Patch(ctx, stray, client.MergeFrom(before)); err != nil {
				if apierrors.IsNotFound(err) {
					continue
				}
				return adopted, fmt.Errorf("taking over %s %s: %w", kind, stray.Name, err)
			}
			adopted = append(adopted, adoptee{kind: kind, key: client.ObjectKeyFromObject(stray)})
		}
	}
	return adopted, nil
}

// listMetadata shows the metadata of all objects of a kind that the options choose, page by page.
func listMetadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, show func(*metav1.PartialObjectMetadata),
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
