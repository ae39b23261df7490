// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestWorkloadHostsHaveNoSeries checks that no metric of any package has the address of a workload cluster, or each
// status that such a cluster invents.
func TestWorkloadHostsHaveNoSeries(t *testing.T) {
	t.Parallel()
	serve := func(status int) *rest.Config {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		return &rest.Config{Host: server.URL}
	}
	// The test counts the requests. The responses are not valid.
	ask := func(config *rest.Config) (host string) {
		_, _ = discovery.NewDiscoveryClientForConfigOrDie(config).ServerVersion()
		return strings.TrimPrefix(config.Host, "http://")
	}
	own := serve(http.StatusOK)
	if err := ObserveManagementCluster(own); err != nil {
		t.Fatal(err)
	}
	management := ask(own)
	workloads := []string{ask(serve(http.StatusOK)), ask(serve(298)), ask(serve(299))}

	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
				for _, host := range workloads {
					if strings.Contains(label.GetValue(), host) {
						t.Errorf("%s has the label %s=%q", family.GetName(), label.GetName(), label.GetValue())
					}
				}
			}
			if family.GetName() == "rest_client_requests_total" {
				counted[labels["host"]+" "+labels["code"]] += int(metric.GetCounter().GetValue())
			}
		}
	}
	for series, want := range map[string]int{
		management + " 200": 1, workloadHost + " 200": 1, workloadHost + " " + otherStatus: 2,
	} {
		if counted[series] != want {
			t.Errorf("%d requests in series %q, want %d; all: %v", counted[series], series, want, counted)
		}
	}
}
