// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// interval is the time between two samples of a recorded series, and between two evaluations of the rules.
const interval = time.Minute

// sample is a recorded sample. It implements chunks.Sample together with the methods for samples without histograms.
type sample struct {
	chunks.Sample
	at    int64
	value float64
}

func (s sample) ST() int64                { return 0 }
func (s sample) T() int64                 { return s.at }
func (s sample) F() float64               { return s.value }
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample      { return s }

// recording holds recorded series. It implements storage.Queryable by storage.MockQueryable.
type recording []storage.Series

// record parses series in the notation of promtool: a series, then its values, in each line. Two managers run in an
// installation with a second replica, and both read HelmOps from their caches. So each series of a HelmOp or a Cluster
// is recorded twice.
func record(t *testing.T, text string) recording {
	t.Helper()
	var recorded recording
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		metric, values, err := promQL.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		pods := []string{"leader"}
		if metric.Has("helmop") || metric.Has("cluster_name") {
			pods = append(pods, "standby")
		}
		for _, pod := range pods {
			var samples []chunks.Sample
			for i, value := range values {
				if !value.Omitted {
					samples = append(samples, sample{at: int64(i) * interval.Milliseconds(), value: value.Value})
				}
			}
			instance := cmp.Or(metric.Get("instance"), pod+":8443")
			lset := labels.NewBuilder(metric).Set("pod", pod).Set("instance", instance).Labels()
			recorded = append(recorded, storage.NewListSeries(lset, samples))
		}
	}
	return recorded
}

func (r recording) queryable() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			selected := &seriesSet{}
			for _, series := range r {
				matches := !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
					return !m.Matches(series.Labels().Get(m.Name))
				})
				if matches {
					selected.series = append(selected.series, series)
				}
			}
			return selected
		},
	}}
}

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.next-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// evaluator evaluates queries on recorded series.
type evaluator struct {
	engine   *promql.Engine
	recorded recording
}

func newEvaluator(recorded recording) *evaluator {
	return &evaluator{recorded: recorded, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL,
	})}
}

// query returns the result of a query at a time after the beginning of the recording.
func (e *evaluator) query(t *testing.T, query string, at time.Duration) promql.Vector {
	t.Helper()
	run, err := e.engine.NewInstantQuery(t.Context(), e.recorded.queryable(), nil, query, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer run.Close()
	result, err := run.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return slices.Clone(result)
}

// active returns, for each alert of a rule that is active at some time, the samples in the minutes in which it is
// active.
func (e *evaluator) active(t *testing.T, rule rulefmt.Rule, until time.Duration) promql.Matrix {
	t.Helper()
	begin := time.Unix(0, 0)
	run, err := e.engine.NewRangeQuery(t.Context(), e.recorded.queryable(), nil, rule.Expr, begin, begin.Add(until),
		interval)
	if err != nil {
		t.Fatalf("%s: %v", rule.Expr, err)
	}
	result, err := run.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", rule.Expr, err)
	}
	return result
}

// firing returns the alerts of a rule that fire in a minute, with their summaries. An alert fires if it was active in
// each minute for the time in the rule.
func firing(t *testing.T, rule rulefmt.Rule, active promql.Matrix, minute int) []string {
	t.Helper()
	var firing []string
	for _, series := range active {
		at := slices.IndexFunc(series.Floats, func(p promql.FPoint) bool {
			return p.T == int64(minute)*interval.Milliseconds()
		})
		if at < 0 {
			continue
		}
		since := at
		for since > 0 && series.Floats[since].T-series.Floats[since-1].T == interval.Milliseconds() {
			since--
		}
		point := series.Floats[at]
		if time.Duration(point.T-series.Floats[since].T)*time.Millisecond >= time.Duration(rule.For) {
			s := promql.Sample{Metric: series.Metric, T: point.T, F: point.F}
			firing = append(firing, rule.Alert+": "+expand(t, rule.Annotations["summary"], s))
			expand(t, rule.Annotations["description"], s)
		}
	}
	return firing
}

// expand expands the template of an annotation.
func expand(t *testing.T, text string, s promql.Sample) string {
	t.Helper()
	const definitions = "{{$labels := .Labels}}{{$value := .Value}}"
	noQuery := func(context.Context, string, time.Time) (promql.Vector, error) {
		return nil, fmt.Errorf("annotations must not query")
	}
	expanded, err := template.NewTemplateExpander(t.Context(), definitions+text, "annotation",
		template.AlertTemplateData(s.Metric.Map(), nil, "", s), model.Time(s.T), noQuery, nil, nil).Expand()
	switch {
	case err != nil:
		t.Errorf("%s: %v", text, err)
	case strings.Contains(expanded, "<no value>"), strings.Contains(expanded, "//"), strings.Contains(expanded, " /"):
		t.Errorf("%q has a label that the alert does not have: %q", text, expanded)
	}
	return expanded
}
