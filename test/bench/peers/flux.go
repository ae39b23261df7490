// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// fluxInterval is the interval of all objects of Flux, the same as HelmOp's --sync-period.
const fluxInterval = "10m"

// newFlux returns the helm-controller and the source-controller of Flux, with an OCIRepository for each chart, and a
// HelmRelease for each chart in each Cluster.
func newFlux(f Fleet) Peer {
	t := &tool{Fleet: f}
	concurrency := t.concurrency("--concurrent")
	t.programs = []program{
		{folder: testbed.FluxTool, module: testbed.FluxModule, start: f.World.Env.Management.StartFlux,
			args: concurrency},
		{folder: testbed.FluxSourceTool, module: testbed.FluxSourceModule,
			start: f.World.Env.Management.StartFluxSource, args: concurrency},
	}
	t.objects = func(level string) []*unstructured.Unstructured {
		var all []*unstructured.Unstructured
		for _, chart := range f.Charts {
			all = append(all, t.object(migrate.OCIRepositoryKind, chart.Name, map[string]any{
				"url": t.chartsURL() + "/" + chart.Name, "ref": map[string]any{"tag": chart.Version},
				"interval": fluxInterval, "secretRef": map[string]any{"name": environment.CredentialsSecret},
				"certSecretRef": map[string]any{"name": environment.CASecret},
				"layerSelector": map[string]any{"mediaType": registry.ChartLayerType, "operation": "copy"},
			}))
		}
		// Chart by chart, so that concurrent actions are in different Clusters.
		for _, chart := range f.Charts {
			for i := range f.Clusters {
				all = append(all, t.helmRelease(f.Clusters[i].Name, chart.Name, level))
			}
		}
		return all
	}
	return t
}

func (t *tool) helmRelease(cluster, chart, level string) *unstructured.Unstructured {
	noWait := func() map[string]any { return map[string]any{"disableWait": true} }
	install := noWait()
	install["createNamespace"] = true
	return t.object(migrate.HelmReleaseKind, cluster+"-"+chart, map[string]any{
		"interval": fluxInterval, "chartRef": map[string]any{"kind": migrate.OCIRepositoryKind.Kind, "name": chart},
		"kubeConfig":  map[string]any{"secretRef": map[string]any{"name": cluster + "-kubeconfig"}},
		"releaseName": chart, "targetNamespace": t.Namespace(chart), "storageNamespace": t.Namespace(chart),
		"install": install, "upgrade": noWait(), "uninstall": noWait(),
		"values": map[string]any{"cluster": cluster, "logLevel": level},
	})
}
