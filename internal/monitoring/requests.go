// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/metrics" // It sets clientmetrics.RequestResult before init of this package.
)

// workloadHost is the label host of the requests to all workload clusters.
const workloadHost = "workload-cluster"

// apiRequests limit the series of rest_client_requests_total.
var apiRequests apiRequestMetric

func init() {
	apiRequests.ResultMetric = clientmetrics.RequestResult
	clientmetrics.RequestResult = &apiRequests
}

// apiRequestMetric counts the requests to API servers. client-go adds the host as a label, and such a series never
// ends. The authors of kubeconfigs choose the hosts of workload clusters, so all these hosts share their series.
type apiRequestMetric struct {
	clientmetrics.ResultMetric
	// management is the host of the management cluster; nil until ObserveManagementCluster.
	management atomic.Pointer[string]
}

// Increment implements clientmetrics.ResultMetric.
func (m *apiRequestMetric) Increment(ctx context.Context, code, method, host string) {
	if management := m.management.Load(); management == nil || host != *management {
		host = workloadHost
	}
	// Without a response, client-go's code is not a number.
	if status, err := strconv.Atoi(code); err == nil {
		code = statusLabel(status)
	}
	m.ResultMetric.Increment(ctx, code, method, host)
}

// ObserveManagementCluster makes rest_client_requests_total name the host of this config. It does not name other hosts.
func ObserveManagementCluster(config *rest.Config) error {
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("reading the address of the management cluster: %w", err)
	}
	apiRequests.management.Store(&url.Host)
	return nil
}
