// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

func TestRegistryMetricsAreBounded(t *testing.T) {
	t.Parallel()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests"}, []string{"registry", "kind", "status"})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bytes"}, []string{"registry", "kind"})
	m := newRegistryMetrics(requests, bytes)
	for i := range 3 * maxObservedRegistries {
		m.count(transport.RequestEvent{Registry: "kept.example", Kind: "manifest", Status: 200, Bytes: 2})
		m.count(transport.RequestEvent{Registry: fmt.Sprintf("%d.example", i), Kind: "manifest", Status: 700 + i, Bytes: 2})
	}
	if got := testutil.CollectAndCount(requests) + testutil.CollectAndCount(bytes); got != 2*maxObservedRegistries {
		t.Errorf("%d series", got)
	}
	if got := testutil.ToFloat64(requests.WithLabelValues("kept.example", "manifest",
		"200")); got != 3*maxObservedRegistries {
		t.Errorf("%v requests to a registry that is asked all the time", got)
	}
	last := fmt.Sprintf("%d.example", 3*maxObservedRegistries-1)
	if got := testutil.ToFloat64(requests.WithLabelValues(last, "manifest", otherStatus)); got != 1 {
		t.Errorf("%v requests with a status that HTTP does not know", got)
	}
}

// TestRegistryMetricsExpire checks that a registry loses its metrics when it is no longer used, and others keep them.
func TestRegistryMetricsExpire(t *testing.T) {
	t.Parallel()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests"}, []string{"registry", "kind", "status"})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bytes"}, []string{"registry", "kind"})
	m, now := newRegistryMetrics(requests, bytes), controllertest.Noon
	m.now = func() time.Time { return now }
	for range 25 {
		m.count(transport.RequestEvent{Registry: "asked.example", Kind: "manifest", Status: 200})
		if now.Equal(controllertest.Noon) {
			m.count(transport.RequestEvent{Registry: "gone.example", Kind: "manifest", Status: 200})
		}
		if got := testutil.CollectAndCount(m); now.Sub(controllertest.Noon) < registrySeriesAge && got != 4 {
			t.Fatalf("%d series after %s", got, now.Sub(controllertest.Noon))
		}
		now = now.Add(time.Hour)
	}
	if got := testutil.CollectAndCount(m); got != 2 ||
		testutil.ToFloat64(requests.WithLabelValues("asked.example", "manifest", "200")) != 25 {
		t.Errorf("%d series are left", got)
	}
}
