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

package controllers

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	// maxObservedRegistries is how many registries have metrics: those that were asked last. Users choose the hosts.
	maxObservedRegistries = 200
	// otherStatus is the label of answers whose status HTTP does not know.
	otherStatus = "other"
)

// registryMetrics count the requests to registries. It is safe for concurrent use.
type registryMetrics struct {
	requests, bytes *prometheus.CounterVec

	mu    sync.Mutex
	hosts *lru.LRU[string, struct{}]
}

func newRegistryMetrics(requests, bytes *prometheus.CounterVec) *registryMetrics {
	m := &registryMetrics{requests: requests, bytes: bytes}
	// It fails only if the size is not positive.
	m.hosts, _ = lru.NewLRU(maxObservedRegistries, func(host string, _ struct{}) {
		of := prometheus.Labels{"registry": host}
		m.requests.DeletePartialMatch(of)
		m.bytes.DeletePartialMatch(of)
	})
	return m
}

func (m *registryMetrics) count(e oci.RequestEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts.Add(e.Registry, struct{}{})
	m.requests.WithLabelValues(e.Registry, e.Kind, statusLabel(e.Status)).Inc()
	m.bytes.WithLabelValues(e.Registry, e.Kind).Add(float64(e.Bytes))
}

// statusLabel returns an HTTP status as a label; 0 means that there was no answer.
func statusLabel(status int) string {
	if status != 0 && http.StatusText(status) == "" {
		return otherStatus
	}
	return strconv.Itoa(status)
}

// RegistryObserver counts the requests to registries, and logs what is wrong with the manager's own files about them.
func RegistryObserver(log logr.Logger) oci.Observer {
	counted := newRegistryMetrics(registryRequests, registryBytes)
	return oci.Observer{
		Request: counted.count,
		File: func(e oci.FileEvent) {
			log.Error(e.Err, "A file about registries cannot be used: what it was before holds on, or what needs it fails", "file", e.Path)
		},
	}
}
