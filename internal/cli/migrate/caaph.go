// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// caaph is the Cluster API add-on provider for Helm.
//
// It neither creates nor changes HelmReleaseProxies of a paused HelmChartProxy, and it ignores events of a paused
// HelmReleaseProxy. But an event of a Cluster makes it look at both, and it uninstalls the release of a
// HelmReleaseProxy that is under deletion while it has the finalizer. A HelmReleaseProxy must therefore vanish at
// once. The HelmChartProxy is deleted last: if it were gone first, the garbage collector would delete its
// HelmReleaseProxies.
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

func (caaph) pause(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	return each(item, func(ref migrate.Object) error {
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			setPaused(object, item)
			annotate(object, clusterv1.PausedAnnotation, "true")
			return nil
		})
		return err
	})
}

func (caaph) resume(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	return each(item, func(ref migrate.Object) error {
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			if stepOf(object) != "" {
				annotate(object, addonsv1.MigrationAnnotation, "")
				annotate(object, clusterv1.PausedAnnotation, "")
			}
			return nil
		})
		return err
	})
}

// each calls a function for the HelmChartProxy of an item, and then for its HelmReleaseProxies.
func each(item *migrate.Item, do func(migrate.Object) error) error {
	var errs []error
	for _, ref := range item.From {
		errs = append(errs, do(ref))
	}
	for i := range item.Releases {
		errs = append(errs, do(item.Releases[i].Owner))
	}
	return errors.Join(errs...)
}

func (t caaph) detach(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	chart := item.From[0]
	if exists, err := markDetaching(ctx, c, item, chart); err != nil || !exists {
		return err
	}
	if err := t.detachReleases(ctx, c, chart); err != nil {
		return err
	}
	if err := deleteDetached(ctx, c, chart, migrate.HelmChartProxyFinalizer); err != nil {
		return err
	}
	// A reconciliation that began before the pause may have created one more.
	return t.detachReleases(ctx, c, chart)
}

// detachReleases deletes the HelmReleaseProxies of a HelmChartProxy.
func (caaph) detachReleases(ctx context.Context, c *kube.Client, chart migrate.Object) error {
	releases, err := list(ctx, c, migrate.HelmReleaseProxyKind)
	if err != nil {
		return err
	}
	var errs []error
	for _, release := range releases {
		if release.GetLabels()[migrate.HelmChartProxyLabel] == chart.Name {
			errs = append(errs, deleteDetached(ctx, c, migrate.ObjectOf(release), migrate.HelmReleaseProxyFinalizer))
		}
	}
	return errors.Join(errs...)
}
