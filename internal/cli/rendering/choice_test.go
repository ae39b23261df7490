// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// TestChoiceOfManagementCluster checks that labels never choose the management cluster, because it has no labels.
func TestChoiceOfManagementCluster(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{}
	helmOp.Spec.ManagementCluster = &addonsv1.ManagementCluster{ImpersonateServiceAccountName: "admin"}
	for name, tc := range map[string]struct {
		choice choice
		want   bool
	}{
		"all":        {choice{}, true},
		"by name":    {choice{clusters: []string{clusterlink.Management.Name}}, true},
		"other name": {choice{clusters: []string{"prod-1"}}, false},
		"by labels":  {choice{labelSelector: "region=eu"}, false},
	} {
		if err := tc.choice.validate(); err != nil {
			t.Fatal(err)
		}
		keys, err := tc.choice.of(t.Context(), preview.New(preview.Options{}), helmOp)
		if err != nil || (len(keys) == 1) != tc.want {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
}
