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

package monitoring

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	renderersStarted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "helmop_renderers_started_total",
		Help: "Child processes that were started to render charts.",
	})

	renderersEnded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "helmop_renderers_ended_total",
		Help: "Child processes that were ended while they rendered a chart, by limit (memory, cpu, time, output, crash).",
	}, []string{"limit"})
)

func init() { metrics.Registry.MustRegister(renderersStarted, renderersEnded) }

// RendererStarted counts a child process that renders charts.
func RendererStarted() { renderersStarted.Inc() }

// RendererEnded counts a child process that was ended by a limit.
func RendererEnded(limit string) { renderersEnded.WithLabelValues(limit).Inc() }
