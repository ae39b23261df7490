// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// newCAAPH returns the Cluster API add-on provider for Helm, with a HelmChartProxy for each chart.
func newCAAPH(f Fleet) Peer {
	t := &tool{Fleet: f}
	t.programs = []program{{
		folder: testbed.CAAPHTool, module: testbed.CAAPHModule, start: f.World.Env.Management.StartCAAPH,
		args: t.concurrency("--helm-chart-proxy-concurrency", "--helm-release-proxy-concurrency"),
	}}
	t.objects = func(level string) []*unstructured.Unstructured {
		var all []*unstructured.Unstructured
		for _, chart := range f.Charts {
			all = append(all, t.object(migrate.HelmChartProxyKind, chart.Name, map[string]any{
				"clusterSelector": map[string]any{"matchLabels": map[string]any{world.GroupLabel: f.Name}},
				"repoURL":         t.chartsURL(), "chartName": chart.Name, "version": chart.Version,
				"releaseName": chart.Name, "namespace": f.Namespace(chart.Name), "valuesTemplate": templatedValues(level),
				"credentials": map[string]any{
					"secret": map[string]any{"name": environment.CredentialsSecret}, "key": corev1.DockerConfigJsonKey,
				},
				"tlsConfig": map[string]any{"caSecret": map[string]any{"name": environment.CASecret}},
			}))
		}
		return all
	}
	return t
}
