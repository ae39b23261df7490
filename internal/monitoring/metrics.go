// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// scrapeTimeout limits the listing of releases during a scrape. The list comes from a cache.
const scrapeTimeout = 10 * time.Second

// Metrics that are set when something happens. The Help of each says what it counts.
var (
	actionDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "helmop_release_action_duration_seconds",
		Help: "Duration of Helm actions in workload clusters in seconds, by action (Install, Upgrade, Rollback, Test, " +
			"Uninstall) " +
			"and result (success, failure).",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 150, 300},
	}, []string{"action", "result"})

	TimeToDeployed = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "helmop_cluster_initialized_to_deployed_seconds",
		Help: "Time in seconds from the initialization of a Cluster's control plane to the first deployment of a release, " +
			"for Clusters that were initialized after their HelmOp was created.",
		Buckets: []float64{.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800},
	})

	driftCorrections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_drift_corrections_total",
		Help: "Number of corrections of drifted objects in workload clusters, by result (success, failure).",
	}, []string{"result"})

	SlotsInUse = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_action_slots_in_use",
		Help: "Number of Helm actions, drift checks and corrections in workload clusters that are running or starting.",
	})

	SlotsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_action_slots_waiting",
		Help: "Number of releases that wait because a concurrency limit of the manager, their Cluster or their HelmOp is " +
			"reached.",
	})

	ClustersUnresponsive = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_clusters_in_doubt",
		Help: "Number of Clusters whose API server was unresponsive at the last check of a release. Workers do not wait " +
			"for them.",
	})

	registryRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_registry_requests_total",
		Help: "Number of requests to registries, by host, kind (manifest, blob, tags, referrers, token, redirect) " +
			"and HTTP status (0 without a response).",
	}, []string{"registry", "kind", "status"})

	registryBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_registry_received_bytes_total",
		Help: "Number of bytes received from registries, by host and kind.",
	}, []string{"registry", "kind"})

	RecordsLeft = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "helmop_records_left_total",
		Help: "Number of unused release records, in registries or in parts, whose deletion failed.",
	})

	releasesDesc = prometheus.NewDesc("helmop_releases",
		"Number of releases by HelmOp, and status (True, False, Unknown) and reason of their Ready condition.",
		[]string{"namespace", "helmop", "ready", "reason"}, nil)

	deletionsWaitingDesc = prometheus.NewDesc("helmop_deletions_waiting",
		"Number of releases of a HelmOp whose deletion waits for confirmation, see spec.maxDeletions.",
		[]string{"namespace", "helmop"}, nil)

	conditionsDesc = prometheus.NewDesc("helmop_condition",
		"1 for each condition of a HelmOp, with its status and reason.",
		[]string{"namespace", "helmop", "type", "status", "reason"}, nil)
)

func init() {
	metrics.Registry.MustRegister(
		actionDuration,
		TimeToDeployed,
		driftCorrections,
		SlotsInUse,
		SlotsWaiting,
		ClustersUnresponsive,
		registrySeries,
		RecordsLeft,
	)
}

// NewReadsGauge returns a gauge of the status reads in workload clusters that are running.
func NewReadsGauge(count func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "helmop_cluster_reads",
		Help: "Number of status reads of releases in workload clusters that are running.",
	}, count)
}

// stateCollector reads the state of HelmOps and releases during a scrape. It keeps no state, so metrics of deleted
// HelmOps disappear.
type stateCollector struct {
	reader client.Reader
}

// NewStateCollector returns the collector of the metrics that are read from the cache.
func NewStateCollector(reader client.Reader) prometheus.Collector {
	return &stateCollector{reader: reader}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- releasesDesc
	descs <- conditionsDesc
	descs <- deletionsWaitingDesc
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.collectReleases(ctx, out)
	c.collectConditions(ctx, out)
}

func (c *stateCollector) collectConditions(ctx context.Context, out chan<- prometheus.Metric) {
	list := &addonsv1.HelmOpList{}
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(conditionsDesc, err)
		return
	}
	for i := range list.Items {
		helmOp := &list.Items[i]
		if deletions := helmOp.Status.Deletions; deletions != nil && deletions.Waiting > 0 {
			out <- prometheus.MustNewConstMetric(deletionsWaitingDesc, prometheus.GaugeValue,
				float64(deletions.Waiting), helmOp.Namespace, helmOp.Name)
		}
		for _, condition := range helmOp.Status.Conditions {
			out <- prometheus.MustNewConstMetric(conditionsDesc, prometheus.GaugeValue, 1,
				helmOp.Namespace, helmOp.Name, condition.Type, string(condition.Status), condition.Reason)
		}
	}
}

func (c *stateCollector) collectReleases(ctx context.Context, out chan<- prometheus.Metric) {
	list := &addonsv1.HelmOpReleaseList{}
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(releasesDesc, err)
		return
	}
	type key struct{ namespace, helmOp, ready, reason string }
	counts := map[key]int{}
	for i := range list.Items {
		release := &list.Items[i]
		k := key{namespace: release.Namespace, helmOp: release.Labels[addonsv1.HelmOpNameLabel], ready: "Unknown"}
		if ready := conditions.Get(release, addonsv1.ReadyCondition); ready != nil {
			k.ready, k.reason = string(ready.Status), ready.Reason
		}
		counts[k]++
	}
	for k, n := range counts {
		out <- prometheus.MustNewConstMetric(releasesDesc, prometheus.GaugeValue,
			float64(n), k.namespace, k.helmOp, k.ready, k.reason)
	}
}

// ObserveAction counts an action and its time.
func ObserveAction(action string, started, ended time.Time, err error) {
	actionDuration.WithLabelValues(action, resultOf(err)).Observe(ended.Sub(started).Seconds())
}

// ObserveCorrection counts a correction of drift.
func ObserveCorrection(err error) { driftCorrections.WithLabelValues(resultOf(err)).Inc() }

func resultOf(err error) string {
	if err != nil {
		return "failure"
	}
	return "success"
}
