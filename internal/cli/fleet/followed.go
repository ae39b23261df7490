// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
)

// followed is the state of a fleet. Watches update it.
type followed struct {
	*kube.Client
	changes *ui.Changes
	// access says which Clusters are followed. Set by start.
	access clusterAccess

	// mutex guards the fields below.
	mutex sync.Mutex
	world fleetview.World
	// warnings are the warnings about kinds of objects that may be outdated, and about missing rights.
	warnings map[string]string
}

func newFollowed(c *kube.Client) *followed {
	return &followed{Client: c, changes: ui.NewChanges(), warnings: map[string]string{}}
}

// start follows the objects in the background until the context ends. It returns when all objects are listed. It calls
// fail if the objects cannot be followed any more.
func (f *followed) start(ctx context.Context, fail context.CancelCauseFunc) error {
	in := client.InNamespace(f.Namespace)
	helmOps := followIn(ctx, f, "HelmOps", &addonsv1.HelmOpList{}, &f.world.HelmOps, fail, in)
	releases := followIn(ctx, f, "HelmOpReleases", &addonsv1.HelmOpReleaseList{}, &f.world.Releases, fail, in)
	if err := await(ctx, helmOps, releases); err != nil {
		return err
	}
	world, _, err := f.World(ctx)
	if err != nil {
		return err
	}
	f.access, err = accessTo(world, f.Namespace, func(namespace string) error {
		return kube.Explain(f.List(ctx, apiutil.NewClusterList(), client.InNamespace(namespace), client.Limit(1)))
	})
	if err != nil {
		return err
	}
	if f.access.denied != nil {
		f.warn("rights", f.access.warning()+".")
	}
	if f.access.isBlind {
		return nil
	}
	return await(ctx, followIn(ctx, f, "Clusters", apiutil.NewClusterList(), &f.world.Clusters, fail,
		client.InNamespace(f.access.namespace)))
}

// await waits until all channels are closed.
func await(ctx context.Context, listed ...<-chan struct{}) error {
	for _, done := range listed {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-done:
		}
	}
	return nil
}

// followIn follows objects in the background. The returned channel is closed when the objects are listed.
func followIn[T client.Object](ctx context.Context, f *followed, kind string, list client.ObjectList,
	objects *map[client.ObjectKey]T, fail context.CancelCauseFunc, opts ...client.ListOption,
) <-chan struct{} {
	listed := make(chan struct{})
	c := *f.Client
	c.Note = func(format string, args ...any) {
		f.Client.Note(format, args...)
		f.warn(kind, kind+" may not be current: the API server of the management cluster does not answer.")
	}
	go func() {
		isListed := false
		fail(kube.Follow(ctx, &c, list, func(change kube.Change[T]) (bool, error) {
			f.mutex.Lock()
			change.Apply(objects)
			delete(f.warnings, kind)
			f.mutex.Unlock()
			if !isListed {
				isListed = true
				close(listed)
			}
			f.changes.Add()
			return false, nil
		}, opts...))
	}()
	return listed
}

func (f *followed) warn(kind, warning string) {
	f.mutex.Lock()
	f.warnings[kind] = warning
	f.mutex.Unlock()
	f.changes.Add()
}

// World implements ui.Source.
func (f *followed) World(context.Context) (*fleetview.World, string, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	world := &fleetview.World{HelmOps: maps.Clone(f.world.HelmOps), Releases: maps.Clone(f.world.Releases),
		Clusters: maps.Clone(f.world.Clusters)}
	return world, strings.Join(slices.Sorted(maps.Values(f.warnings)), " "), nil
}

// Revisions implements ui.Source.
func (f *followed) Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error) {
	return f.Client.Revisions(ctx, helmOp)
}

// Events implements ui.Source.
func (f *followed) Events(ctx context.Context, about client.ObjectKey, kind string) ([]*corev1.Event, error) {
	items, _, err := kube.ListAll[*corev1.Event](ctx, f, &corev1.EventList{},
		subject{about.Namespace, kind, about.Name}.options()...)
	return fleetview.SortedEvents(items), err
}

// Changes implements ui.Source.
func (f *followed) Changes() *ui.Changes { return f.changes }
