// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func configMaps(n int) []inventory.Ref {
	var objects []inventory.Ref
	for i := range n {
		objects = append(objects, inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "fleet",
			Name: fmt.Sprintf("c%d", i)})
	}
	return objects
}

func TestObjectLoss(t *testing.T) {
	t.Parallel()
	cluster := inventory.Ref{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster", Namespace: "fleet",
		Name: "one"}
	other := inventory.Ref{Group: "example.com", Version: "v1", Kind: "Cluster", Namespace: "fleet", Name: "one"}
	one := func(group, kind, name string) []inventory.Ref {
		return []inventory.Ref{{Group: group, Version: "v1", Kind: kind, Name: name}}
	}
	const vital = "would delete 1 of 40 objects, and may delete Clusters or machines with them: "
	all, hundred := intstr.FromString("100%"), intstr.FromInt32(100)
	for name, tc := range map[string]struct {
		objects []inventory.Ref
		max     *intstr.IntOrString
		undoes  bool
		want    string
	}{
		"nothing": {},
		"a few":   {objects: configMaps(10)},
		"many": {objects: configMaps(11),
			want: "would delete 11 of 40 objects, and spec.maxDeletions allows 10: ConfigMap fleet/c0, ConfigMap fleet/c1, " +
				"ConfigMap fleet/c2 and 8 more"},
		"many, with another limit":     {objects: configMaps(11), max: &hundred},
		"many, without a limit":        {objects: configMaps(40), max: &all},
		"a Cluster":                    {objects: []inventory.Ref{cluster}, want: vital + "Cluster fleet/one"},
		"a Cluster, with a high limit": {objects: []inventory.Ref{cluster}, max: &hundred, want: vital + "Cluster fleet/one"},
		"a Cluster, without a limit":   {objects: []inventory.Ref{cluster}, max: &all},
		"another kind of that name":    {objects: []inventory.Ref{other}},
		"a Namespace":                  {objects: one("", "Namespace", "fleet"), want: vital + "Namespace fleet"},
		"a CustomResourceDefinition": {
			objects: one("apiextensions.k8s.io", "CustomResourceDefinition", "clusters.cluster.x-k8s.io"),
			want:    vital + "CustomResourceDefinition clusters.cluster.x-k8s.io"},
		"machines": {objects: one("cluster.x-k8s.io", "MachineDeployment", "a"), want: vital + "MachineDeployment a"},
		"a control plane": {objects: one("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "a"),
			want: vital + "KubeadmControlPlane a"},
		"an infrastructure cluster": {objects: one("infrastructure.cluster.x-k8s.io", "DockerCluster", "a"),
			want: vital + "DockerCluster a"},
		"a provider":                  {objects: one("operator.cluster.x-k8s.io", "CoreProvider", "a"), want: vital + "CoreProvider a"},
		"a HelmOp":                    {objects: one("addons.cluster.x-k8s.io", "HelmOp", "a"), want: vital + "HelmOp a"},
		"a template of machines":      {objects: one("infrastructure.cluster.x-k8s.io", "DockerMachineTemplate", "a")},
		"a health check of machines":  {objects: one("cluster.x-k8s.io", "MachineHealthCheck", "a")},
		"a drain rule":                {objects: one("cluster.x-k8s.io", "MachineDrainRule", "a")},
		"a ClusterResourceSet":        {objects: one("addons.cluster.x-k8s.io", "ClusterResourceSet", "a")},
		"a ClusterResourceSetBinding": {objects: one("addons.cluster.x-k8s.io", "ClusterResourceSetBinding", "a")},
		"an identity of a provider": {objects: one("infrastructure.cluster.x-k8s.io", "AWSClusterStaticIdentity", "a"),
			want: vital + "AWSClusterStaticIdentity a"},
		"a claim of an address": {objects: one("ipam.cluster.x-k8s.io", "IPAddressClaim", "a"),
			want: vital + "IPAddressClaim a"},
		"machines of another group":   {objects: one("metal3.io", "BareMetalHost", "a")},
		"a group with a similar name": {objects: one("notcluster.x-k8s.io", "Cluster", "a")},
		"a release that never worked": {objects: configMaps(40), undoes: true},
		"a release with a Cluster that never worked": {objects: []inventory.Ref{cluster}, undoes: true,
			want: vital + "Cluster fleet/one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (ObjectLoss{Objects: tc.objects, Total: 40, Undoes: tc.undoes, Max: tc.max}).Why(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	a := ObjectLoss{Objects: configMaps(3), Occasion: "1"}
	b := ObjectLoss{Objects: configMaps(3), Occasion: "2"}
	if a.Confirmation() == b.Confirmation() {
		t.Error("the confirmation of one occasion confirms another")
	}
}
