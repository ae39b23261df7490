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
	all, hundred := intstr.FromString("100%"), intstr.FromInt32(100)
	for name, tc := range map[string]struct {
		objects []inventory.Ref
		max     *intstr.IntOrString
		want    string
	}{
		"nothing": {},
		"a few":   {objects: configMaps(10)},
		"many": {objects: configMaps(11),
			want: "would delete 11 of 40 objects, and spec.maxDeletions allows 10: ConfigMap fleet/c0, ConfigMap fleet/c1, " +
				"ConfigMap fleet/c2 and 8 more"},
		"many, with another limit": {objects: configMaps(11), max: &hundred},
		"many, without a limit":    {objects: configMaps(40), max: &all},
		"a Cluster": {objects: []inventory.Ref{cluster},
			want: "would delete 1 of 40 objects, among them 1 Cluster: Cluster fleet/one"},
		"a Cluster, with a high limit": {objects: []inventory.Ref{cluster}, max: &hundred,
			want: "would delete 1 of 40 objects, among them 1 Cluster: Cluster fleet/one"},
		"a Cluster, without a limit": {objects: []inventory.Ref{cluster}, max: &all},
		"another kind of that name":  {objects: []inventory.Ref{other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (ObjectLoss{Objects: tc.objects, Total: 40, Max: tc.max}).Why(); got != tc.want {
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
