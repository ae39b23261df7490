// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// caaph is the Cluster API add-on provider for Helm.
//
// It does not create or change HelmReleaseProxies of a paused HelmChartProxy, and it ignores events of a paused
// HelmReleaseProxy. But an event of a Cluster makes it reconcile both. If a HelmReleaseProxy is then under deletion and
// has the finalizer, CAAPH uninstalls its release. So the deletion of a HelmReleaseProxy must complete at once. The
// HelmChartProxy is deleted last: otherwise the garbage collector would delete its HelmReleaseProxies.
type caaph struct{}

func (caaph) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{migrate.HelmChartProxyKind, migrate.HelmReleaseProxyKind}
}

func (caaph) plan(ctx context.Context, c *kube.Client) (*migrate.Plan, error) {
	charts, err := list(ctx, c, migrate.HelmChartProxyKind)
	if err != nil {
		return nil, err
	}
	releases, err := list(ctx, c, migrate.HelmReleaseProxyKind)
	if err != nil {
		return nil, err
	}
	return migrate.FromCAAPH(charts, releases), nil
}

// pause lists the HelmReleaseProxies again: a reconciliation that began before the pause may have created one more.
func (caaph) pause(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	for _, ref := range objectsOf(item) {
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			annotate(object, clusterv1.PausedAnnotation, "true")
			return setPaused(object, item)
		})
		if err != nil {
			return err
		}
	}
	_, err := proxiesOf(ctx, c, item)
	return err
}

func (caaph) resume(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	for _, ref := range slices.Backward(objectsOf(item)) {
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			return endStep(object, func() { annotate(object, clusterv1.PausedAnnotation, "") })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// objectsOf returns the HelmChartProxy of an item, and then its HelmReleaseProxies.
func objectsOf(item *migrate.Item) []migrate.Object {
	objects := slices.Clone(item.From)
	for i := range item.Releases {
		objects = append(objects, item.Releases[i].Owner)
	}
	return objects
}

// isPaused reports whether CAAPH ignores an object.
func isPaused(object *unstructured.Unstructured) bool {
	_, found := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return found
}

func (caaph) detach(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	chart := item.From[0]
	if exists, err := markDetaching(ctx, c, item, chart, isPaused); err != nil || !exists {
		return err
	}
	if err := detachReleases(ctx, c, item); err != nil {
		return err
	}
	return deleteDetached(ctx, c, chart, migrate.HelmChartProxyFinalizer, isPaused)
}

// detachReleases deletes the HelmReleaseProxies of an item until there is none.
func detachReleases(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	for range detachAttempts {
		releases, err := proxiesOf(ctx, c, item)
		if err != nil || len(releases) == 0 {
			return err
		}
		// Without the pause, the tool would create a deleted HelmReleaseProxy again, and install its release again.
		chart := &unstructured.Unstructured{}
		if err := read(ctx, c, item.From[0], chart); err != nil {
			return kube.Explain(err)
		}
		if !isPaused(chart) {
			return fmt.Errorf("%s: %w", item.From[0], errNotPaused)
		}
		for _, release := range releases {
			if err := deleteDetached(ctx, c, release, migrate.HelmReleaseProxyFinalizer, isPaused); err != nil {
				return err
			}
		}
	}
	return errors.New("its tool creates HelmReleaseProxies all the time; stop the tool, and repeat the command")
}

// proxiesOf lists the HelmReleaseProxies of the HelmChartProxy of an item. It returns an error if one of them is not
// part of the item: nothing shows that HelmOp has adopted its release.
func proxiesOf(ctx context.Context, c *kube.Client, item *migrate.Item) ([]migrate.Object, error) {
	listed, err := list(ctx, c, migrate.HelmReleaseProxyKind)
	if err != nil {
		return nil, err
	}
	var proxies []migrate.Object
	for _, object := range listed {
		ref := migrate.ObjectOf(object)
		if object.GetLabels()[migrate.HelmChartProxyLabel] != item.From[0].Name {
			continue
		}
		if !slices.ContainsFunc(item.Releases, func(release migrate.Release) bool { return release.Owner == ref }) {
			return nil, fmt.Errorf("%s was created in the meantime; repeat the command", ref)
		}
		proxies = append(proxies, ref)
	}
	return proxies, nil
}
