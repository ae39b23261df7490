// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
)

// TestStepsOf checks the exact version of Kubernetes of each step.
func TestStepsOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ running, version, plan, want string }{
		{"v1.35.1", "v1.37", "", "v1.36.0 v1.37.0"},
		{"v1.35.1", "1.37.4", "", "v1.36.0 v1.37.4"},
		{"v1.35.1-eks-1234567", "v1.37", "", "v1.36.0-eks-1234567 v1.37.0-eks-1234567"},
		{"v1.35.1-eks-1234567", "v1.37.2-eks-9", "", "v1.36.0-eks-1234567 v1.37.2-eks-9"},
		{"v1.35.1+k3s1", "v1.37.2", "", "v1.36.0+k3s1 v1.37.2+k3s1"},
		{"v1.35.0-rc.1", "v1.37.0-rc.1", "", "v1.36.0 v1.37.0-rc.1"},
		{"v1.35.1", "v1.37.2", "v1.36.4 v1.37.2", "v1.36.4 v1.37.2"},
		{"v1.35.1", "v1.37.2", "v1.35.9 v1.36.4 v1.36.9 v1.37.2", "v1.36.9 v1.37.2"},
		{"v1.36.4", "v1.37.2", "v1.36.4 v1.37.2", "v1.37.2"},
		{"v1.35.1", "v1.37.2", "v1.36.4", "v1.36.0 v1.37.2"}, // The plan is for another upgrade.
		{"v1.37.1", "v1.37.2", "v1.37.2", ""},
		{"v1.35.1", "1.37.2", "v1.36.4 v1.37.2", "v1.36.4 v1.37.2"},
		{"v1.35.1", "v1.37.2", "v1.36.4 v1.39.0 v1.37.1 v1.36.5 v1.37.2", "v1.36.4 v1.37.2"}, // Malformed.
	} {
		from, err := apilifecycle.ParseVersion(tc.running)
		if err != nil {
			t.Fatal(err)
		}
		to, err := apilifecycle.ParseVersion(tc.version)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		minors, err := from.StepsTo(to)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range stepsOf(tc.running, tc.version, minors, strings.Fields(tc.plan)) {
			got = append(got, one.exact)
			if !strings.HasPrefix(one.exact, one.minor.String()+".") {
				t.Errorf("%s is not of %s", one.exact, one.minor)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s to %s with %q: got %q, want %q", tc.running, tc.version, tc.plan, got, tc.want)
		}
	}
}
