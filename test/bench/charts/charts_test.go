// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"bytes"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	helmengine "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// TestCharts checks the number of objects and the size of the charts, and that the charts are the same each time.
func TestCharts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		make          func(name, version string, seed uint64) (Chart, error)
		objects       int
		least, utmost int
	}{
		"large": {Large, 9, archiveBytes, archiveBytes * 11 / 10},
		"small": {Small, 4, 500, 3000},
	} {
		for seed := range uint64(3) {
			made, err := test.make("addon", "1.2.3", seed)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(made.Archive); n < test.least || n > test.utmost {
				t.Errorf("%s: the archive has %d bytes", name, n)
			}
			if n := countObjects(t, made); n != test.objects {
				t.Errorf("%s: %d objects", name, n)
			}
			again, err := test.make("addon", "1.2.3", seed)
			if err != nil || !bytes.Equal(again.Archive, made.Archive) {
				t.Errorf("%s differs from call to call: %v", name, err)
			}
		}
	}
}

func countObjects(t *testing.T, made Chart) int {
	t.Helper()
	parsed, err := loader.LoadArchive(bytes.NewReader(made.Archive))
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ToRenderValues(parsed, map[string]any{"cluster": "a"},
		chartutil.ReleaseOptions{Name: "r", Namespace: "n"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := helmengine.Render(parsed, values)
	if err != nil {
		t.Fatal(err)
	}
	_, manifests, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	return len(manifests)
}
