// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
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
