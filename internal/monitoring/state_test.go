// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// rollingOut is a HelmOp whose rollout is paused by its failure budget.
func rollingOut(t *testing.T, name string) *addonsv1.HelmOp {
	return controllertest.UpToDateHelmOp(t, name, func(h *addonsv1.HelmOp) {
		h.Status.Clusters = &addonsv1.ClusterCounts{
			Selected: 10, UpToDate: 4, Ready: 3, Failed: 2, Waiting: 1, Unreachable: 5, Paused: 6, Stalled: 7, Drifted: 8,
			Blocked: 9,
		}
		h.Status.Rollout = &addonsv1.RolloutStatus{
			Revision: 7, LastGoodRevision: 6, Phase: addonsv1.RolloutPhasePaused, Updated: 4, Done: 3, InFlight: 1, Failed: 2,
			StartedAt: metav1.NewTime(controllertest.Noon),
		}
		h.Status.Deletions = &addonsv1.DeletionStatus{Waiting: 3}
		h.Status.Conditions = nil
		report.SetCondition(h, addonsv1.StalledCondition, metav1.ConditionTrue, addonsv1.RolloutPausedReason, "")
		// A condition of another controller has no metrics.
		report.SetCondition(h, "example.com/Audited", metav1.ConditionTrue, "Audited", "")
	})
}

func TestStateOfHelmOp(t *testing.T) {
	t.Parallel()
	collector := NewStateCollector(controllertest.StoreOf(t, rollingOut(t, "calico")))
	const labels = `{helmop="calico",namespace="n"}`
	var want strings.Builder
	add := func(name, help, samples string) {
		fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %[1]s gauge\n%[3]s\n", name, help, samples)
	}
	add("helmop_deletions_waiting", "Number of releases of a HelmOp whose deletion waits for confirmation, see "+
		"spec.maxDeletions.", `helmop_deletions_waiting`+labels+` 3`)
	add("helmop_status_condition", "For each condition of a HelmOp, 1 for its status (true, false or unknown) and 0 for "+
		"the other statuses.",
		`helmop_status_condition{condition="Stalled",helmop="calico",namespace="n",status="false"} 0
helmop_status_condition{condition="Stalled",helmop="calico",namespace="n",status="true"} 1
helmop_status_condition{condition="Stalled",helmop="calico",namespace="n",status="unknown"} 0`)
	add("helmop_status_condition_reason", "1 for each condition of a HelmOp, with its reason.",
		`helmop_status_condition_reason{condition="Stalled",helmop="calico",namespace="n",reason="RolloutPaused"} 1`)
	add("helmop_status_rollout_phase", "For the rollout of a HelmOp, 1 for its phase (Progressing, Complete, Paused, "+
		"RolledBack or Aborted) and 0 for the other phases.",
		`helmop_status_rollout_phase{helmop="calico",namespace="n",phase="Aborted"} 0
helmop_status_rollout_phase{helmop="calico",namespace="n",phase="Complete"} 0
helmop_status_rollout_phase{helmop="calico",namespace="n",phase="Paused"} 1
helmop_status_rollout_phase{helmop="calico",namespace="n",phase="Progressing"} 0
helmop_status_rollout_phase{helmop="calico",namespace="n",phase="RolledBack"} 0`)
	add("helmop_status_rollout_started_timestamp_seconds", "Unix time in seconds at which the rollout of the current "+
		"HelmOp revision began.", `helmop_status_rollout_started_timestamp_seconds`+labels+` 1.7672688e+09`)
	err := testutil.CollectAndCompare(collector, strings.NewReader(want.String()), "helmop_deletions_waiting",
		"helmop_status_condition", "helmop_status_condition_reason", "helmop_status_rollout_phase",
		"helmop_status_rollout_started_timestamp_seconds")
	if err != nil {
		t.Error(err)
	}
	got := values(t, collector)
	for name, want := range map[string]float64{
		"clusters_selected": 10, "clusters_up_to_date": 4, "clusters_ready": 3, "clusters_failed": 2,
		"clusters_waiting": 1, "clusters_unreachable": 5, "clusters_paused": 6, "clusters_stalled": 7,
		"clusters_drifted": 8, "clusters_blocked": 9, "rollout_revision": 7, "rollout_last_good_revision": 6,
		"rollout_clusters_updated": 4, "rollout_clusters_done": 3, "rollout_clusters_in_flight": 1,
		"rollout_clusters_failed": 2,
	} {
		if got, ok := got["helmop_status_"+name+labels]; !ok || got != want {
			t.Errorf("helmop_status_%s: got %v, want %v", name, got, want)
		}
	}
}

// values returns the samples of a collector, by name and labels.
func values(t *testing.T, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			all[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = metric.GetGauge().GetValue()
		}
	}
	return all
}

// releaseIn returns a release in a Cluster that is reachable or not. reachable is the reason.
func releaseIn(helmOp, cluster, reachable string) *addonsv1.HelmOpRelease {
	return controllertest.ReadyRelease(helmOp, func(r *addonsv1.HelmOpRelease) {
		r.Name, r.Spec.ClusterRef.Name = helmOp+"-"+cluster, cluster
		if reachable == addonsv1.ClusterReachableReason {
			report.SetCondition(r, addonsv1.ClusterReachableCondition, report.True, reachable, "")
			return
		}
		report.SetCondition(r, addonsv1.ClusterReachableCondition, report.False, reachable, "")
		report.SetNotReady(r, reachable, "")
	})
}

func TestReachableClusters(t *testing.T) {
	t.Parallel()
	foreign := releaseIn("calico", "foreign", addonsv1.ClusterReachableReason)
	foreign.Spec.ClusterRef.Namespace = "other"
	paused := releaseIn("calico", "paused", addonsv1.ClusterUnreachableReason)
	report.SetPaused(paused, true, "")
	management := releaseIn("calico", "management", addonsv1.ClusterReachableReason)
	management.Spec.ClusterRef = addonsv1.ClusterReference{Kind: addonsv1.ClusterKindManagementCluster, Name: "m"}
	// HelmOp does not connect to these Clusters now.
	otherShard := releaseIn("calico", "moved", addonsv1.ClusterReachableReason)
	report.NotConnecting(otherShard, addonsv1.OtherShardReason, "")
	waits := releaseIn("calico", "deleted", addonsv1.ClusterUnreachableReason)
	report.SetNotReady(waits, addonsv1.DeletingReason, "")
	collector := NewStateCollector(controllertest.StoreOf(t,
		releaseIn("calico", "one", addonsv1.ClusterReachableReason),
		releaseIn("calico", "two", addonsv1.ClusterUnreachableReason),
		// Two releases of a Cluster that do not agree.
		releaseIn("calico", "three", addonsv1.ClusterUnreachableReason),
		releaseIn("cilium", "three", addonsv1.ClusterReachableReason),
		releaseIn("calico", "refused", addonsv1.KubeconfigRefusedReason),
		foreign, paused, management, otherShard, waits))
	want := `# HELP helmop_cluster_reachable 1 for each Cluster whose API server answers, 0 for each Cluster whose API server does not, or whose kubeconfig HelmOp refuses. Clusters without a release that is being reconciled, and Clusters whose control plane is not initialized, have no series.
# TYPE helmop_cluster_reachable gauge
helmop_cluster_reachable{cluster_name="foreign",namespace="other"} 1
helmop_cluster_reachable{cluster_name="one",namespace="n"} 1
helmop_cluster_reachable{cluster_name="refused",namespace="n"} 0
helmop_cluster_reachable{cluster_name="three",namespace="n"} 0
helmop_cluster_reachable{cluster_name="two",namespace="n"} 0
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want), "helmop_cluster_reachable"); err != nil {
		t.Error(err)
	}
}

// TestSeriesOfDeletedObjects checks that HelmOps and Clusters without releases have no series.
func TestSeriesOfDeletedObjects(t *testing.T) {
	t.Parallel()
	calico, cilium := rollingOut(t, "calico"), rollingOut(t, "cilium")
	releases := []*addonsv1.HelmOpRelease{
		releaseIn("calico", "one", addonsv1.ClusterReachableReason),
		releaseIn("calico", "two", addonsv1.ClusterUnreachableReason),
	}
	store := controllertest.StoreOf(t, calico, cilium, releases[0], releases[1])
	collector := NewStateCollector(store)
	series := func(part string) (n int) {
		for name := range values(t, collector) {
			if strings.Contains(name, part) {
				n++
			}
		}
		return n
	}
	if series(`helmop="calico"`) < 20 || series(`cluster_name="two"`) != 1 {
		t.Fatal("objects that exist have no series")
	}
	remove := func(object client.Object) {
		t.Helper()
		if err := store.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.RemoveReleaseFinalizer(t, store, releases[1])
	remove(releases[1])
	if series(`cluster_name="two"`) != 0 || series(`cluster_name="one"`) != 1 {
		t.Error("a Cluster without a release has a series, or another Cluster has none")
	}
	controllertest.RemoveReleaseFinalizer(t, store, releases[0])
	remove(releases[0])
	remove(calico)
	if series(`helmop="calico"`) != 0 || series(`helmop="cilium"`) < 20 {
		t.Error("a deleted HelmOp has series, or another HelmOp has none")
	}
}

// TestNumberOfSeries checks that another release adds no series if its HelmOp and its Cluster already have series.
func TestNumberOfSeries(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	count := func() int { return testutil.CollectAndCount(NewStateCollector(controllertest.StoreOf(t, objects...))) }
	for _, name := range []string{"calico", "cilium"} {
		objects = append(objects, rollingOut(t, name))
		for i := range 5 {
			objects = append(objects, releaseIn(name, fmt.Sprintf("c%d", i), addonsv1.ClusterReachableReason))
		}
	}
	before := count()
	for i := range 5 {
		// A third HelmOp has five releases in Clusters with series: one series counts them.
		objects = append(objects, releaseIn("metrics", fmt.Sprintf("c%d", i), addonsv1.ClusterReachableReason))
	}
	if got := count(); got != before+1 {
		t.Errorf("%d series, want %d", got, before+1)
	}
}

// TestNames checks the names and help texts of all metrics of HelmOp by the conventions of Prometheus.
func TestNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewStateCollector(controllertest.StoreOf(t, rollingOut(t, "calico"),
		releaseIn("calico", "one", addonsv1.ClusterReachableReason))))
	problems, err := testutil.GatherAndLint(prometheus.Gatherers{registry, metrics.Registry})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "helmop_") {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
}
