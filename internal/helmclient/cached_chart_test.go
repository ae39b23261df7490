// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// TestCachedChartIsNotChanged checks that concurrent renderings of a chart in the loader's cache, each with its own
// values, do not change the chart. The race detector finds violations.
func TestCachedChartIsNotChanged(t *testing.T) {
	t.Parallel()
	packed := sharedChart()
	packed.Schema = []byte(`{"properties": {"number": {"type": "string"}}}`)
	crd := &chart.File{Name: "crds/crd.yaml", Data: []byte(helmtest.CrdOf("cached.test", "v1"))}
	packed.Files = append(packed.Files, crd)
	name, err := chartutil.Save(packed, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	loader := bundle.NewLoader(bundle.Limits{}, testRunner)
	source := bundle.Source{
		Digest: "sha256:a",
		Manifest: bundle.Manifest{
			ConfigMediaType: bundle.ChartConfigMediaType, Layers: []bundle.Layer{{MediaType: bundle.ChartLayerMediaType}},
		},
		ReadLayer: func(context.Context, int) ([]byte, error) { return archive, nil },
	}
	cached, err := loader.Chart(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	before := dumpChart(t, cached)

	renderer := rendering.NewRenderer(testRunner)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			chrt, ok := loader.Cached(source)
			if !ok {
				t.Error("the chart is not in the cache")
				return
			}
			if err := renderAll(t.Context(), renderer, chrt, i); err != nil {
				t.Error(i, err)
			}
		})
	}
	group.Wait()
	if after := dumpChart(t, cached); after != before {
		t.Errorf("the chart became %s", after)
	}
}

// renderAll makes the steps of an installation that need no cluster.
func renderAll(ctx context.Context, renderer *rendering.Renderer, chrt *chart.Chart, i int) error {
	odd := i%2 == 1
	source := rendering.Source{Chart: chrt, Values: map[string]any{
		"number": fmt.Sprint(i), "global": map[string]any{"site": i}, "child": map[string]any{"enabled": odd},
		"other": map[string]any{"enabled": !odd}, "tags": map[string]any{"twins": odd}, "removed": nil,
	}}
	if err := rendering.CheckChart(chrt); err != nil {
		return err
	}
	if err := renderer.CheckValues(ctx, source); err != nil {
		return err
	}
	if _, err := renderer.CRDs(ctx, source); err != nil {
		return err
	}
	rendered, err := renderer.Render(ctx, source, rendering.Options{
		Release:      chartutil.ReleaseOptions{Name: "demo", Namespace: "apps", Revision: 1, IsInstall: true},
		Capabilities: chartutil.DefaultCapabilities,
	})
	if err != nil {
		return err
	}
	// Changes of the chart in a record must not affect other charts.
	return chartutil.ProcessDependenciesWithMerge(rendered.Recorded, source.Values)
}
