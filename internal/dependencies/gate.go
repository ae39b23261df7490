// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// Gate decides whether the other releases in a Cluster permit an installation or an uninstallation. It reads objects
// and writes none. All fields are required.
type Gate struct {
	// Client reads from the cache, and Live from the API server.
	Client, Live client.Reader

	// Shard and WatchFilter are the settings of the manager.
	Shard, WatchFilter string

	Now func() time.Time
}

// Unmet returns the reason and the message about dependencies of a release that are not met in its Cluster. Both are
// empty if all are met.
func (g *Gate) Unmet(ctx context.Context, release *addonsv1.HelmOpRelease,
	cluster *clusterv1.Cluster,
) (reason, message string, err error) {
	if why := InvalidDependency(release.Spec.DependsOn); why != "" {
		return addonsv1.InvalidDependencyReason, why, nil
	}
	helmOps := &addonsv1.HelmOpList{}
	if err := g.Client.List(ctx, helmOps, client.InNamespace(release.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return "", "", fmt.Errorf("listing HelmOps: %w", err)
	}
	// The spec of this release counts too: its HelmOp may have changed since HelmOp wrote the spec.
	name, graph := apiutil.HelmOpOf(release), GraphOf(helmOps.Items)
	graph.Add(name, release.Spec.DependsOn)
	if path := graph.Path(name, name); path != nil {
		return addonsv1.DependencyCycleReason, CycleMessage(path), nil
	}
	siblings, err := apiutil.SiblingsOf(ctx, g.Client, release)
	if err != nil {
		return "", "", err
	}
	var waits []string
	for _, named := range release.Spec.DependsOn {
		d, err := ReadDependency(ctx, g.Live, g.Shard, release.Namespace, named, helmOps.Items)
		if err != nil {
			return "", "", err
		}
		why, err := g.unmet(ctx, cluster, d, siblings[named.Name])
		if err != nil {
			return "", "", err
		}
		if why != "" {
			waits = append(waits, why)
		}
	}
	if len(waits) == 0 {
		return "", "", nil
	}
	return addonsv1.WaitingForDependenciesReason, ListUnmet(waits), nil
}

// unmet returns why a dependency is not met; empty if it is met. Before it returns that a dependency is met, it reads
// the release of the dependency from the API server: the cache may not have a newly assigned revision.
func (g *Gate) unmet(ctx context.Context, cluster *clusterv1.Cluster, d Dependency,
	release *addonsv1.HelmOpRelease,
) (string, error) {
	if why := d.Unmet(cluster, release); why != "" {
		return why, nil
	}
	current := &addonsv1.HelmOpRelease{}
	if err := g.Live.Get(ctx, client.ObjectKeyFromObject(release), current); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return d.Unmet(cluster, nil), nil
		}
		return "", fmt.Errorf("reading the release of HelmOp %s: %w", d.Name, err)
	}
	return d.Unmet(cluster, current), nil
}
