// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package reasons

import (
	"errors"
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// TestReasonOfLocalRegistry checks that the error for a registry with a local address does not blame the credentials.
func TestReasonOfLocalRegistry(t *testing.T) {
	t.Parallel()
	registry, err := oci.New(oci.Options{Dir: t.TempDir(), RefuseLocal: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1:1", "localhost:1", "169.254.169.254"} {
		_, err := registry.Resolve(t.Context(), oci.Source{URL: "oci://" + host + "/x", Ref: oci.Reference{Tag: "1"}})
		if !errors.Is(err, ocierr.ErrAddressRefused) {
			t.Errorf("%s: got %v", host, err)
		}
		for name, got := range map[string]string{"lookup": For(err, ArtifactErrors, ""), "pull": ForChart(err)} {
			if got != addonsv1.AddressRefusedReason {
				t.Errorf("%s: the reason of a %s is %q", host, name, got)
			}
		}
	}
}
