// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

var errBroken = errors.New("broken archive")

// slowRegistry needs more time for a chart than a Cluster has for its rendering.
type slowRegistry struct{ Registry }

func (slowRegistry) Fetch(ctx context.Context, _, _ string, _ oci.Access) (*oci.Content, error) {
	select {
	case <-time.After(2 * planTimeout):
		return nil, errBroken
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestContentsSlowRegistry checks that the timeout for requests to one Cluster does not end the pull of the chart,
// because all Clusters share the chart.
func TestContentsSlowRegistry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		previewer := New(Options{Client: NewObjects(runtime.NewScheme(), nil), Registry: slowRegistry{},
			Config: &rest.Config{Host: "https://127.0.0.1:1"}})
		helmOp := &addonsv1.HelmOp{}
		spec := &addonsv1.HelmOpReleaseSpec{Artifact: addonsv1.ResolvedArtifact{URL: "oci://r.example/web", Digest: "d"},
			ClusterRef: addonsv1.ClusterReference{Kind: addonsv1.ClusterKindManagementCluster}}
		release := &Release{HelmOp: helmOp, IsReady: true, HelmOpRelease: childOf(helmOp, clusterlink.Management, spec)}
		start := time.Now()
		_, err := previewer.contentsOf(t.Context(), release, false)
		if !errors.Is(err, errBroken) || time.Since(start) != 2*planTimeout {
			t.Errorf("got %v after %v, want the answer of the registry", err, time.Since(start))
		}
	})
}

// TestPinProblem checks that the contents of a pinned Cluster are known only if its release is what the pinned HelmOp
// revision renders.
func TestPinProblem(t *testing.T) {
	t.Parallel()
	const changed = "does not have the chart"
	spec := addonsv1.HelmOpReleaseSpec{Artifact: addonsv1.ResolvedArtifact{Digest: "d"}, ValuesDigest: "v",
		PostRenderDigest: "p", Rollout: &addonsv1.ReleaseRollout{Revision: 3}}
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpReleaseSpec)
		want   string
	}{
		"it has the release":     {func(*addonsv1.HelmOpReleaseSpec) {}, ""},
		"another revision":       {func(s *addonsv1.HelmOpReleaseSpec) { s.Rollout.Revision = 5 }, "has HelmOp revision 5"},
		"another artifact":       {func(s *addonsv1.HelmOpReleaseSpec) { s.Artifact.Digest = "e" }, changed},
		"other values":           {func(s *addonsv1.HelmOpReleaseSpec) { s.ValuesDigest = "w" }, changed},
		"another post-rendering": {func(s *addonsv1.HelmOpReleaseSpec) { s.PostRenderDigest = "" }, changed},
		"other options":          {func(s *addonsv1.HelmOpReleaseSpec) { s.Upgrade = &addonsv1.UpgradeOptions{} }, ""},
	} {
		child := &addonsv1.HelmOpRelease{Spec: *spec.DeepCopy()}
		tc.change(&child.Spec)
		err := Pin{Number: 3, child: child}.Problem(&Release{HelmOpRelease: &addonsv1.HelmOpRelease{Spec: spec}})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if err := (Pin{}).Problem(nil); err != nil {
		t.Errorf("without a pin: %v", err)
	}
}
