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
	for image, own := range map[string]bool{"r.example:5000/app:1": true, "r.example/app:1": false, "nginx": false} {
		ref, err := Parse(image)
		if err != nil {
			t.Fatal(err)
		}
		got := Access(chart, "oci://r.example:5000/charts/web", ref)
		if got.Insecure != own || (got.ClientKey != nil) != own || (got.CloudProvider != "") != own || got.CA == nil {
			t.Errorf("%s: %+v", image, got)
		}
	}
}
