// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	// maxObservedRegistries is the largest number of registries with metrics. Users choose the hosts, so only the most
	// recently used registries are kept.
	maxObservedRegistries = 200
	// registrySeriesAge is how long an unused registry keeps its metrics.
	registrySeriesAge = 24 * time.Hour
	// otherStatus is the label of responses with an unknown HTTP status.
	otherStatus = "other"
)

// registrySeries are the metrics of the registries that the manager uses.
var registrySeries = newRegistryMetrics(registryRequests, registryBytes)

// registryMetrics count the requests to registries. They are a prometheus.Collector and safe for concurrent use.
type registryMetrics struct {
	requests, bytes *prometheus.CounterVec
	now             func() time.Time

	mu sync.Mutex
	// hosts holds the registries that have metrics, with the time of the last request.
	hosts *lru.LRU[string, time.Time]
}

func newRegistryMetrics(requests, bytes *prometheus.CounterVec) *registryMetrics {
	m := &registryMetrics{requests: requests, bytes: bytes, now: time.Now}
	// NewLRU fails only if the size is not positive.
	m.hosts, _ = lru.NewLRU(maxObservedRegistries, func(host string, _ time.Time) {
		of := prometheus.Labels{"registry": host}
		m.requests.DeletePartialMatch(of)
		m.bytes.DeletePartialMatch(of)
	})
	return m
}

func (m *registryMetrics) count(e transport.RequestEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts.Add(e.Registry, m.now())
	m.requests.WithLabelValues(e.Registry, e.Kind, statusLabel(e.Status)).Inc()
	m.bytes.WithLabelValues(e.Registry, e.Kind).Add(float64(e.Bytes))
}

// Describe implements prometheus.Collector.
func (m *registryMetrics) Describe(descs chan<- *prometheus.Desc) {
	m.requests.Describe(descs)
	m.bytes.Describe(descs)
}

// Collect implements prometheus.Collector. Registries that were not used for registrySeriesAge are dropped.
func (m *registryMetrics) Collect(out chan<- prometheus.Metric) {
	m.expire()
	m.requests.Collect(out)
	m.bytes.Collect(out)
}

func (m *registryMetrics) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		_, asked, ok := m.hosts.GetOldest()
		if !ok || m.now().Sub(asked) < registrySeriesAge {
			return
		}
		m.hosts.RemoveOldest()
	}
}

// statusLabel returns an HTTP status as a label; 0 means that there was no response.
func statusLabel(status int) string {
	if status != 0 && http.StatusText(status) == "" {
		return otherStatus
	}
	return strconv.Itoa(status)
}

// RegistryObserver returns an observer that counts the requests to registries, and logs errors in the manager's own
// configuration files for registries.
func RegistryObserver(log logr.Logger) oci.Observer {
	return oci.Observer{
		Request: registrySeries.count,
		File: func(e oci.FileEvent) {
			log.Error(
				e.Err,
				"A file about registries is invalid: its last valid content stays in use; without one, requests that need it fail",
				"file",
				e.Path,
			)
		},
	}
}
