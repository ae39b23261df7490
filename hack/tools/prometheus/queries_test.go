// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the file with the selectors of all queries")

var (
	dashboardFile = filepath.Join(root, "config", "grafana", "helmop.json")
	selectorsFile = filepath.Join(root, "test", "queries", "selectors.txt")
)

// TestSelectors checks the file with the metrics and labels that the alerts and the dashboard use. Tests of the manager
// compare the file with the metrics that the manager serves.
func TestSelectors(t *testing.T) {
	t.Parallel()
	rules, err := readRules(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readDashboard(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	queries := d.queries()
	for _, rule := range rules {
		queries = append(queries, rule.Expr)
	}
	var lines []string
	for _, query := range queries {
		found, err := selectors(query)
		if err != nil {
			t.Error(err)
		}
		lines = append(lines, found...)
	}
	slices.Sort(lines)
	got := strings.Join(slices.Compact(lines), "\n") + "\n"
	if *update {
		if err := os.WriteFile(selectorsFile, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(selectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not current: run `go -C hack/tools/prometheus test . -update`, and look at the difference",
			selectorsFile)
	}
}

// TestDashboard checks the layout of the dashboard, and evaluates its queries on recorded series.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d, err := readDashboard(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	const width = 24
	type cell struct{ x, y int }
	taken, ids := map[cell]string{}, map[int]bool{}
	for _, panel := range d.Panels {
		if panel.Title == "" || ids[panel.ID] || panel.Type != "row" && (panel.Description == "" || len(panel.Targets) == 0) {
			t.Errorf("panel %d %q needs a title, a description, a query and an id of its own", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		if panel.GridPos.X+panel.GridPos.W > width {
			t.Errorf("panel %q is wider than the dashboard", panel.Title)
		}
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				at := cell{panel.GridPos.X + x, panel.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("panels %q and %q overlap", panel.Title, other)
				}
				taken[at] = panel.Title
			}
		}
		references := map[string]bool{}
		for _, target := range panel.Targets {
			if target.RefID == "" || references[target.RefID] {
				t.Errorf("panel %q has two queries with the reference %q", panel.Title, target.RefID)
			}
			references[target.RefID] = true
		}
	}
	e := newEvaluator(record(t, dashboardSeries))
	for _, query := range d.queries() {
		if len(e.query(t, query, 40*interval)) == 0 {
			t.Errorf("%s: no result", query)
		}
	}
}

// dashboardSeries are recorded series for which each query of the dashboard has a result.
var dashboardSeries = healthy + `
	helmop_status_condition{namespace="n",helmop="bad",condition="Ready",status="true"} 0x60
	helmop_status_condition{namespace="n",helmop="bad",condition="Stalled",status="true"} 1x60
	helmop_status_condition_reason{namespace="n",helmop="bad",condition="Ready",reason="ReleasesFailed"} 1x60
	helmop_deletions_waiting{namespace="n",helmop="calico"} 3x60
	helmop_status_clusters_selected{namespace="n",helmop="calico"} 3x60
	helmop_status_clusters_up_to_date{namespace="n",helmop="calico"} 3x60
	helmop_status_clusters_ready{namespace="n",helmop="calico"} 3x60
	helmop_status_clusters_unreachable{namespace="n",helmop="calico"} 3x60
	helmop_status_clusters_waiting{namespace="n",helmop="calico"} 3x60
	helmop_status_clusters_paused{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_phase{namespace="n",helmop="bad",phase="Progressing"} 1x60
	helmop_status_rollout_revision{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_last_good_revision{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_clusters_updated{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_clusters_done{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_clusters_in_flight{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_clusters_failed{namespace="n",helmop="calico"} 3x60
	helmop_status_rollout_started_timestamp_seconds{namespace="n",helmop="calico"} 3x60
	helmop_cluster_reachable{namespace="n",cluster_name="one"} 0x60
	helmop_releases{namespace="n",helmop="calico",ready="True",reason="Ready"} 3x60
	helmop_release_action_duration_seconds_count{action="Install",result="success"} 0+1x60
	helmop_release_action_duration_seconds_bucket{action="Install",result="success",le="1"} 0+1x60
	helmop_release_action_duration_seconds_bucket{action="Install",result="success",le="+Inf"} 0+1x60
	helmop_cluster_initialized_to_deployed_seconds_bucket{le="1"} 0+1x60
	helmop_cluster_initialized_to_deployed_seconds_bucket{le="+Inf"} 0+1x60
	helmop_drift_corrections_total{result="success"} 0+1x60
	helmop_clusters_connected 3x60
	helmop_clusters_unresponsive 0x60
	helmop_cluster_probes_total{result="error"} 0+1x60
	helmop_registry_requests_total{registry="r",kind="blob",status="200"} 0+1x60
	helmop_registry_received_bytes_total{registry="r",kind="blob"} 0+1000x60
	helmop_action_slots_in_use 3x60
	helmop_action_slots_waiting 0x60
	helmop_cluster_reads 0x60
	helmop_memory_under_way_bytes 3x60
	helmop_memory_under_way_limit_bytes 3x60
	helmop_memory_under_way_waiting 0x60
	controller_runtime_reconcile_total{controller="helmop",result="success"} 0+1x60
	workqueue_depth{controller="helmop",name="helmop",priority="0"} 0x60
	helmop_renderers_started_total 0+1x60
	helmop_renderers_ended_total{limit="memory"} 0+1x60
	process_resident_memory_bytes 1000x60
	process_cpu_seconds_total 0+1x60
	helmop_shard_objects{shard="",kind="HelmOp"} 1x60
	helmop_records_left_total 0x60
`
