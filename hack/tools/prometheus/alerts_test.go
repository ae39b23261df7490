// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
)

var rulesFile = filepath.Join(root, "config", "prometheus", "prometheusrule.yaml")

// alertCases have recorded series, and for each alert the time at which it begins to fire. All other alerts must not
// fire. The series begin at 0 and have a sample per minute.
var alertCases = []struct {
	name, series string
	// first is the first minute in which the alerts fire.
	first int
	// fires are the alerts that fire, with their summaries. Without any, no alert fires during the recording.
	fires []string
	// last, if it is not 0, is the last minute of the recording in which they fire.
	last int
}{
	{
		name: "a healthy fleet",
		series: healthy + `
			helmop_cluster_reachable{namespace="n",cluster_name="one"} 1x400
			controller_runtime_reconcile_errors_total{controller="helmop"} 5x400
			controller_runtime_reconcile_panics_total{controller="helmop"} 0x400
			helmop_registry_requests_total{registry="r",kind="blob",status="200"} 0+10x400
			helmop_registry_requests_total{registry="r",kind="blob",status="404"} 0+10x400
			helmop_action_slots_waiting 0x20 3x20 0x360
			helmop_memory_under_way_waiting 0x20 30x10 0x370
			helmop_renderers_ended_total{limit="memory"} 0x400
			helmop_records_left_total 0x400`,
	},
	{
		name:   "not Ready",
		series: condition("Ready", "true", "1x10 0x200 1x190") + condition("Ready", "false", "0x10 1x200 0x190") + up,
		first:  71, last: 210,
		fires: []string{"HelmOpNotReady: HelmOp n/calico is not Ready for an hour"},
	},
	{
		name:   "Ready is Unknown",
		series: condition("Ready", "true", "0x400") + condition("Ready", "unknown", "1x400") + up,
		first:  60,
		fires:  []string{"HelmOpNotReady: HelmOp n/calico is not Ready for an hour"},
	},
	{
		name: "a rollout in waves with a soak time",
		series: condition("Ready", "true", "0x400") + condition("RollingOut", "true", "1x400") +
			series(`helmop_status_rollout_clusters_updated{namespace="n",helmop="calico"}`, "3x90 6x90 9x90 12x130") +
			series(`helmop_status_rollout_clusters_done{namespace="n",helmop="calico"}`, "0x90 3x90 6x90 9x130") + up,
	},
	{
		name: "a change waits for a maintenance window",
		series: condition("Ready", "true", "0x400") + condition("RollingOut", "true", "1x400") +
			reason("Ready", "WaitingForMaintenance") + reason("RollingOut", "WaitingForMaintenance") +
			series(`helmop_status_rollout_clusters_updated{namespace="n",helmop="calico"}`, "3x400") +
			series(`helmop_status_rollout_clusters_done{namespace="n",helmop="calico"}`, "0x400") + up,
	},
	{
		name: "releases wait for a maintenance window after a rollout",
		series: condition("Ready", "true", "0x400") + condition("RollingOut", "true", "0x400") +
			reason("Ready", "WaitingForMaintenance") + reason("RollingOut", "NotRollingOut") + up,
	},
	{
		name: "Clusters without a control plane",
		series: condition("Ready", "true", "0x400") + condition("RollingOut", "true", "0x400") +
			reason("Ready", "WaitingForClusters") + up,
	},
	{
		name: "a HelmOp waits for a Cluster that does not answer",
		series: condition("Ready", "true", "0x400") + reason("Ready", "WaitingForClusters") + clusters(5, "1x400") +
			series(`helmop_cluster_reachable{namespace="n",cluster_name="prod-0"}`, "0x400") + up,
		first: 15,
		fires: []string{"HelmOpClusterUnreachable: Cluster n/prod-0 does not answer"},
	},
	{
		name: "a pause silences what was wrong",
		series: condition("Ready", "true", "0x400") + condition("Paused", "true", "1x400") +
			condition("Stalled", "true", "1x400") + condition("Resolved", "true", "0x400") +
			counts("drifted", "3x400") + counts("failed", "3x400") + counts("stalled", "2x400") +
			counts("blocked", "3x400") + up,
	},
	{
		name:   "stalled",
		series: condition("Ready", "true", "0x400") + condition("Stalled", "true", "1x400") + up,
		first:  5,
		fires:  []string{"HelmOpStalled: HelmOp n/calico is stalled"},
	},
	{
		name:   "the condition Stalled disappears",
		series: condition("Ready", "true", "1x400") + condition("Stalled", "true", "1x60 _x340") + up,
		first:  5, last: 60,
		fires: []string{"HelmOpStalled: HelmOp n/calico is stalled"},
	},
	{
		name:   "not resolved",
		series: condition("Resolved", "true", "0x400") + up,
		first:  15,
		fires:  []string{"HelmOpSourceNotResolved: The artifact of HelmOp n/calico cannot be resolved"},
	},
	{
		name:   "a registry that is down for ten minutes",
		series: condition("Resolved", "true", "1x60 0x10 1x330") + up,
	},
	{
		name:   "not verified",
		series: condition("Verified", "true", "0x400") + up,
		first:  15,
		fires:  []string{"HelmOpNotVerified: The artifact of HelmOp n/calico is not signed as required"},
	},
	{
		name: "an approval",
		series: condition("Approved", "false", "1x400") + condition("Ready", "true", "0x400") +
			condition("RollingOut", "true", "1x400") +
			series(`helmop_status_rollout_clusters_updated{namespace="n",helmop="calico"}`, "0x400") +
			series(`helmop_status_rollout_clusters_done{namespace="n",helmop="calico"}`, "0x400") + up,
		first: 15,
		fires: []string{"HelmOpApprovalWaiting: HelmOp n/calico waits for an approval"},
	},
	{
		name: "a spent failure budget",
		series: condition("Stalled", "true", "1x400") +
			series(`helmop_status_rollout_phase{namespace="n",helmop="calico",phase="Paused"}`, "1x400") +
			series(`helmop_status_rollout_phase{namespace="n",helmop="calico",phase="RolledBack"}`, "0x400") + up,
		first: 1,
		fires: []string{"HelmOpRolloutFailed: The rollout of HelmOp n/calico failed in too many Clusters"},
	},
	{
		name: "a rollout that is rolled back",
		series: series(`helmop_status_rollout_phase{namespace="n",helmop="calico",phase="Paused"}`, "0x400") +
			series(`helmop_status_rollout_phase{namespace="n",helmop="calico",phase="RolledBack"}`, "1x400") + up,
		first: 1,
		fires: []string{"HelmOpRolloutFailed: The rollout of HelmOp n/calico failed in too many Clusters"},
	},
	{
		name: "a rollout without progress",
		series: condition("RollingOut", "true", "1x400") +
			series(`helmop_status_rollout_clusters_updated{namespace="n",helmop="calico"}`, "1+1x20 21x380") +
			series(`helmop_status_rollout_clusters_done{namespace="n",helmop="calico"}`, "0+1x20 20x380") + up,
		first: 259, // Two hours after the last change, the expression becomes true.
		fires: []string{"HelmOpRolloutWithoutProgress: The rollout of HelmOp n/calico makes no progress"},
	},
	{
		name: "a slow rollout",
		series: condition("RollingOut", "true", "1x400") +
			series(`helmop_status_rollout_clusters_updated{namespace="n",helmop="calico"}`, "5x400") +
			series(`helmop_status_rollout_clusters_done{namespace="n",helmop="calico"}`, "0x100 1x100 2x100 3x100") + up,
	},
	{
		name:   "deletions wait",
		series: series(`helmop_deletions_waiting{namespace="n",helmop="calico"}`, "12x60 _x340") + up,
		first:  5, last: 60,
		fires: []string{
			"HelmOpDeletionsWaiting: The deletion of 12 releases of HelmOp n/calico waits for a confirmation",
		},
	},
	{
		name:   "failed releases, and one that is not tried again",
		series: counts("failed", "3x400") + counts("stalled", "1x400") + up,
		first:  30,
		fires: []string{
			"HelmOpReleasesFailed: The release of HelmOp n/calico failed in 2 Clusters",
			"HelmOpReleasesStalled: The release of HelmOp n/calico is not tried again in 1 Cluster",
		},
	},
	{
		name:   "stalled releases",
		series: counts("failed", "1x400") + counts("stalled", "1x400") + up,
		first:  5,
		fires:  []string{"HelmOpReleasesStalled: The release of HelmOp n/calico is not tried again in 1 Cluster"},
	},
	{
		name:   "drift",
		series: counts("drifted", "2x400") + up,
		first:  30,
		fires:  []string{"HelmOpReleasesDrifted: Objects of HelmOp n/calico differ from the release in 2 Clusters"},
	},
	{
		name:   "blocked",
		series: counts("blocked", "2x400") + up,
		first:  60,
		fires:  []string{"HelmOpReleasesBlocked: HelmOp n/calico waits for its dependencies in 2 Clusters"},
	},
	{
		name: "one of five Clusters does not answer",
		series: clusters(5, "1x400") +
			series(`helmop_cluster_reachable{namespace="n",cluster_name="prod-0"}`, "0x400") + up,
		first: 15,
		fires: []string{"HelmOpClusterUnreachable: Cluster n/prod-0 does not answer"},
	},
	{
		name: "a deleted Cluster that did not answer",
		series: clusters(5, "1x400") +
			series(`helmop_cluster_reachable{namespace="n",cluster_name="prod-0"}`, "0x14 _x386") + up,
	},
	{
		name: "many Clusters do not answer",
		series: clusters(2, "1x400") +
			series(`helmop_cluster_reachable{namespace="n",cluster_name="a"}`, "1x60 0x10 1x330") +
			series(`helmop_cluster_reachable{namespace="n",cluster_name="b"}`, "1x60 0x10 1x330") + up,
		first: 66, last: 70,
		fires: []string{"HelmOpManyClustersUnreachable: 50% of the Clusters do not answer"},
	},
	{
		name:   "no manager",
		series: `helmop_build_info{version="v0.1.0"} 1x10 _x390` + "\n" + `helmop_shard_owned{shard=""} 1x10 _x390`,
		first:  25, // A series ends five minutes after its last sample.
		fires:  []string{"HelmOpManagerAbsent: No manager of HelmOp serves the objects without a shard label"},
	},
	{
		name:   "only the manager of a shard",
		series: `helmop_build_info{version="v0.1.0"} 1x400` + "\n" + `helmop_shard_owned{shard=""} 1x10 _x390`,
		first:  25,
		fires:  []string{"HelmOpManagerAbsent: No manager of HelmOp serves the objects without a shard label"},
	},
	{
		name:   "a shard without a manager",
		series: `helmop_shard_owned{shard="b"} 0x400` + up,
		first:  5,
		fires:  []string{"HelmOpShardNotServed: No manager serves shard b"},
	},
	{
		name:   "reconcile errors",
		series: `controller_runtime_reconcile_errors_total{controller="helmoprelease"} 0+1x400` + up,
		first:  31,
		fires:  []string{"HelmOpReconcileErrors: The controller helmoprelease reports errors for half an hour"},
	},
	{
		name:   "errors of a controller of another program",
		series: `controller_runtime_reconcile_errors_total{controller="machine"} 0+1x400` + up,
	},
	{
		name: "errors and panics of Rancher Fleet, which has a controller of the same name",
		series: `controller_runtime_reconcile_errors_total{controller="helmop",instance="fleet"} 0+1x400
			controller_runtime_reconcile_panics_total{controller="helmop",instance="fleet"} 0+1x400` + up,
	},
	{
		name:   "a panic",
		series: `controller_runtime_reconcile_panics_total{controller="helmop"} 0x10 1x390` + up,
		first:  11, last: 69,
		fires: []string{"HelmOpReconcilePanics: The controller helmop panicked"},
	},
	{
		name: "a registry that fails",
		series: `
			helmop_registry_requests_total{registry="r",kind="manifest",status="0"} 0+3x400
			helmop_registry_requests_total{registry="r",kind="manifest",status="200"} 0+1x400
			helmop_registry_requests_total{registry="good",kind="manifest",status="200"} 0+1x400` + up,
		first: 16,
		fires: []string{"HelmOpRegistryFailing: 75% of the requests to registry r fail"},
	},
	{
		name: "services for signatures that fail",
		series: `
			helmop_registry_requests_total{registry="",kind="service",status="0"} 0+3x400
			helmop_registry_requests_total{registry="",kind="service",status="200"} 0+1x400` + up,
		first: 16,
		fires: []string{"HelmOpRegistryFailing: 75% of the requests to the services that check signatures fail"},
	},
	{
		name:   "releases wait for slots",
		series: `helmop_action_slots_waiting 0x10 4x390` + up,
		first:  70, // 30 minutes until the minimum is above 0, and 30 more.
		fires:  []string{"HelmOpActionsWaiting: Releases wait for a free slot all the time"},
	},
	{
		name:   "reads wait for memory",
		series: `helmop_memory_under_way_waiting 0x10 40x390` + up,
		first:  40,
		fires:  []string{"HelmOpMemoryWaiting: Reads wait for memory all the time"},
	},
	{
		name:   "rendering exceeds a limit",
		series: `helmop_renderers_ended_total{limit="memory"} 0x10 2x390` + up,
		first:  11, last: 69,
		fires: []string{"HelmOpRenderingStopped: The rendering of a chart exceeded its memory limit"},
	},
	{
		name:   "records that could not be deleted",
		series: `helmop_records_left_total 0x10 2x390` + up,
		first:  11,
		fires:  []string{"HelmOpRecordsLeft: Records of releases could not be deleted"},
	},
}

// up are the series of a manager that runs.
const up = "\nhelmop_build_info{version=\"v0.1.0\"} 1x400\nhelmop_shard_owned{shard=\"\"} 1x400\n"

var healthy = condition("Ready", "true", "1x400") + condition("Resolved", "true", "1x400") +
	condition("Verified", "true", "1x400") + condition("Paused", "true", "0x400") +
	condition("RollingOut", "true", "0x400") + counts("failed", "0x400") + counts("stalled", "0x400") +
	counts("drifted", "0x400") + counts("blocked", "0x400") +
	series(`helmop_status_rollout_phase{namespace="n",helmop="calico",phase="Complete"}`, "1x400") +
	series(`helmop_status_rollout_phase{namespace="n",helmop="calico",phase="Paused"}`, "0x400") + up

func series(name, values string) string { return "\n" + name + " " + values + "\n" }

// condition returns the series of a condition and one of its statuses.
func condition(name, status, values string) string {
	labels := `{namespace="n",helmop="calico",condition="` + name + `",status="` + status + `"}`
	return series("helmop_status_condition"+labels, values)
}

// reason returns the series of the reason of a condition.
func reason(condition, reason string) string {
	return series(`helmop_status_condition_reason{namespace="n",helmop="calico",condition="`+condition+
		`",reason="`+reason+`"}`, "1x400")
}

// counts returns the series of the number of Clusters in a state.
func counts(state, values string) string {
	return series(`helmop_status_clusters_`+state+`{namespace="n",helmop="calico"}`, values)
}

// clusters returns the series of a number of Clusters.
func clusters(n int, values string) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(series(`helmop_cluster_reachable{namespace="n",cluster_name="c`+string(rune('0'+i))+`"}`, values))
	}
	return all.String()
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	rules, err := readRules(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, tc := range alertCases {
		t.Run(tc.name, func(t *testing.T) {
			e := newEvaluator(record(t, tc.series))
			active := make([]promql.Matrix, len(rules))
			for i, rule := range rules {
				active[i] = e.active(t, rule, 400*interval)
			}
			at := func(minute int) (all []string) {
				for i, rule := range rules {
					all = append(all, firing(t, rule, active[i], minute)...)
				}
				slices.Sort(all)
				return all
			}
			if len(tc.fires) == 0 {
				for _, minute := range []int{1, 61, 201, 399} {
					if got := at(minute); len(got) > 0 {
						t.Errorf("minute %d: %q fire", minute, got)
					}
				}
				return
			}
			last := tc.last
			if last == 0 {
				last = tc.first + 1
			} else if got := at(last + 10); len(got) > 0 {
				t.Errorf("minute %d: %q still fire", last+10, got)
			}
			for _, minute := range []int{tc.first, last} {
				if got := at(minute); !slices.Equal(got, tc.fires) {
					t.Errorf("minute %d: %q fire, want %q", minute, got, tc.fires)
				}
			}
			if before := at(tc.first - 1); len(before) >= len(tc.fires) {
				t.Errorf("minute %d: %q fire already", tc.first-1, before)
			}
			for _, alert := range tc.fires {
				name, _, _ := strings.Cut(alert, ":")
				fired[name] = true
			}
		})
	}
	for _, rule := range rules {
		if !fired[rule.Alert] {
			t.Errorf("no case lets %s fire", rule.Alert)
		}
	}
}

var command = regexp.MustCompile("`(kubectl [^`]+)`")

// TestAnnotations checks that each alert has a text about the problem and the remedy, and a link to a section about the
// alert.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	rules, err := readRules(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if !strings.HasPrefix(rule.Alert, "HelmOp") {
			t.Errorf("%s: alerts of HelmOp begin with HelmOp", rule.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
		summary, description := rule.Annotations["summary"], rule.Annotations["description"]
		if summary == "" || strings.HasSuffix(summary, ".") || description == "" || !strings.HasSuffix(description, ".") {
			t.Errorf("%s: a summary has no full stop, and a description has one: %q, %q", rule.Alert, summary, description)
		}
		for _, match := range command.FindAllStringSubmatch(description, -1) {
			if strings.HasPrefix(match[1], "kubectl helmop") && !strings.Contains(match[1], " -n ") &&
				!strings.Contains(match[1], " -A") {
				t.Errorf("%s: the command %q has no namespace", rule.Alert, match[1])
			}
		}
		want := "https://github.com/helmop/cluster-api-addon-provider-helmop/blob/main/docs/monitoring.md#" +
			strings.ToLower(rule.Alert)
		if rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", rule.Alert, rule.Annotations["runbook_url"], want)
		}
	}
}
