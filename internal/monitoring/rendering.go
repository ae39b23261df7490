// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

var (
	renderersStarted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "helmop_renderers_started_total",
		Help: "Number of child processes that were started to render charts.",
	})

	renderersEnded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_renderers_ended_total",
		Help: "Number of child processes that were terminated while they rendered a chart, by limit (memory, cpu, time, " +
			"output, crash).",
	}, []string{"limit"})
)

func init() {
	metrics.Registry.MustRegister(renderersStarted, renderersEnded)
	// The functions rate and increase of Prometheus do not see the first value of a series, so each series begins at 0.
	for _, limit := range sandbox.AllLimits {
		renderersEnded.WithLabelValues(string(limit))
	}
}

// RendererStarted counts a child process that renders charts.
func RendererStarted() { renderersStarted.Inc() }

// RendererEnded counts a child process that was ended by a limit.
func RendererEnded(limit sandbox.Limit) { renderersEnded.WithLabelValues(string(limit)).Inc() }
