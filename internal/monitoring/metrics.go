// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// These metrics are set when something happens. The Help of each metric says what it counts.
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

	registryRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_registry_requests_total",
		Help: "Number of requests to registries, by host, kind (manifest, blob, tags, referrers, token, redirect, index) " +
			"and HTTP status (0 without a response).",
	}, []string{"registry", "kind", "status"})

	registryBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_registry_received_bytes_total",
		Help: "Number of bytes received from registries, by host and kind.",
	}, []string{"registry", "kind"})

	RecordsLeft = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "helmop_records_left_total",
		Help: "Number of unused release records whose deletion failed.",
	})
)

func init() {
	metrics.Registry.MustRegister(
		actionDuration,
		TimeToDeployed,
		driftCorrections,
		SlotsInUse,
		SlotsWaiting,
		registrySeries,
		RecordsLeft,
		newBuildInfo(),
	)
}

// newBuildInfo returns the metric with the version of this build. Its value is always 1.
func newBuildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_build_info",
		Help: "1, with the version, the Git commit and the Go version of the manager.",
		ConstLabels: prometheus.Labels{
			"version": version.Version, "commit": version.Commit, "goversion": runtime.Version(),
		},
	})
	info.Set(1)
	return info
}

// NewReadsGauge returns a gauge of the status reads that are running in workload clusters.
func NewReadsGauge(count func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "helmop_cluster_reads",
		Help: "Number of status reads of releases in workload clusters that are running.",
	}, count)
}

// ObserveAction counts an action, and records how long it took.
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
