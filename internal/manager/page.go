// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
)

const (
	// pagePath is the URL path of the page.
	pagePath = "/ui/"

	// pageStreams is the largest number of live updates that run for all users together.
	pageStreams = 100
)

// setupPage serves the page at the address of the metrics, with the same authentication and authorization.
func setupPage(mgr ctrl.Manager, options *Options) error {
	if !options.page {
		return nil
	}
	source := &cachedFleet{cache: mgr.GetCache(), changes: ui.NewChanges()}
	if err := mgr.Add(source); err != nil {
		return err
	}
	scope := "all namespaces"
	if options.namespace != "" {
		scope = "namespace " + options.namespace
	}
	if options.shard != "" {
		scope += ", shard " + options.shard
	}
	return mgr.AddMetricsServerExtraHandler(pagePath, ui.New(ui.Options{Source: source, Base: pagePath, Scope: scope,
		Namespaces: options.namespace == "", Program: fleetview.Program{Name: "kubectl helmop"},
		MaxStreams: pageStreams}))
}

// cachedFleet is the fleet in the cache of the manager. It sends no requests, so the page needs no permission that the
// manager does not have anyway.
type cachedFleet struct {
	cache   cache.Cache
	changes *ui.Changes
}

// Start reports the changes of the cached objects until the context ends.
func (f *cachedFleet) Start(ctx context.Context) error {
	for _, object := range []client.Object{&addonsv1.HelmOp{}, &addonsv1.HelmOpRelease{}, apiutil.NewCluster()} {
		informer, err := f.cache.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("following objects for the page: %w", err)
		}
		if _, err := informer.AddEventHandler(f.handler()); err != nil {
			return fmt.Errorf("following objects for the page: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection is false, because each replica has the cache and serves the page.
func (f *cachedFleet) NeedLeaderElection() bool { return false }

func (f *cachedFleet) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f.changes.Add() },
		UpdateFunc: func(before, now any) {
			was, isObject := before.(metav1.Object)
			// Skip objects that did not change: the periodic resynchronization sends events for them too.
			if is, ok := now.(metav1.Object); !ok || !isObject || is.GetResourceVersion() != was.GetResourceVersion() {
				f.changes.Add()
			}
		},
		DeleteFunc: func(any) { f.changes.Add() },
	}
}

// World implements ui.Source. The objects are shared with the cache: do not change them.
func (f *cachedFleet) World(ctx context.Context) (*fleetview.World, string, error) {
	helmOps, releases := &addonsv1.HelmOpList{}, &addonsv1.HelmOpReleaseList{}
	clusters := apiutil.NewClusterList()
	for _, list := range []client.ObjectList{helmOps, releases, clusters} {
		if err := f.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, "", err
		}
	}
	return fleetview.NewWorld(pointers(helmOps.Items), pointers(releases.Items),
		pointers[unstructured.Unstructured](clusters.Items)), "", nil
}

func pointers[T any](items []T) []*T {
	result := make([]*T, 0, len(items))
	for i := range items {
		result = append(result, &items[i])
	}
	return result
}

// Revisions implements ui.Source.
func (f *cachedFleet) Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error) {
	list := &addonsv1.HelmOpRevisionList{}
	err := f.cache.List(ctx, list, client.InNamespace(helmOp.Namespace),
		client.MatchingLabels(apiutil.ChildSelector(helmOp)), client.UnsafeDisableDeepCopy)
	return fleetview.RevisionsOf(helmOp, pointers(list.Items)), err
}

// Events implements ui.Source. The manager has no permission to read Events.
func (f *cachedFleet) Events(context.Context, client.ObjectKey, string) ([]*corev1.Event, error) {
	return nil, ui.ErrNoEvents
}

// Changes implements ui.Source.
func (f *cachedFleet) Changes() *ui.Changes { return f.changes }
