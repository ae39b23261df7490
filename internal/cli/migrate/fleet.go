// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// fleetTool is Fleet, whose agents in the clusters install the charts of HelmOps.
type fleetTool struct{}

// errNoFleetApply is returned by all steps of a migration from Fleet.
var errNoFleetApply = errors.New("releases of Fleet are handed over by hand; see docs/migration.md")

func (fleetTool) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{migrate.FleetHelmOpKind, migrate.FleetBundleKind, migrate.FleetDeploymentKind,
		migrate.FleetClusterKind, migrate.FleetGroupKind}
}

func (fleetTool) plan(ctx context.Context, c *kube.Client) (*migrate.Plan, error) {
	objects := migrate.FleetObjects{}
	for _, read := range []struct {
		kind schema.GroupVersionKind
		into *[]*unstructured.Unstructured
	}{
		{migrate.FleetHelmOpKind, &objects.HelmOps}, {migrate.FleetClusterKind, &objects.Clusters},
		{migrate.FleetGroupKind, &objects.Groups},
	} {
		var err error
		if *read.into, err = list(ctx, c, read.kind); err != nil {
			return nil, err
		}
	}
	var err error
	// Each cluster has a namespace for its BundleDeployments.
	objects.Deployments, err = listIn(ctx, c, migrate.FleetDeploymentKind, metav1.NamespaceAll,
		client.MatchingLabels{migrate.FleetBundleNamespaceLabel: c.Namespace})
	if err != nil {
		return nil, err
	}
	clusters, err := clusterMetadata(ctx, c)
	if err != nil {
		return nil, err
	}
	return migrate.FromFleet(objects, clusters), nil
}

func (fleetTool) pause(context.Context, *kube.Client, *migrate.Item) error { return errNoFleetApply }

func (fleetTool) resume(context.Context, *kube.Client, *migrate.Item) error { return errNoFleetApply }

func (fleetTool) detach(context.Context, *kube.Client, *migrate.Item) error { return errNoFleetApply }
