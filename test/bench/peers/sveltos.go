// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// profileKind is a set of charts for the Clusters of one namespace.
var profileKind = schema.GroupVersionKind{Group: "config.projectsveltos.io", Version: "v1beta1", Kind: "Profile"}

// newSveltos returns the addon-controller of Sveltos, with a Profile for each chart.
func newSveltos(f Fleet) Peer {
	t := &tool{Fleet: f}
	t.programs = []program{{
		folder: testbed.SveltosTool, module: testbed.SveltosModule, start: f.World.Env.Management.StartSveltos,
		args: t.concurrency("--worker-number", "--concurrent-reconciles"),
	}}
	t.objects = func(level string) []*unstructured.Unstructured {
		var all []*unstructured.Unstructured
		for _, chart := range f.Charts {
			all = append(all, t.object(profileKind, chart.Name, map[string]any{
				"clusterSelector": map[string]any{"matchLabels": map[string]any{world.GroupLabel: f.Name}},
				"syncMode":        "Continuous",
				"helmCharts": []any{map[string]any{
					"repositoryURL": t.chartsURL(), "repositoryName": "charts", "chartName": chart.Name,
					"chartVersion": chart.Version, "releaseName": chart.Name, "releaseNamespace": f.Namespace(chart.Name),
					"helmChartAction": "Install", "values": templatedValues(level),
					"registryCredentialsConfig": map[string]any{
						"credentials": map[string]any{"name": environment.CredentialsSecret, "namespace": f.Name},
						"key":         corev1.DockerConfigJsonKey,
						"ca":          map[string]any{"name": environment.CASecret, "namespace": f.Name},
					},
				}},
			}))
		}
		return all
	}
	return t
}
