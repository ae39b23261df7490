/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	helmengine "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// TestChart holds that the chart is what the report says: nine objects, and as large as it says.
func TestChart(t *testing.T) {
	t.Parallel()
	chrt, err := newChart("addon-0", 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(chrt.packed); n < archiveBytes || n > archiveBytes*5/4 {
		t.Errorf("the archive has %d bytes", n)
	}
	values, err := chartutil.ToRenderValues(chrt.parsed, map[string]any{"cluster": "a"},
		chartutil.ReleaseOptions{Name: "r", Namespace: "n"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := helmengine.Render(chrt.parsed, values)
	if err != nil {
		t.Fatal(err)
	}
	_, manifests, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil || len(manifests) != 9 {
		t.Errorf("%d objects, %v", len(manifests), err)
	}
	again, err := newChart("addon-0", 1)
	if err != nil || !bytes.Equal(again.packed, chrt.packed) {
		t.Error("the chart differs from time to time", err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	costOf := func(cpu time.Duration, requests int) cost {
		return cost{Releases: 10, CPU: cpu, Requests: requests, Verbs: map[string]int{"GET": requests}}
	}
	var total cost
	total.add(costOf(time.Second, 100))
	total.add(costOf(time.Second, 200))
	if total.Releases != 20 || total.CPU != 2*time.Second || total.Verbs["GET"] != 300 {
		t.Errorf("total %+v", total)
	}
	r := &report{Archive: 200_000, Phases: []phaseReport{
		{Phase: "install", Plain: costOf(time.Second, 100), Engine: costOf(400*time.Millisecond, 81)},
		{Phase: "upgrade", Plain: costOf(time.Second, 100), Engine: costOf(501*time.Millisecond, 80)},
		{Phase: "in sync", Plain: costOf(0, 0), Engine: costOf(time.Second, 100)},
	}}
	r.finish()
	if missed := strings.Join(r.missed(), "; "); missed != "requests per install: 0.81, target 0.80; CPU per upgrade: 0.50, target 0.50" {
		t.Errorf("missed %s", missed)
	}
	var table bytes.Buffer
	if err := r.print(&table); err != nil || !strings.Contains(table.String(), "0.40") || !strings.Contains(table.String(), "GET 8.1") {
		t.Errorf("%v\n%s", err, table.String())
	}
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	var read report
	if err != nil || json.Unmarshal(data, &read) != nil || read.Phases[0].CPURatio != 0.4 || read.Phases[0].Plain.Requests != 100 {
		t.Errorf("%v: %s", err, data)
	}
}
