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

package clusterlink

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	connected = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "helmop_clusters_connected",
		Help: "Number of Clusters whose API server answers.",
	})
	probes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_cluster_probes_total",
		Help: "Probes of the API servers of Clusters by result, success or error.",
	}, []string{"result"})
)

func init() { metrics.Registry.MustRegister(connected, probes) }
