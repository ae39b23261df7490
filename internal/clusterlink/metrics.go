// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	connected = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_clusters_connected",
		Help: "Number of Clusters whose API server responds.",
	})
	unresponsive = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_clusters_unresponsive",
		Help: "Number of Clusters whose API server was unresponsive at the last check of a release. Workers do not wait " +
			"for them.",
	})
	probes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_cluster_probes_total",
		Help: "Number of probes of the API servers of Clusters, by result (success, error).",
	}, []string{"result"})
)

func init() { metrics.Registry.MustRegister(connected, unresponsive, probes) }
