// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/queries"
)

// described matches what a prometheus.Desc prints: the name of a metric, and its constant and variable labels.
var described = regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: .*, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// TestQueries checks that the registry of the manager has all metrics and labels in the alerts and the dashboard, with
// the values that these compare with.
func TestQueries(t *testing.T) {
	if err := observeBudgets(bytebudget.New(1), actionmemory.NewBudget(1)); err != nil {
		t.Fatal(err)
	}
	helmOp := controllertest.UpToDateHelmOp(t, "calico", func(h *addonsv1.HelmOp) {
		for _, condition := range []string{
			addonsv1.ReadyCondition, addonsv1.ResolvedCondition, addonsv1.VerifiedCondition, addonsv1.StalledCondition,
			addonsv1.DeletionsHeldCondition, addonsv1.PausedCondition, addonsv1.ApprovedCondition,
		} {
			report.SetCondition(h, condition, report.True, "Reason", "")
		}
	})
	state := prometheus.NewRegistry()
	state.MustRegister(monitoring.NewStateCollector(controllertest.StoreOf(t, helmOp)),
		monitoring.NewReadsGauge(func() float64 { return 0 }))

	have := queries.Metrics{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		state.Describe(descs)
		metrics.Registry.(prometheus.Collector).Describe(descs)
	}()
	for desc := range descs {
		match := described.FindStringSubmatch(desc.String())
		if match == nil {
			t.Fatalf("the description of a metric has an unknown form: %s", desc)
		}
		have[match[1]] = map[string][]string{}
		for _, label := range strings.Split(match[2]+","+match[3], ",") {
			name, _, _ := strings.Cut(label, "=")
			have[match[1]][name] = nil
		}
	}
	families, err := prometheus.Gatherers{state, metrics.Registry}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				have.Add(family.GetName(), label.GetName(), label.GetValue())
			}
		}
	}
	for _, err := range queries.Check(have, "condition", "phase") {
		t.Error(err)
	}
}

// TestEndedRenderersBeginAtZero checks that each limit of the rendering has a series before it is exceeded: otherwise
// the alert about it would not see the first time.
func TestEndedRenderersBeginAtZero(t *testing.T) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "helmop_renderers_ended_total" {
				have[metric.GetLabel()[0].GetValue()] = true
			}
		}
	}
	for _, limit := range []sandbox.Limit{sandbox.LimitMemory, sandbox.LimitCPU, sandbox.LimitTime, sandbox.LimitOutput,
		sandbox.LimitCrash} {
		if !have[string(limit)] {
			t.Errorf("the limit %s has no series", limit)
		}
	}
}
