// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestUpgradedCapabilities removes the kinds that a new version does not serve, and API versions without a kind.
func TestUpgradedCapabilities(t *testing.T) {
	t.Parallel()
	before := chartutil.VersionSet{"v1", "v1/Pod", "policy/v1beta1", "policy/v1beta1/PodDisruptionBudget", "policy/v1",
		"policy/v1/PodDisruptionBudget", "extensions/v1beta1", "extensions/v1beta1/Ingress", "extensions/v1beta1/Scale",
		"example.com/v1"}
	original := slices.Clone(before)
	upgraded := Upgraded{KubeVersion: "v1.25.3", Serves: func(kind schema.GroupVersionKind) bool {
		return kind.Version != "v1beta1" || kind.Kind == "Scale"
	}}
	capabilities := &chartutil.Capabilities{APIVersions: before}
	if err := upgraded.of(capabilities); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(capabilities.APIVersions))
	if want := "example.com/v1 extensions/v1beta1 extensions/v1beta1/Scale policy/v1 policy/v1/PodDisruptionBudget v1 " +
		"v1/Pod"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
	if !slices.Equal(before, original) {
		t.Errorf("the shared list changed: %v", before)
	}
	if v := capabilities.KubeVersion; v.Version != "v1.25.3" || v.Major != "1" || v.Minor != "25" {
		t.Errorf("got %+v", v)
	}
	upgraded.KubeVersion = "v1.37.0-eks-1234567"
	if err := upgraded.of(capabilities); err != nil || capabilities.KubeVersion.Version != upgraded.KubeVersion {
		t.Errorf("a version of a vendor: got %+v, %v", capabilities.KubeVersion, err)
	}
	upgraded.KubeVersion = "new"
	if err := upgraded.of(capabilities); err == nil {
		t.Error("a malformed version is accepted")
	}
}

func TestExcludingConstraint(t *testing.T) {
	t.Parallel()
	for constraint, want := range map[string]string{"": "", ">=1.30": "", "<1.37.0-0": "<1.37.0-0", "<=1.36": "<=1.36"} {
		chrt := &chart.Chart{Metadata: &chart.Metadata{KubeVersion: constraint}}
		if got := ExcludingConstraint(chrt, "v1.37.0"); got != want {
			t.Errorf("%q: got %q", constraint, got)
		}
	}
	for constraint, want := range map[string]string{">=1.30": ">=1.30", ">=1.30-0": "", ">=1.38-0": ">=1.38-0"} {
		chrt := &chart.Chart{Metadata: &chart.Metadata{KubeVersion: constraint}}
		if got := ExcludingConstraint(chrt, "v1.37.0-eks-1234567"); got != want {
			t.Errorf("%q, of a vendor: got %q", constraint, got)
		}
	}
}
