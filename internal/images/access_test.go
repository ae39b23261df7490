// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// TestAccess checks that credentials for the host of a chart are not used for other hosts.
func TestAccess(t *testing.T) {
	t.Parallel()
	chart := oci.Access{Insecure: true, CloudProvider: "aws", CA: []byte("ca"), ClientCert: []byte("cert"),
		ClientKey: []byte("key")}
	for _, tc := range []struct {
		chart, image string
		own          bool
	}{
		{"oci://r.example:5000/charts/web", "r.example:5000/app:1", true},
		{"oci://r.example:5000/charts/web", "r.example/app:1", false},
		{"oci://r.example:5000/charts/web", "nginx", false},
		{"oci://r.example:80/charts/web", "r.example/app:1", true},
		{"oci://r.example:443/charts/web", "r.example/app:1", false},
		{"oci://registry-1.docker.io/bitnamicharts/redis", "docker.io/bitnami/redis:7", true},
		{"oci://docker.io/bitnamicharts/redis", "nginx", true},
	} {
		ref, err := Parse(tc.image)
		if err != nil {
			t.Fatal(err)
		}
		got := Access(chart, tc.chart, ref)
		if got.Insecure != tc.own || (got.ClientKey != nil) != tc.own || (got.CloudProvider != "") != tc.own ||
			got.CA == nil {
			t.Errorf("%s, %s: %+v", tc.chart, tc.image, got)
		}
	}
}
