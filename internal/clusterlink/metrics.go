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
	probes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_cluster_probes_total",
		Help: "Total number of probes of the API servers of Clusters, by result (success or error).",
	}, []string{"result"})
)

func init() { metrics.Registry.MustRegister(connected, probes) }
