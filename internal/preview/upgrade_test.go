// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
)

// TestUnchecked expects a failure for a Cluster that is not ready and has a release.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	child := &addonsv1.HelmOpRelease{}
	for name, tc := range map[string]struct {
		err   error
		child *addonsv1.HelmOpRelease
		want  State
	}{
		"no kubeconfig, no release":  {fmt.Errorf("the Cluster %w", ErrNoKubeconfig), nil, StateNotReady},
		"no kubeconfig, a release":   {fmt.Errorf("the Cluster %w", ErrNoKubeconfig), child, StateFailed},
		"not initialized, a release": {errNotReady, child, StateFailed},
		"unreachable":                {helmerr.ErrUnreachable, nil, StateFailed},
	} {
		if got, message := unchecked(tc.err, tc.child); got != tc.want || message == "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestPausedOf expects the reason of a pause of the Cluster, the HelmOp or the release.
func TestPausedOf(t *testing.T) {
	t.Parallel()
	pausedChild := &addonsv1.HelmOpRelease{}
	pausedChild.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	for want, tc := range map[string]struct {
		clusterIs, helmOpIs bool
		child               *addonsv1.HelmOpRelease
	}{
		"":                             {child: &addonsv1.HelmOpRelease{}},
		"The Cluster is paused, so":    {clusterIs: true, child: &addonsv1.HelmOpRelease{}},
		"The HelmOp is paused":         {helmOpIs: true, child: &addonsv1.HelmOpRelease{}},
		"This HelmOpRelease has the p": {child: pausedChild},
	} {
		release := &Release{HelmOp: &addonsv1.HelmOp{}, cluster: &clusterv1.Cluster{}}
		release.HelmOp.Spec.Paused, release.cluster.Spec.Paused = tc.helmOpIs, ptr.To(tc.clusterIs)
		if got := pausedOf(release, tc.child); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := pausedOf(release, nil); got != "" {
			t.Errorf("without a release: got %q", got)
		}
	}
}

// TestGroupUpgrades checks that Clusters that differ only in their names are grouped, and that groups with tasks come
// first.
func TestGroupUpgrades(t *testing.T) {
	t.Parallel()
	of := func(cluster string, state State, message string) UpgradeResult {
		return UpgradeResult{Cluster: cluster, Release: "web-" + cluster, UpgradeOutcome: UpgradeOutcome{State: state,
			Findings: []upgradecheck.Finding{{Message: message}}}}
	}
	groups, err := GroupUpgrades([]UpgradeResult{of("prod-1", StateClear, "a"),
		of("prod-2", StateToDo, "the release has prod-2"), of("prod-4", StateFailed, ""),
		of("prod-3", StateToDo, "the release has prod-3")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range groups {
		got = append(got, strings.Join(groups[i].Clusters, "+")+": "+groups[i].Findings[0].Message)
	}
	if want := []string{"prod-4: ", "prod-2+prod-3: the release has <cluster>", "prod-1: a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
