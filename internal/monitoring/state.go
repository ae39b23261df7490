// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// scrapeTimeout is the timeout for listing objects during a scrape. The lists are read from a cache.
const scrapeTimeout = 10 * time.Second

var (
	releasesDesc = prometheus.NewDesc("helmop_releases",
		"Number of releases by HelmOp, and status (True, False, Unknown) and reason of their Ready condition.",
		[]string{"namespace", "helmop", "ready", "reason"}, nil)

	reachableDesc = prometheus.NewDesc("helmop_cluster_reachable",
		"1 for each Cluster whose API server answers, 0 for each Cluster whose API server does not, or whose kubeconfig "+
			"HelmOp refuses. Clusters without a release that is being reconciled, and Clusters whose control plane is not "+
			"initialized, have no series.",
		[]string{"namespace", "cluster_name"}, nil)

	conditionDesc = helmOpDesc("helmop_status_condition",
		"For each condition of a HelmOp, 1 for its status (true, false or unknown) and 0 for the other statuses.",
		"condition", "status")

	reasonDesc = helmOpDesc("helmop_status_condition_reason",
		"1 for each condition of a HelmOp, with its reason.",
		"condition", "reason")

	deletionsWaitingDesc = helmOpDesc("helmop_deletions_waiting",
		"Number of releases of a HelmOp whose deletion waits for confirmation, see spec.maxDeletions.")

	phaseDesc = helmOpDesc("helmop_status_rollout_phase",
		"For the rollout of a HelmOp, 1 for its phase (Progressing, Complete, Paused, RolledBack or Aborted) and 0 for the "+
			"other phases.", "phase")

	startedDesc = helmOpDesc("helmop_status_rollout_started_timestamp_seconds",
		"Unix time in seconds at which the rollout of the current HelmOp revision began.")
)

// helmOpDesc describes a metric of HelmOps.
func helmOpDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"namespace", "helmop"}, labels...), nil)
}

// clusterCounts are the metrics of status.clusters of a HelmOp.
var clusterCounts = []struct {
	desc *prometheus.Desc
	of   func(*addonsv1.ClusterCounts) int32
}{
	{helmOpDesc("helmop_status_clusters_selected", "Number of Clusters that a HelmOp selects."),
		func(c *addonsv1.ClusterCounts) int32 { return c.Selected }},
	{helmOpDesc("helmop_status_clusters_up_to_date", "Number of selected Clusters whose release has the current HelmOp "+
		"revision."), func(c *addonsv1.ClusterCounts) int32 { return c.UpToDate }},
	{helmOpDesc("helmop_status_clusters_ready", "Number of selected Clusters whose release is Ready."),
		func(c *addonsv1.ClusterCounts) int32 { return c.Ready }},
	{helmOpDesc("helmop_status_clusters_failed", "Number of selected Clusters whose release cannot be rendered, "+
		"installed or upgraded."), func(c *addonsv1.ClusterCounts) int32 { return c.Failed }},
	{helmOpDesc("helmop_status_clusters_waiting", "Number of selected Clusters whose control plane is not initialized."),
		func(c *addonsv1.ClusterCounts) int32 { return c.Waiting }},
	{helmOpDesc("helmop_status_clusters_unreachable", "Number of selected Clusters whose API server does not answer."),
		func(c *addonsv1.ClusterCounts) int32 { return c.Unreachable }},
	{helmOpDesc("helmop_status_clusters_paused", "Number of selected Clusters that are paused."),
		func(c *addonsv1.ClusterCounts) int32 { return c.Paused }},
	{helmOpDesc("helmop_status_clusters_stalled", "Number of failed Clusters whose release is not retried."),
		func(c *addonsv1.ClusterCounts) int32 { return c.Stalled }},
	{helmOpDesc("helmop_status_clusters_drifted", "Number of selected Clusters in which objects differ from the "+
		"release."), func(c *addonsv1.ClusterCounts) int32 { return c.Drifted }},
	{helmOpDesc("helmop_status_clusters_blocked", "Number of selected Clusters whose release waits for a HelmOp in "+
		"dependsOn."), func(c *addonsv1.ClusterCounts) int32 { return c.Blocked }},
	{helmOpDesc("helmop_status_clusters_deferred", "Number of selected Clusters in which a change waits for "+
		"maintenance."), func(c *addonsv1.ClusterCounts) int32 { return c.Deferred }},
	{helmOpDesc("helmop_status_clusters_pinned", "Number of selected Clusters whose release a user has pinned to "+
		"another HelmOp revision."), func(c *addonsv1.ClusterCounts) int32 { return c.Pinned }},
}

// rolloutValues are the metrics of status.rollout of a HelmOp.
var rolloutValues = []struct {
	desc *prometheus.Desc
	of   func(*addonsv1.RolloutStatus) int64
}{
	{helmOpDesc("helmop_status_rollout_revision", "Number of the current HelmOp revision."),
		func(r *addonsv1.RolloutStatus) int64 { return r.Revision }},
	{helmOpDesc("helmop_status_rollout_last_good_revision", "Number of the last known good HelmOp revision; 0 is none."),
		func(r *addonsv1.RolloutStatus) int64 { return r.LastGoodRevision }},
	{helmOpDesc("helmop_status_rollout_clusters_updated", "Number of selected Clusters to which the current HelmOp "+
		"revision is assigned."), func(r *addonsv1.RolloutStatus) int64 { return int64(r.Updated) }},
	{helmOpDesc("helmop_status_rollout_clusters_done", "Number of updated Clusters that have been healthy for their "+
		"soak time."), func(r *addonsv1.RolloutStatus) int64 { return int64(r.Done) }},
	{helmOpDesc("helmop_status_rollout_clusters_in_flight", "Number of Clusters that are updating."),
		func(r *addonsv1.RolloutStatus) int64 { return int64(r.InFlight) }},
	{helmOpDesc("helmop_status_rollout_clusters_failed", "Number of failures in a rollout that count for maxFailures."),
		func(r *addonsv1.RolloutStatus) int64 { return int64(r.Failed) }},
}

// observedConditions are the conditions of a HelmOp that have metrics. The conditions of other controllers have no
// metrics, so that the number of series has a limit.
var observedConditions = []string{
	addonsv1.ReadyCondition, addonsv1.ResolvedCondition, addonsv1.VerifiedCondition, addonsv1.RollingOutCondition,
	addonsv1.ApprovedCondition, addonsv1.StalledCondition, addonsv1.DeletingCondition, addonsv1.DeletionsHeldCondition,
	addonsv1.MovableCondition, addonsv1.ClusterBeingMovedCondition, addonsv1.PausedCondition,
}

var (
	conditionStatuses = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}

	rolloutPhases = []addonsv1.RolloutPhase{
		addonsv1.RolloutPhaseProgressing, addonsv1.RolloutPhaseComplete, addonsv1.RolloutPhasePaused,
		addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted,
	}
)

// stateCollector reads the state of HelmOps and releases during a scrape. It keeps no state, so the series of deleted
// HelmOps and Clusters disappear with the next scrape. The number of series depends on the number of HelmOps and of
// Clusters, but not on their product.
type stateCollector struct {
	reader client.Reader
}

// NewStateCollector returns the collector of the metrics that are read from the cache.
func NewStateCollector(reader client.Reader) prometheus.Collector {
	return &stateCollector{reader: reader}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		releasesDesc, reachableDesc, conditionDesc, reasonDesc, deletionsWaitingDesc, phaseDesc, startedDesc,
	} {
		descs <- desc
	}
	for _, count := range clusterCounts {
		descs <- count.desc
	}
	for _, value := range rolloutValues {
		descs <- value.desc
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	helmOps, releases := &addonsv1.HelmOpList{}, &addonsv1.HelmOpReleaseList{}
	if err := c.reader.List(ctx, helmOps, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(conditionDesc, err)
	}
	for i := range helmOps.Items {
		collectHelmOp(&helmOps.Items[i], out)
	}
	if err := c.reader.List(ctx, releases, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(releasesDesc, err)
	}
	collectReleases(releases.Items, out)
	collectClusters(releases.Items, out)
}

// gauge returns a sample of a metric.
func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// toFloat returns 1 for true and 0 for false.
func toFloat(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

func collectHelmOp(helmOp *addonsv1.HelmOp, out chan<- prometheus.Metric) {
	namespace, name, status := helmOp.Namespace, helmOp.Name, &helmOp.Status
	for _, condition := range status.Conditions {
		if !slices.Contains(observedConditions, condition.Type) {
			continue
		}
		out <- gauge(reasonDesc, 1, namespace, name, condition.Type, condition.Reason)
		for _, of := range conditionStatuses {
			out <- gauge(conditionDesc, toFloat(condition.Status == of), namespace, name, condition.Type,
				strings.ToLower(string(of)))
		}
	}
	if status.Deletions != nil && status.Deletions.Waiting > 0 {
		out <- gauge(deletionsWaitingDesc, float64(status.Deletions.Waiting), namespace, name)
	}
	if status.Clusters != nil {
		for _, count := range clusterCounts {
			out <- gauge(count.desc, float64(count.of(status.Clusters)), namespace, name)
		}
	}
	if status.Rollout == nil {
		return
	}
	for _, value := range rolloutValues {
		out <- gauge(value.desc, float64(value.of(status.Rollout)), namespace, name)
	}
	if started := status.Rollout.StartedAt; !started.IsZero() {
		out <- gauge(startedDesc, float64(started.Unix()), namespace, name)
	}
	current := status.Rollout.Phase
	if current == "" {
		current = addonsv1.RolloutPhaseProgressing
	}
	for _, phase := range rolloutPhases {
		out <- gauge(phaseDesc, toFloat(phase == current), namespace, name, string(phase))
	}
}

func collectReleases(releases []addonsv1.HelmOpRelease, out chan<- prometheus.Metric) {
	type key struct{ namespace, helmOp, ready, reason string }
	counts := map[key]int{}
	for i := range releases {
		release := &releases[i]
		k := key{namespace: release.Namespace, helmOp: release.Labels[addonsv1.HelmOpNameLabel], ready: "Unknown"}
		if ready := conditions.Get(release, addonsv1.ReadyCondition); ready != nil {
			k.ready, k.reason = string(ready.Status), ready.Reason
		}
		counts[k]++
	}
	for k, n := range counts {
		out <- gauge(releasesDesc, float64(n), k.namespace, k.helmOp, k.ready, k.reason)
	}
}

// collectClusters reports which Clusters are reachable. A Cluster with several releases is unreachable if the status of
// any of them says so.
func collectClusters(releases []addonsv1.HelmOpRelease, out chan<- prometheus.Metric) {
	reachable := map[client.ObjectKey]bool{}
	for i := range releases {
		release := &releases[i]
		cluster, known := apiutil.ClusterKey(release), apiutil.ReachabilityOf(release)
		if cluster == clusterlink.Management || known == nil {
			continue
		}
		answers, counted := reachable[cluster]
		reachable[cluster] = known.Status == metav1.ConditionTrue && (answers || !counted)
	}
	for cluster, answers := range reachable {
		out <- gauge(reachableDesc, toFloat(answers), cluster.Namespace, cluster.Name)
	}
}
